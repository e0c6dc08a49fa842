"""Made-up machines, measurements, jobs and GPUs, for tests."""

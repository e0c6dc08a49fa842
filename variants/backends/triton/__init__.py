"""Triton for GPUs: kernels and schedules become readable Triton modules."""

"""Profiling jobs."""

"""Profiling jobs, and what workers on other machines lease of them."""

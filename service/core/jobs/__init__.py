"""Profiling jobs, and what workers on other machines are lent of them."""

"""Profiling jobs: a queue in the store's database, whose work is lent to workers (ADR 21)."""

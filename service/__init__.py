"""Graphs, models and inference as a service: `core` knows no HTTP, `http` is thin."""

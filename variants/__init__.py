"""Graphs, programs, plans, kernels and how they are compiled and run."""

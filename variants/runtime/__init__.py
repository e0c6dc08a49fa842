"""Runs plans: binds them to graphs, accounts for memory, launches kernels."""

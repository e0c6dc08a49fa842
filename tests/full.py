"""What `make test-full` runs, and `make test` has no time for."""

import os

import pytest

FULL = bool(os.environ.get("HETUNE_FULL_MATRIX"))
whole = pytest.mark.skipif(not FULL, reason="a whole benchmark: `make test-full` runs it")
"""Benchmarks that start one service, or copy of the checkout, after the other."""

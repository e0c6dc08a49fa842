"""What `make test-full` runs, and `make test` has no time for."""

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

FULL = bool(os.environ.get("HETUNE_FULL_MATRIX"))


def every(step: int, cases: Iterable[T], first: int = 0) -> list[T]:
    """A sweep's cases: each `step`-th, from `first` on, or with HETUNE_FULL_MATRIX=1 all.

    A step that divides none of the sweep's sides lets all values of each have their turn.
    """
    found = list(cases)
    return found if FULL else found[first % min(step, len(found)) :: step]


whole = pytest.mark.skipif(not FULL, reason="a whole benchmark: `make test-full` runs it")
"""Benchmarks that start one service, or copy of the checkout, after the other."""

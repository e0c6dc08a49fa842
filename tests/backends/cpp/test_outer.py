"""Sums of outer products into the rows of types."""

import pytest
import torch

from hetune.variants.kernel.nodes import Schedule
from hetune.variants.testing.graphs import long_sums

from ..outers import OUTERS, OUTERS_OF_SUMS, outer

SIZES = ((1, 64, 64), (4, 7, 5), (2, 63, 1), (1, 1, 7), (3, 5, 40), (1, 130, 200))
LINES = OUTERS | OUTERS_OF_SUMS
NARROW = Schedule(lanes=8, row_tile=6, col_vectors=2)


@pytest.mark.parametrize("number", range(len(LINES)))
def test_a_sum_equals_the_interpreter(number, check):
    line = list(LINES.values())[number]
    check(outer(line, *SIZES[number % len(SIZES)]), NARROW if number % 2 else None)


def test_long_sums_keep_their_digits(check):
    """Sums of what is far from zero: each part of a chunk is summed on its own."""
    launch = outer("w[edge] = c * x[src], y[dst]", 1, 3, 9)
    check(launch, only={"long": long_sums()}, of=torch.abs, more_threads=3)

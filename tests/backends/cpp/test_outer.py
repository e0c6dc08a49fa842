"""Sums of outer products into the rows of types."""

import pytest
import torch

from hetune.variants.backends.base import TERMS
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.random_values import random_values
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


def test_denormals_take_no_time_because_they_are_0(backend, place_of, graphs):
    """Sums of normal numbers stay exact, down to the smallest; so do the caller's denormals."""
    launch = outer("v[node] = x, y", 1, 64, 64)
    place = place_of(graphs["plain"])
    run = backend.bind(launch, Schedule(), place)
    values = random_values(launch, place.index, place.graph, torch.float32)
    x, y = values["x"].mul_(4).trunc_(), values["y"].mul_(4).trunc_()
    y *= 2.0**-126
    want = torch.zeros_like(values["v"], dtype=torch.float64)
    each = x.double().mT @ y.double()
    want.view(-1, 64, 64).index_add_(0, place.graph.ntype, each)
    values[TERMS] = torch.full((300 * 64 * 64,), torch.nan)
    for more in (0.0, 2.0**-130):
        values["y"] = torch.where(y == 0, more, y)
        assert not run(values)
        assert torch.equal(values["v"].double(), want)
        assert torch.tensor([2.0**-130]).mul(1.0).item() > 0
    values["x"], values["y"] = x * 2.0**100, y * 2.0**126 * 2.0**100
    assert run(values), "a number outgrew a float"

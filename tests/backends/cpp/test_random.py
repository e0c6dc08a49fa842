"""Random launches: what the C++ code computes is what the interpreter computes."""

import pytest
from tests.full import every

from hetune.variants.kernel.nodes import Schedule
from hetune.variants.testing.launches import random_launch

SCHEDULES = (
    Schedule(block_nodes=64),
    Schedule(block_nodes=4, row_tile=4, col_vectors=2, lanes=8),
    Schedule(block_nodes=16, lanes=4, unroll=1, prefetch=0),
)


@pytest.mark.parametrize("seed", every(2, range(24)))
def test_a_random_launch_equals_the_interpreter(seed, check):
    check(random_launch(seed, (1, 3, 7, 16)), SCHEDULES[seed % 3])


@pytest.mark.parametrize("seed", [*every(4, range(24)), 110, 152])
def test_a_random_launch_of_wide_rows_equals_the_interpreter(seed, check):
    """Sums are wider than the registers; the last two have loops and stores beside these."""
    check(random_launch(seed, (160, 200)), SCHEDULES[seed % 3])

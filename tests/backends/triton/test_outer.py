"""Sums of outer products into the rows of types."""

import pytest
from tests.full import every

from hetune.variants.kernel.gpu_schedule import GpuSchedule

from ..outers import OUTERS, outer

SIZES = ((1, 20, 18), (2, 7, 5), (1, 70, 1))
SMALL = GpuSchedule(tile_rows=16, tile_columns=16, tile_k=16)


@pytest.mark.parametrize("number", every(2, range(len(OUTERS))))
def test_a_sum_equals_the_interpreter(number, check, small):
    line = list(OUTERS.values())[number]
    check(outer(line, *SIZES[number % 3]), small, SMALL if number % 2 else None)


def test_types_without_rows_have_zeros(check, empty):
    check(outer(OUTERS["edges"], 1, 3, 4), empty)

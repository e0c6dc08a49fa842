"""Elementwise functions before and after a product, in its own kernel."""

from itertools import product

import pytest
from tests.full import every

from hetune.variants.backends.triton.emit import emit
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.testing.row_launches import random_rows

from ..launches import ACTIVATED, ACTIVATED_PAIRS, FUNCTIONS, SOURCE_PAIRS

SMALL = GpuSchedule(tile_rows=16, tile_columns=16, tile_k=16, edges=2, elements=64)
SCHEDULES = {"default": GpuSchedule(), "small": SMALL}


def kernels(text: str, schedule: GpuSchedule) -> list[str]:
    return [k.function.name for k in emit(fused(parse(text), "cuda"), schedule).kernels]


def test_one_kernel_in_place_of_three():
    text = ACTIVATED.format(d=8, h=2, n=16, only=" only=dst fill")
    assert kernels(text, GpuSchedule()) == ["kernel_0", "kernel_0_fill"]
    apart = [k.function.name for k in emit(parse(text), GpuSchedule()).kernels]
    assert apart == ["kernel_0", "kernel_1", "kernel_1_fill", "kernel_2"]


@pytest.mark.parametrize(
    ("schedule", "only", "shape"),
    every(
        5,
        product(
            SCHEDULES,
            ("", " only=dst fill", " only=src fill"),
            [(1, 1), (7, 1), (63, 1), (1, 2), (7, 2), (18, 2)],
        ),
    ),
)
def test_rows_of_nodes(shape, only, schedule, check, small):
    """At 63 a schedule has several tiles of columns, and of terms."""
    d, h = shape
    check(parse(ACTIVATED.format(d=d, h=h, n=d * h, only=only)), small, SCHEDULES[schedule])


@pytest.mark.parametrize(("schedule", "d"), every(2, product(SCHEDULES, (1, 7, 33))))
def test_rows_of_a_group_s_pairs_and_edges(d, schedule, check, small):
    for rows, kind in (("dst_pair@a", "dst_pair@a"), ("edge@a", "edge"), ("edge", "edge")):
        check(parse(ACTIVATED_PAIRS.format(d=d, rows=rows, kind=kind)), small, SCHEDULES[schedule])


@pytest.mark.parametrize("d", [1, 7, 33])
def test_rows_of_source_pairs(d, check, small):
    """No launch has walks over them behind a product, but a product may have a tail."""
    check(parse(SOURCE_PAIRS.format(d=d)), small, SMALL)


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_functions_of_an_operand_and_its_padding(fn, check, small):
    const = ", const=0.25" if fn in ("scale", "leaky_relu") else ""
    text = ACTIVATED.replace("gelu(raw)", f"{fn}(raw{const})")
    text = text.format(d=5, h=1, n=5, only=" only=dst fill")
    assert len(kernels(text, GpuSchedule())) == 2
    check(parse(text), small)


def test_without_edges(check, empty):
    check(parse(ACTIVATED.format(d=5, h=2, n=10, only=" only=dst fill")), empty)


@pytest.mark.parametrize("seed", every(3, range(16)))
def test_a_random_product_with_walks_equals_the_interpreter(seed, check, small):
    check(random_rows(seed), small, SMALL if seed % 2 else None)

"""Elementwise functions before and after a product, in its own function."""

import re
from itertools import product

import pytest
from tests.full import every

from hetune.variants.backends.cpp.emit import emit
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.testing.row_launches import random_rows

from ..launches import ACTIVATED, ACTIVATED_PAIRS, FUNCTIONS, GATHERED, PAIRS, SOURCE_PAIRS

SCHEDULES = {
    "default": Schedule(block_nodes=64),
    "two columns": Schedule(block_nodes=4, row_tile=4, col_vectors=2, lanes=8),
    "no requests": Schedule(block_nodes=16, lanes=4, prefetch=0),
}
SHAPES = [(1, 1), (7, 1), (63, 1), (64, 1), (80, 1), (7, 2), (64, 2)]


def test_one_function_in_place_of_three():
    launch = fused(parse(ACTIVATED.format(d=8, h=2, n=16, only=" only=dst fill")), "cpu")
    assert [kernel.out for kernel in launch.kernels] == ["p"]
    assert not [buffer for buffer in launch.buffers if buffer.scratch]
    assert (
        len(re.findall(r"^NOINLINE void kernel_", emit(launch, Schedule()).source.text, re.M)) == 1
    )


@pytest.mark.parametrize(("schedule", "shape"), every(2, product(SCHEDULES, SHAPES)))
def test_rows_of_nodes(shape, schedule, check):
    """Up to 8 columns are dot products; from 64 on a tile asks for rows line by line."""
    d, h = shape
    turn = SHAPES.index(shape) + list(SCHEDULES).index(schedule)
    only = ("", " only=dst fill", " only=src fill")[turn % 3]
    check(parse(ACTIVATED.format(d=d, h=h, n=d * h, only=only)), SCHEDULES[schedule])


@pytest.mark.parametrize("only", [" only=dst fill", " only=src fill"])
def test_rows_that_are_filled_with_zeros(only, check):
    text = ACTIVATED.format(d=20, h=1, n=20, only=only).replace(" + b ", " ")
    check(parse(text.replace("  buffer b: ntype[20]\n", "")))


@pytest.mark.parametrize(
    ("schedule", "d"), [("default", 1), ("two columns", 7), ("no requests", 33), ("default", 64)]
)
def test_rows_of_a_group_s_pairs_and_edges(d, schedule, check):
    for rows, kind in (("dst_pair@a", "dst_pair@a"), ("edge@a", "edge"), ("edge", "edge")):
        check(parse(ACTIVATED_PAIRS.format(d=d, rows=rows, kind=kind)), SCHEDULES[schedule])


@pytest.mark.parametrize("d", [1, 7, 64])
def test_rows_of_source_pairs(d, check):
    check(parse(SOURCE_PAIRS.format(d=d)))


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_functions_of_an_operand(fn, check):
    const = ", const=0.25" if fn in ("scale", "leaky_relu") else ""
    text = ACTIVATED.replace("gelu(raw)", f"{fn}(raw{const})")
    text = text.format(d=19, h=1, n=19, only=" only=dst fill")
    assert len(fused(parse(text), "cpu").kernels) == 1
    check(parse(text))


def test_arrays_of_very_wide_rows_are_not_on_the_stack(check, graphs):
    usual, wide = (parse(PAIRS.format(k=k, n=8)) for k in (256, 8192))
    for launch, kind in ((usual, ""), (wide, "static thread_local ")):
        text = emit(launch, Schedule()).source.text
        arrays = re.findall(r"alignas\(64\) (.*)float (\w+)\[", text)
        assert arrays == [(kind, "sums"), (kind, "columns")]
    check(wide, only={"sparse": graphs["sparse"]})


@pytest.mark.parametrize(("heads", "row"), [(1, "k"), (2, "(h * {k} + k)")])
def test_weights_of_more_elements_than_int32_counts(heads, row):
    for k, wide in ((65_535 // heads, row), (65_536 // heads, f"int64_t({row})")):
        text = emit(parse(GATHERED.format(h=heads, k=k, n=32_768)), Schedule()).source.text
        assert f"w + {wide.format(k=k)} * 32768 + column;" in text


@pytest.mark.parametrize("seed", every(3, range(16)))
def test_a_random_product_with_walks_equals_the_interpreter(seed, check):
    check(random_rows(seed), SCHEDULES["two columns"] if seed % 2 else None)

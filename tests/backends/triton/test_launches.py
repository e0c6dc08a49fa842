"""The launches that layers are made of, at awkward widths, with heads, and random ones."""

import math
import re
from itertools import product

import pytest
from tests.full import every

from hetune.variants.backends.triton.emit import emit
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.program.functions import FOLDS
from hetune.variants.testing.launches import random_launch

from ..launches import ATTEND, GATHERED, NARROW, RGCN, SCORES, SOFTMAX, TRANSFORM

SMALL = GpuSchedule(tile_rows=16, tile_columns=16, tile_k=16, edges=2, elements=64)
SCHEDULES = {
    "small": SMALL,
    "wide": GpuSchedule(edges=8, elements=4096),
    "one edge at once": GpuSchedule(edges=1),
    "short parts": GpuSchedule(part_edges=4, elements=512),
    "default": GpuSchedule(),
}
WITH_HEADS = {"scores": SCORES, "softmax": SOFTMAX, "attend": ATTEND, "narrow": NARROW}
SUMS = {"rgcn": RGCN, "softmax": SOFTMAX, "attend": ATTEND}


@pytest.mark.parametrize("d", [1, 7, 16, 63])
@pytest.mark.parametrize("text", [RGCN, TRANSFORM], ids=["rgcn", "transform"])
def test_without_heads(text, d, check, small):
    check(parse(text.format(d=d)), small)


@pytest.mark.parametrize(("text", "d", "h"), every(5, product(WITH_HEADS, (1, 7, 16), (1, 2))))
def test_with_heads(text, d, h, check, small):
    check(parse(WITH_HEADS[text].format(d=d, h=h, n=3 * h)), small)


@pytest.mark.parametrize(("text", "schedule"), every(2, product(SUMS, SCHEDULES)))
def test_schedules_do_not_change_results(text, schedule, check, small):
    check(parse(SUMS[text].format(d=18, h=2)), small, SCHEDULES[schedule])


@pytest.mark.parametrize("text", SUMS)
def test_without_edges(text, check, empty):
    check(parse(SUMS[text].format(d=5, h=2)), empty)


@pytest.mark.parametrize("seed", every(3, range(12)))
def test_a_random_launch_equals_the_interpreter(seed, check, small):
    check(random_launch(seed, (1, 3, 7, 16)), small, SMALL if seed % 2 else None)


FUNCTION = """
launch
  buffer x: node[5]
  buffer y: node[5]
  traverse node
    row: [5] = read x
    value: [5] = {fn}(row)
    store y = value
"""


@pytest.mark.parametrize("factor", [1e-4, 1e-2, 0.6, 1.0, 1e4])
def test_tanh_is_exact_where_it_is_small(factor, check, small):
    check(parse(FUNCTION.format(fn="tanh")), small, factors={"x": factor})


@pytest.mark.parametrize("fn", ["exp", "sigmoid", "tanh", "gelu", "relu"])
def test_what_is_no_number_stays_so(fn, check, small):
    check(parse(FUNCTION.format(fn=fn)), small, factors={"x": math.nan})


CALLS = (
    *(f"{fn}(row)" for fn in ("abs", "silu", "softplus", "sin", "cos", "step", "square", "rsqrt0")),
    *(f"{fn}(size)" for fn in ("sqrt", "rsqrt", "log")),
    *(f"{fn}(row, const=-0.3)" for fn in ("elu", "shift", "clamp_min", "clamp_max")),
    *(f"pow_c(size, const={const})" for const in (0.5, -0.5, 3.0, 0.3, -1.5)),
    *(f"pow_c(row, const={const})" for const in (2.0, 3.0, 0.5)),
    *(f"{fn}(size, row)" for fn in ("maximum", "minimum", "pow", "equal")),
)


def test_functions(check, small):
    """What some have no number for gives none, as in torch."""
    lines = ["launch", "  buffer x: node[5]"]
    lines += [f"  buffer y{i}: node[5]" for i in range(len(CALLS))]
    lines += ["  traverse node", "    row: [5] = read x", "    size: [5] = abs(row)"]
    for i, call in enumerate(CALLS):
        lines += [f"    v{i}: [5] = {call}", f"    store y{i} = v{i}"]
    check(parse("\n".join(lines) + "\n"), small)


OUTER = """
launch
  buffer x: node[{x}]
  buffer s: edge[{s}]
  buffer p: edge[{s},3]
  traverse edge
    right: [{x}] = read x[src]
    left: [{s}] = read s
    all: [{s},3] = outer(left, right)
    store p = all
"""


@pytest.mark.parametrize(("s", "x"), [("5", "3"), ("2,5", "2,3"), ("1,4", "1,3"), ("2,1", "2,3")])
def test_outer_products(s, x, check, small):
    check(parse(OUTER.format(s=s, x=x)), small)


FOLDS_AND_EXTREMES = """
launch
  buffer x: node[3,5]
  buffer most: node[3,5]
  buffer least: node[3,5]
  buffer all: node[5]
  buffer e: edge[3]
  traverse node
    init top: [3,5] maximum
    init low: [3,5] minimum
    init product: [5] prod
    for edge
      sent: [3,5] = read x[src]
      mean: [5] = fold(sent, axis=0, mean)
      widest: [3] = fold(sent, axis=1, {fn})
      update top sent
      update low sent
      update product mean
      store e = widest
    store most = top
    store least = low
    store all = product
"""


@pytest.mark.parametrize(("fn", "schedule"), every(2, product(FOLDS, ("default", "short parts"))))
def test_folds_and_extremes(fn, schedule, check, small):
    check(parse(FOLDS_AND_EXTREMES.format(fn=fn)), small, SCHEDULES[schedule])


SUMS_OF_EDGES = """
launch
  buffer x: node[3]
  buffer v: edge[3]
  buffer e: edge[3]
  buffer y: node[3]
  traverse node
    init total: [3] sum
    for edge
      given: [3] = read v
      sent: [3] = read x[src]
      init both: [3] sum
      init most: [3] max
      update both given
      update both sent
      update most sent
      some: [3] = mul(both, most)
      store e = some
      update total some
    store y = total
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_edges_in_flight_have_sums_of_their_own(schedule, check, small):
    check(parse(SUMS_OF_EDGES), small, SCHEDULES[schedule])


FILLED = """
launch
  buffer x: node[2]
  buffer w: shared[2,{n}]
  buffer bias: {kind}[{n}]
  buffer y: node[{n}]
  gemm y[node] = x @ w + bias heads=1 k=2 n={n} only=dst fill
"""


@pytest.mark.parametrize(("kind", "n"), [("ntype", 1024), ("ntype", 2500), ("shared", 4096)])
def test_programs_that_fill_wide_rows_share_them_out(kind, n, check, small):
    """A program with all of a row's columns would not have the registers."""
    launch = parse(FILLED.format(kind=kind, n=n))
    check(launch, small)
    sizes = re.findall(r"tl\.arange\(0, (\d+)\)", emit(launch, GpuSchedule()).source.text)
    assert max(map(int, sizes)) <= 1024


TWO_WALKS = """
launch
  buffer x: shared[2,32]
  buffer y: node[2,32]{of_y}
  buffer y_as_64: node[64]{of_view}
  buffer z: {rows}[64]
  traverse node
    row: [2,32] = read x
    store y = row
  traverse node
    row: [64] = read {read}
    store {store} row
"""


@pytest.mark.parametrize(
    ("of_y", "of_view", "waits"),
    [("", "", True), (" in scratch t", " in scratch t", True), (" in scratch t", "", False)],
    ids=["buffers of a plan", "one scratch", "two memories"],
)
@pytest.mark.parametrize(
    "second",
    [
        {"read": "y_as_64", "store": "z =", "rows": "node"},
        {"read": "z", "store": "y_as_64 +=", "rows": "shared"},
    ],
    ids=["read", "added to"],
)
def test_threads_wait_for_what_is_stored_under_another_name(second, of_y, of_view, waits):
    """Each shape of a row is shared out among threads in another way."""
    launch = parse(TWO_WALKS.format(of_y=of_y, of_view=of_view, **second))
    text = emit(launch, GpuSchedule()).source.text
    between = re.search(r"y_ptr \+.*?y_as_64_ptr \+", text, re.DOTALL)[0]
    assert ("debug_barrier" in between) == waits


def test_offsets_in_large_weights_have_64_bits():
    text = emit(parse(TRANSFORM.format(d=1 << 16)), GpuSchedule()).source.text
    assert "k[:, None].to(tl.int64) * 65536" in text
    text = emit(parse(GATHERED.format(h=2, k=1 << 15, n=1 << 15)), GpuSchedule()).source.text
    assert "head.to(tl.int64) * 1073741824" in text
    assert "k[:, None] * 32768" in text

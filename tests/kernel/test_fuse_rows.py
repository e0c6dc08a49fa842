"""Elementwise walks around products: which become part of them, and that they compute the same."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.functions import relu
from hetune.variants.frontend.trace import Graph, Value, layer_program, node, ntype
from hetune.variants.kernel.nodes import Gemm
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse_rows import fuse_rows
from hetune.variants.kernel.text import show
from hetune.variants.kernel.verify import verify
from hetune.variants.kernel.walk import writes
from hetune.variants.plan import lower as lowering
from hetune.variants.plan.alternatives import alternatives
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.layers import LAYERS
from hetune.variants.testing.programs import PROGRAMS
from hetune.variants.testing.row_launches import random_rows

from .rows import BEFORE, OF_IT, OTHER, PRODUCT, RELU, SKIP, THEN, check_same, launch_of

REWRITES = {
    "an activation": (
        PRODUCT + RELU,
        """
  gemm t[node] = x @ w + b heads=1 k=8 n=8
    active: [8] = relu(t)
    store y = active
""",
    ),
    "rows that are filled": (
        PRODUCT.replace("n=8\n", "n=8 only=dst fill\n") + RELU,
        """
  gemm t[node] = x @ w + b heads=1 k=8 n=8 only=dst fill
    active: [8] = relu(t)
    store y = active
""",
    ),
    "another shape, and a name that is taken": (
        PRODUCT + SKIP + THEN,
        """
  gemm t[node] = x @ w + b heads=1 k=8 n=8
    gate: [] = read g
    open: [] = sigmoid(gate)
    t_2: [8] = mul(open, t)
    old: [8] = read x2
    both: [8] = add(t_2, old)
    active: [8] = gelu(both)
    store y = active
""",
    ),
    "rows that last": (
        PRODUCT.replace("t[", "kept[") + RELU.replace("read t", "read kept"),
        """
  gemm kept[node] = x @ w + b heads=1 k=8 n=8
    store kept = kept
    active: [8] = relu(kept)
    store y = active
""",
    ),
    "in their own place": (
        PRODUCT.replace("t[", "y[") + RELU.replace("read t", "read y"),
        """
  gemm y[node] = x @ w + b heads=1 k=8 n=8
    active: [8] = relu(y)
    store y = active
""",
    ),
    "added to them": (
        PRODUCT.replace("t[", "y[") + RELU.replace("read t", "read z").replace("y =", "y +="),
        """
  gemm y[node] = x @ w + b heads=1 k=8 n=8
    row: [8] = read z
    active: [8] = relu(row)
    y_total: [8] = add(y, active)
    store y = y_total
""",
    ),
    "added to others": (
        PRODUCT + RELU.replace("y =", "y +="),
        """
  gemm t[node] = x @ w + b heads=1 k=8 n=8
    active: [8] = relu(t)
    store y += active
""",
    ),
    "another kernel is between": (
        PRODUCT + OTHER + RELU,
        """
  gemm t[node] = x @ w + b heads=1 k=8 n=8
    active: [8] = relu(t)
    store y = active
"""
        + OTHER,
    ),
    "another kernel reads them": (
        PRODUCT + RELU + OTHER.replace("x @", "t @"),
        """
  gemm t[node] = x @ w + b heads=1 k=8 n=8
    store t = t
    active: [8] = relu(t)
    store y = active
"""
        + OTHER.replace("x @", "t @"),
    ),
    "edges of a group": (
        """
  gemm f[edge@a] = e @ v heads=1 k=8 n=8
  traverse edge@a
    row: [8] = read f
    source: [8] = read x[src]
    both: [8] = mul(row, source)
    store o = both
""",
        """
  gemm f[edge@a] = e @ v heads=1 k=8 n=8
    source: [8] = read x[src]
    both: [8] = mul(f, source)
    store o = both
""",
    ),
    "an operand": (
        BEFORE + OF_IT,
        """
  gemm y[node] = leaky_relu(x2, const=0.5) @ w heads=1 k=8 n=8 only=src
""",
    ),
    "an operand, and another kernel between": (
        BEFORE + OTHER + OF_IT,
        OTHER
        + """
  gemm y[node] = leaky_relu(x2, const=0.5) @ w heads=1 k=8 n=8 only=src
""",
    ),
    "between two products it follows the first": (
        PRODUCT + RELU.replace("store y", "store s") + OF_IT,
        """
  gemm t[node] = x @ w + b heads=1 k=8 n=8
    active: [8] = relu(t)
    store s = active
"""
        + OF_IT,
    ),
    "an operand and a result": (
        BEFORE + OF_IT.replace("y[", "t[").replace(" only=src", "") + RELU,
        """
  gemm t[node] = leaky_relu(x2, const=0.5) @ w heads=1 k=8 n=8
    active: [8] = relu(t)
    store y = active
""",
    ),
}


@pytest.mark.parametrize("name", REWRITES)
def test_what_becomes_of_a_walk(name):
    before, after = REWRITES[name]
    kernels = show(fuse_rows(launch_of(before))).splitlines()
    found = [line for line in kernels[1:] if not line.startswith("  buffer")]
    assert found == [line for line in after.splitlines() if line]


@pytest.mark.parametrize("name", REWRITES)
def test_it_computes_the_same(name):
    before = launch_of(REWRITES[name][0])
    after = fuse_rows(before)
    for launch in (before, after):
        verify(launch)
    assert fuse_rows(after) == after
    check_same(before, after)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_random_products_with_walks(seed):
    before = random_rows(seed)
    after = fuse_rows(before)
    verify(after)
    assert parse(show(after)) == after
    check_same(before, after)


def test_most_walks_around_random_products_are_fused():
    launches = [random_rows(seed) for seed in range(200)]
    left = sum(len(fuse_rows(launch).kernels) for launch in launches)
    assert left < 0.6 * sum(len(launch.kernels) for launch in launches)


@pytest.fixture
def fusions(monkeypatch):
    """For a program, the launches of all its plans before and after what this module tests."""

    def found(program):
        programs = [alternative.program for alternative in alternatives(program)]
        pairs = (zip(before(p), lowering.lower(p).launches, strict=True) for p in programs)
        return list(dict.fromkeys(itertools.chain.from_iterable(pairs)))

    def before(program):
        with monkeypatch.context() as patch:
            patch.setattr(lowering, "fused", lambda launch, *_: launch)
            return lowering.lower(program).launches

    return found


@pytest.mark.parametrize("heads", [1, 2])
def test_every_plan_of_hgt_ends_in_its_product(heads, fusions):
    module = LAYERS["hgt"].make(AWKWARD["one relation"](), 8, heads)
    program = adapt(module).program
    ends = [(b, a) for b, a in fusions(program) if program.results[0] in writes_of(a)]
    assert ends
    for before, after in ends:
        verify(after)
        product = after.kernels[-1]
        assert isinstance(product, Gemm)
        assert product.tail
        assert product.x.fn == "gelu"
        assert len(after.kernels) == len(before.kernels) - 2
        check_same(before, after)


def writes_of(launch):
    return {name for kernel in launch.kernels for name in writes(kernel)}


@layer_program
def _dense(g: Graph, x: Value, w: Value, b: Value) -> Value:
    return relu(x @ w + b)


@pytest.mark.parametrize("name", ["hgt, no skip", "products of sums", "a layer of perceptrons"])
def test_plans_of_other_programs_compute_the_same(name, fusions):
    dense = _dense(x=node(4), w=ntype(4, 4), b=ntype(4))
    pairs = fusions({**PROGRAMS, "a layer of perceptrons": dense}[name])
    changed = [(before, after) for before, after in pairs if after != before]
    assert changed
    for before, after in changed:
        verify(after)
        check_same(before, after)


@pytest.mark.parametrize("layer", ["rgcn-mean", "rgat-across", "rgat-within"])
def test_other_layers_stay_as_they_are(layer, fusions):
    module = LAYERS[layer].make(AWKWARD["one relation"](), 8, 1)
    assert all(before == after for before, after in fusions(adapt(module).program))

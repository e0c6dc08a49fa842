"""Elementwise walks around products: which become part of them, and that they compute the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.trace import Graph, Value, layer_program, node, ntype, relu
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.fuse_rows import fuse_rows
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import Gemm, Launch
from hetune.variants.kernel.one_pass import one_pass
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.testing import random_values
from hetune.variants.kernel.testing_rows import random_rows
from hetune.variants.kernel.text import show
from hetune.variants.kernel.verify import verify
from hetune.variants.plan.variants import variants_of
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.layers import LAYERS
from hetune.variants.testing.programs import PROGRAMS

RELATIONS = {"": None, "a": (0, 2), "b": (1,), "s": (0, 2), "d": (1,)}
GRAPH = typed_graph((9, 6), [(0, 0, 20), (1, 0, 12), (0, 1, 3)])

HEAD = """
launch
  buffer x: node[8]
  buffer x2: node[2,4]
  buffer w: ntype[8,8]
  buffer b: ntype[8]
  buffer g: ntype[]
  buffer s: node[8] in scratch s
  buffer s_as_2x4: node[2,4] in scratch s
  buffer t: node[8] in scratch t
  buffer t_as_2x4: node[2,4] in scratch t
  buffer r: node[8] in scratch r
  buffer kept: node[8]
  buffer n: node[]
  buffer v: etype[8,8]
  buffer e: edge[8]
  buffer f: edge[8] in scratch f
  buffer o: edge[8]
  buffer q: edge[8]
  buffer h: etype[2,4,4]
  buffer p: node[2]
  buffer y: node[8]
  buffer z: node[8]
"""
PRODUCT = """
  gemm t[node] = x @ w + b heads=1 k=8 n=8
"""
RELU = """
  traverse node
    row: [8] = read t
    active: [8] = relu(row)
    store y = active
"""
SKIP = """
  traverse node
    row: [2,4] = read t_as_2x4
    gate: [] = read g
    open: [] = sigmoid(gate)
    t: [2,4] = mul(open, row)
    old: [2,4] = read x2
    both: [2,4] = add(t, old)
    store s_as_2x4 = both
"""
THEN = """
  traverse node
    row: [8] = read s
    active: [8] = gelu(row)
    store y = active
"""
BEFORE = """
  traverse node
    raw: [2,4] = read x2
    active: [2,4] = leaky_relu(raw, const=0.5)
    store s_as_2x4 = active
"""
OF_IT = """
  gemm y[node] = s @ w heads=1 k=8 n=8 only=src
"""
OTHER = """
  gemm z[node] = x @ w heads=1 k=8 n=8
"""

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


def launch_of(kernels: str) -> Launch:
    """The launch of some kernels' text, with the buffers that they name."""
    words = set(kernels.replace("[", " ").replace("(", " ").replace(",", " ").split())
    lines = HEAD.strip().splitlines()
    named = [line for line in lines[1:] if line.split()[1][:-1] in words]
    return parse("\n".join([lines[0], *named, kernels]))


def index_of(group: str) -> GraphIndex:
    return GraphIndex.of(GRAPH, RELATIONS[group])


def check_same(before: Launch, after: Launch) -> None:
    """Both leave the same in every buffer that is no scratch, and nothing is missing."""
    wanted = random_values(before, index_of, GRAPH)
    started = random_values(before, index_of, GRAPH)
    found = random_values(after, index_of, GRAPH)
    for name, tensor in found.items():
        tensor.copy_(started[name])
    interpret(before, wanted, index_of, GRAPH)
    interpret(after, found, index_of, GRAPH)
    lasting = {buffer.name for buffer in before.buffers if not buffer.scratch}
    assert lasting <= found.keys()
    for name in sorted(lasting):
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-9, atol=1e-12)


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


def walk(read: str, stored: str, fn: str = "relu(row)", rows: str = "node") -> str:
    """A function of one buffer's rows, stored to another."""
    return f"""
  traverse {rows}
    row: [8] = read {read}
    active: [8] = {fn}
    store {stored} active
"""


NUMBER = """
    one: [] = read n
    two: [] = exp(one)
    store n = two
"""
SCATTERED = "  gemm {out}[edge -> node] += e @ v heads=1 k=8 n=8\n"

NOT_AFTER = {
    "parts of sums": SCATTERED.format(out="y") + walk("y", "z ="),
    "added to what is there": PRODUCT.replace("t[node] =", "y[node] +=") + walk("y", "z ="),
    "rows left alone": PRODUCT.replace("t[", "y[").replace("n=8\n", "n=8 only=dst\n")
    + walk("y", "z ="),
    "other rows": "  gemm o[edge@a] = e @ v heads=1 k=8 n=8\n" + walk("o", "q =", rows="edge"),
    "a loop": PRODUCT
    + """
  traverse node
    init acc: [8] sum
    for edge
      message: [8] = read e
      update acc message
    row: [8] = read t
    both: [8] = add(acc, row)
    store y = both
""",
    "a sum of its own": PRODUCT
    + "  traverse node\n    init acc: [8] sum\n    row: [8] = read t\n    update acc row\n"
    + "    store y = acc\n",
    "a number for each row": PRODUCT
    + "  traverse node\n    row: [8] = read t\n    size: [] = dot(row, row)\n    store n = size\n",
    "numbers for parts of rows": PRODUCT
    + "  traverse node\n    row: [2,4] = read t_as_2x4\n    head: [2] = read p\n"
    + "    by: [2,4] = mul(head, row)\n    store x2 = by\n",
    "it stores numbers": PRODUCT + RELU + NUMBER,
    "it stores the operand": PRODUCT + walk("t", "x ="),
    "it stores the bias's factor": PRODUCT.replace("= x", "= n * x") + RELU + NUMBER,
    "it reads others": PRODUCT.replace("t[", "y[") + walk("x", "z ="),
    "it may read them again": PRODUCT.replace("t[", "y[")
    + walk("y", "z =").replace("    active", "    same: [2,4] = read x2\n    active"),
    "it may store them again": PRODUCT.replace("t[", "y[")
    + walk("y", "z =")
    + "    other: [2,4] = read s_as_2x4\n    store x2 = other\n",
    "another kernel changes what it reads": PRODUCT
    + SCATTERED.format(out="kept")
    + walk("t", "y =", "relu(row)").replace("    active", "    also: [8] = read kept\n    active"),
    "another kernel reads what it changes": PRODUCT
    + "  traverse node\n    init acc: [8] sum\n    old: [8] = read y\n    update acc old\n"
    + "    store z = acc\n"
    + RELU,
}
"""What follows a product and stays behind it: by what is different."""


@pytest.mark.parametrize("name", NOT_AFTER)
def test_what_is_no_part_of_a_product(name):
    before = launch_of(NOT_AFTER[name])
    verify(before)
    assert fuse_rows(before) == before


BY_S = OF_IT.replace(" only=src", "")
NOT_BEFORE = {
    "it lasts": walk("x", "kept =") + BY_S.replace("s @", "kept @"),
    "two products read it": walk("x", "s =") + BY_S + BY_S.replace("y[", "z["),
    "a walk reads it": walk("x", "s =")
    + BY_S
    + "  traverse node\n    init acc: [8] sum\n    row: [8] = read s\n    update acc row\n"
    + "    store z = acc\n",
    "the product reads it again": walk("x", "s =")
    + BY_S.replace("y[", "own[")
    + "    row: [8] = read s\n    both: [8] = add(row, own)\n    store z = both\n",
    "it is read before": "  traverse node\n    init acc: [8] sum\n    row: [8] = read s\n"
    + "    update acc row\n    store z = acc\n"
    + walk("x", "s =")
    + BY_S,
    "it is multiplied before": BY_S + walk("x", "s ="),
    "it is added to": walk("x", "s +=") + BY_S,
    "padding is no number": walk("x", "s =", "reciprocal(row)") + BY_S,
    "a function of two": walk("x", "s =", "mul(row, row)") + BY_S,
    "two functions": walk("x", "s =").replace(
        "store s = active", "twice: [8] = exp(active)\n    store s = twice"
    )
    + BY_S,
    "it stores something else": walk("x", "s =").replace("= active", "= row") + BY_S,
    "rows of types": walk("b", "s =") + BY_S,
    "another kernel changes them": walk("kept", "s =") + SCATTERED.format(out="kept") + BY_S,
    "the product changes them": walk("y", "s =") + BY_S,
    "other rows": walk("e", "f =", rows="edge") + "  gemm o[edge@a] = f @ v heads=1 k=8 n=8\n",
    "sums of it": walk("e", "f =", rows="edge")
    + "  gemm y[dst_pair -> node] += sum(f) @ v heads=1 k=8 n=8\n",
}
"""What comes before a product and stays there."""


@pytest.mark.parametrize("name", NOT_BEFORE)
def test_what_is_no_function_of_an_operand(name):
    before = launch_of(NOT_BEFORE[name])
    verify(before)
    assert fuse_rows(before) == before


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


@pytest.mark.parametrize("heads", [1, 2])
def test_every_plan_of_hgt_ends_in_its_product(heads):
    module = LAYERS["hgt"].make(AWKWARD["one relation"](), 8, heads)
    plans = dict.fromkeys(variant.plan for variant in variants_of(adapt(module).program))
    for launch in dict.fromkeys(plan.launches[-1] for plan in plans):
        before = one_pass(launch)
        after = fuse_rows(before)
        verify(after)
        product = after.kernels[-1]
        assert isinstance(product, Gemm)
        assert product.tail
        assert product.x.fn == "gelu"
        assert len(after.kernels) == len(before.kernels) - 2
        check_same(before, after)


@layer_program
def _dense(g: Graph, x: Value, w: Value, b: Value) -> Value:
    return relu(x @ w + b)


@pytest.mark.parametrize("name", ["hgt, no skip", "products of sums", "a layer of perceptrons"])
def test_plans_of_other_programs_compute_the_same(name):
    dense = _dense(x=node(4), w=ntype(4, 4), b=ntype(4))
    variants = variants_of({**PROGRAMS, "a layer of perceptrons": dense}[name])
    launches = dict.fromkeys(one_pass(launch) for v in variants for launch in v.plan.launches)
    changed = [launch for launch in launches if fuse_rows(launch) != launch]
    assert changed
    for before in changed:
        verify(fuse_rows(before))
        check_same(before, fuse_rows(before))


@pytest.mark.parametrize("layer", ["rgcn-mean", "rgat-across", "rgat-within"])
def test_other_layers_stay_as_they_are(layer):
    module = LAYERS[layer].make(AWKWARD["one relation"](), 8, 1)
    for variant in variants_of(adapt(module).program):
        for launch in variant.plan.launches:
            assert fuse_rows(launch) == launch

"""Softmaxes with the sums that they weight, and the loops that backends print them as."""

import pytest
import torch

from hetune.variants.frontend.adapt import adapt
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import ForEach, Init, Launch, Traversal
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse_softmax import fuse_softmax
from hetune.variants.kernel.passes.softmax_forms import (
    Form,
    expanded,
    if_moderate,
    running_maximum,
    three_passes,
)
from hetune.variants.kernel.random_values import random_values
from hetune.variants.kernel.text import show
from hetune.variants.kernel.verify import verify
from hetune.variants.kernel.walk import statements
from hetune.variants.plan.variants import variants_of
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.layers import LAYERS

RELATIONS = {"": None, "a": (0, 2), "b": (1,), "s": (0, 2), "d": (1,)}
GRAPHS = {
    "isolated nodes": lambda: typed_graph((9, 6), [(0, 0, 20), (1, 0, 12), (0, 1, 3)]),
    "no edges": lambda: typed_graph((3, 2), [(0, 0, 0), (1, 0, 0), (0, 1, 0)]),
    "an empty group": lambda: typed_graph((4, 3), [(0, 0, 0), (1, 1, 9), (0, 1, 0)]),
}

HEAD = """
launch
  buffer a: edge[2]
  buffer b: src_pair@b[2]
  buffer x: node[2,3]
  buffer v: src_pair[2,3]
  buffer w: etype[2,3,4]
  buffer u: shared[6,2]
  buffer p: edge[2] in scratch p
  buffer y: node[2,3]
  buffer z: node[2,4]
"""
SOFTMAX = """
  traverse node
    softmax p: [2] over edge to p
      scores edge
        s: [2] = read a
        score s
"""
SOFTMAX_OF_GROUPS = """
  traverse node
    softmax p: [2] over edge to p
      scores edge@a
        s: [2] = read a
        score s
      scores edge@b
        t: [2] = read b
        score t
"""
SUM = """
  traverse node
    init acc: [2,3] sum
    for edge
      share: [2] = read p
      row: [2,3] = read x[src]
      m: [2,3] = mul(share, row)
      update acc m
    old: [2,3] = read y
    new: [2,3] = add(acc, old)
    store y = new
"""
SUM_OF_GROUPS = """
  traverse node
    init acc: [2,3] sum
    for edge@b
      share: [2] = read p
      row: [2,3] = read x[src]
      scaled: [2,3] = scale(row, const=2.0)
      m: [2,3] = mul(scaled, share)
      update acc m
    for edge@a
      share: [2] = read p
      row: [2,3] = read x[src]
      m: [2,3] = mul(share, row)
      update acc m
    store y = acc
"""
SUM_OF_PAIRS = """
  traverse node
    init acc: [2,3] sum
    for edge
      share: [2] = read p
      row: [2,3] = read v
      m: [2,3] = mul(share, row)
      update acc m
    store y = acc
"""
PRODUCT = """
  gemm z[dst_pair -> node] += sum(p * x[src]) @ w heads=2 k=3 n=4
"""

ONE = """
  traverse node
    init acc: [2,3] sum
    softmax p: [2] over edge
      scores edge
        s: [2] = read a
        score s
      for edge
        row: [2,3] = read x[src]
        m: [2,3] = mul(p, row)
        update acc m
    old: [2,3] = read y
    new: [2,3] = add(acc, old)
    store y = new
"""
ONE_OF_GROUPS = """
  traverse node
    init acc: [2,3] sum
    softmax p: [2] over edge
      scores edge@a
        s: [2] = read a
        score s
      scores edge@b
        t: [2] = read b
        score t
      for edge@b
        row: [2,3] = read x[src]
        scaled: [2,3] = scale(row, const=2.0)
        m: [2,3] = mul(scaled, p)
        update acc m
      for edge@a
        row: [2,3] = read x[src]
        m: [2,3] = mul(p, row)
        update acc m
    store y = acc
"""
OTHER_EDGES = """
  traverse node
    init acc: [2,3] sum
    softmax p: [2] over edge to p
      scores edge@a
        s: [2] = read a
        score s
      scores edge@b
        t: [2] = read b
        score t
      for edge
        row: [2,3] = read v
        m: [2,3] = mul(p, row)
        update acc m
    store y = acc
"""

OTHER = """
  gemm z[dst_pair -> node] += x[dst] @ w heads=2 k=3 n=4
"""
CHANGES = """
  gemm a[edge] = x[src] @ u heads=1 k=6 n=2
"""

REWRITES = {
    "one pass": (SOFTMAX + SUM, ONE),
    "one pass over groups": (SOFTMAX_OF_GROUPS + SUM_OF_GROUPS, ONE_OF_GROUPS),
    "sums over other edges": (SOFTMAX_OF_GROUPS + SUM_OF_PAIRS, OTHER_EDGES),
    "a product needs them": (SOFTMAX + SUM + PRODUCT, SOFTMAX + SUM + PRODUCT),
    "a product needs them first": (SOFTMAX + PRODUCT + SUM, SOFTMAX + PRODUCT + SUM),
    "a product is between": (SOFTMAX + OTHER + SUM, OTHER + ONE),
    "a product of the scores": (SOFTMAX + CHANGES + SUM, SOFTMAX + CHANGES + SUM),
}


def launch_of(kernels: str) -> Launch:
    """The launch of some kernels' text, with the buffers that they name."""
    words = set(kernels.replace("[", " ").split())
    lines = HEAD.strip().splitlines()
    return parse(
        "\n".join([lines[0], *(s for s in lines[1:] if s.split()[1][:-1] in words), kernels])
    )


def passes(launch: Launch, form: Form) -> int:
    """How many loops over edges a launch is printed with."""
    kernels = expanded(launch, form).kernels
    bodies = (kernel.body for kernel in kernels if isinstance(kernel, Traversal))
    return sum(isinstance(s, ForEach) for body in bodies for s in statements(body))


def check_same(before: Launch, after: Launch, graph, scale: float = 1.0) -> None:
    """Both leave the same in every buffer that is no scratch."""

    def index_of(group: str) -> GraphIndex:
        return GraphIndex.of(graph, RELATIONS[group])

    wanted = {name: scale * value for name, value in random_values(before, index_of, graph).items()}
    found = {name: value.clone() for name, value in wanted.items()}
    interpret(before, wanted, index_of, graph)
    interpret(after, found, index_of, graph)
    for buffer in after.buffers:
        if not buffer.scratch:
            torch.testing.assert_close(found[buffer.name], wanted[buffer.name], rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", REWRITES)
def test_what_becomes_of_a_softmax(name):
    before, after = (launch_of(text) for text in REWRITES[name])
    assert show(fuse_softmax(before)) == show(after)
    assert fuse_softmax(after) == after


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", REWRITES)
def test_it_computes_the_same(name, graph, scale):
    before = launch_of(REWRITES[name][0])
    after = fuse_softmax(before)
    for launch in (before, after, expanded(before, three_passes), expanded(before, if_moderate)):
        verify(launch)
    check_same(before, after, GRAPHS[graph](), scale)
    check_same(before, expanded(before, three_passes), GRAPHS[graph](), scale)


FORMS = """
  traverse node
    init p_max: [2] max
    for edge
      s: [2] = read a
      store p = s
      update p_max s
    init p_total: [2] sum
    for edge
      p_score: [2] = read p
      p_score_below: [2] = sub(p_score, p_max)
      p_power: [2] = exp(p_score_below)
      store p = p_power
      update p_total p_power
    p_inverse: [2] = reciprocal(p_total)
    for edge
      p_power_read: [2] = read p
      p_share: [2] = mul(p_power_read, p_inverse)
      store p = p_share
"""
RUNNING = """
  traverse node
    init p_max: [2] max
    init p_total: [2] sum
    init acc: [2,3] sum
    for edge
      s: [2] = read a
      update p_max s
      p_total_term_below: [2] = sub(s, p_max)
      p_total_term: [2] = exp(p_total_term_below)
      update p_total p_total_term
      row: [2,3] = read x[src]
      m: [2,3] = mul(p_total_term, row)
      update acc m
    p_total_zero: [2] = scale(p_total, const=0.0)
    p_total_one: [2] = one_minus(p_total_zero)
    p_total_least: [2] = maximum(p_total, p_total_one)
    p_inverse: [2] = reciprocal(p_total_least)
    acc_share: [2,3] = mul(p_inverse, acc)
    old: [2,3] = read y
    new: [2,3] = add(acc_share, old)
    store y = new
"""


def kernels_of(launch: Launch) -> str:
    return "  traverse" + show(launch).partition("  traverse")[2]


def test_the_forms_that_backends_print():
    launch = launch_of(SOFTMAX + SUM)
    assert kernels_of(expanded(launch, three_passes)) == (FORMS + SUM).replace("\n\n", "\n")[1:]
    running = expanded(fuse_softmax(launch), running_maximum)
    assert kernels_of(running) == RUNNING[1:]
    inits = {s.name: s.below for s in running.kernels[0].body if isinstance(s, Init)}
    assert inits == {"p_max": "", "p_total": "p_max", "acc": "p_max"}


NOT_JOINED = {
    "not a multiple": SUM.replace("mul(share, row)", "add(share, row)"),
    "heads are added up": SUM.replace("init acc: [2,3]", "init acc: []")
    .replace("row: [2,3] = read x[src]", "row: [2] = read a")
    .replace("m: [2,3] = mul(share, row)", "m: [] = dot(share, row)")
    .replace("add(acc, old)", "mul(old, acc)"),
    "also adds others": SUM.replace("update acc m", "update acc m\n      update acc row"),
    "begins with others": SUM.replace(
        "    for edge", "    o: [2,3] = read x\n    update acc o\n    for edge"
    ),
    "stores before it": SUM.replace(
        "    init acc", "    o: [2,3] = read x\n    store y = o\n    init acc"
    ),
    "needs a later value": SUM.replace(
        "    init acc", "    n: [2,3] = read y\n    init acc"
    ).replace("mul(share, row)", "mul(share, n)"),
    "keeps the shares": SUM.replace("      row", "      store a = share\n      row"),
}
DIVIDED = SUM.replace(
    "m: [2,3] = mul(share, row)",
    "by: [2] = read a\n      part: [2] = div(share, by)\n      m: [2,3] = mul(row, part)",
)


@pytest.mark.parametrize("reader", [*NOT_JOINED, "divided", "as it is"])
def test_only_sums_of_multiples_join_the_pass(reader):
    readers = NOT_JOINED | {"divided": DIVIDED, "as it is": SUM}
    before = launch_of(SOFTMAX + readers[reader])
    verify(before)
    after = fuse_softmax(before)
    verify(after)
    assert passes(after, running_maximum) == (3 if reader in NOT_JOINED else 1)
    check_same(before, after, GRAPHS["isolated nodes"]())


@pytest.mark.parametrize(
    ("layer", "heads", "plan", "left"),
    [
        ("rgat-across", 2, "src+weights-first", 1),
        ("rgat-across", 2, "hybrid+weights-first", 3),
        ("rgat-within", 1, "dst+weights-first+separate-sums", 1),
        ("hgt", 2, "vanilla", 1),
        ("hgt", 2, "src+scores-src", 1),
        ("hgt", 2, "src+scores-hybrid", 3),
        ("hgt", 2, "dst+scores-dst", 2),
    ],
)
def test_passes_of_plans_on_gpus(layer, heads, plan, left):
    module = LAYERS[layer].make(AWKWARD["one relation"](), 8, heads)
    program = adapt(module).program
    (found,) = (v.plan for v in variants_of(program, "cuda") if v.id == f"{plan}/t64-p2048")
    assert sum(passes(launch, running_maximum) for launch in found.launches) == left


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("layer", ["rgat-across", "rgat-within", "hgt"])
def test_every_plan_computes_the_same(layer, heads):
    module = LAYERS[layer].make(AWKWARD["one relation"](), 8, heads)
    launches = {
        launch
        for variant in variants_of(adapt(module).program, "cpu")
        for launch in variant.plan.launches
        if fuse_softmax(launch) != launch
    }
    assert launches
    for before in sorted(launches, key=show):
        after = fuse_softmax(before)
        verify(after)
        assert passes(after, running_maximum) < passes(before, three_passes)
        check_same(before, after, GRAPHS["isolated nodes"]())

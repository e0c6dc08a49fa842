"""Softmaxes in running form: which walks remain, and that they compute the same."""

import pytest
import torch

from hetune.variants.frontend.adapt import adapt
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import ForEach, Launch, Traversal
from hetune.variants.kernel.one_pass import one_pass
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.testing import random_values
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
SCORES = """
  traverse node
    init top: [2] max
    for edge
      s: [2] = read a
      store p = s
      update top s
"""
SCORES_OF_GROUPS = """
  traverse node
    init top: [2] max
    for edge@a
      s: [2] = read a
      store p = s
      update top s
    for edge@b
      t: [2] = read b
      store p = t
      update top t
"""
SHARES = """
    init total: [2] sum
    for edge
      score: [2] = read p
      below: [2] = sub(score, top)
      power: [2] = exp(below)
      store p = power
      update total power
    inverse: [2] = reciprocal(total)
    for edge
      held: [2] = read p
      share: [2] = mul(held, inverse)
      store p = share
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

ONE_WALK = """
  traverse node
    init top: [2] max
    init total: [2] sum below top
    init acc: [2,3] sum below top
    for edge
      s: [2] = read a
      update top s
      total_term_below: [2] = sub(s, top)
      total_term: [2] = exp(total_term_below)
      update total total_term
      row: [2,3] = read x[src]
      m: [2,3] = mul(total_term, row)
      update acc m
    total_zero: [2] = scale(total, const=0.0)
    total_one: [2] = one_minus(total_zero)
    total_least: [2] = max(total, total_one)
    inverse: [2] = reciprocal(total_least)
    acc_share: [2,3] = mul(inverse, acc)
    old: [2,3] = read y
    new: [2,3] = add(acc_share, old)
    store y = new
"""
ONE_WALK_OF_GROUPS = """
  traverse node
    init top: [2] max
    init total: [2] sum below top
    init acc: [2,3] sum below top
    for edge@a
      s: [2] = read a
      update top s
      total_term_below: [2] = sub(s, top)
      total_term: [2] = exp(total_term_below)
      update total total_term
      row: [2,3] = read x[src]
      m: [2,3] = mul(total_term, row)
      update acc m
    for edge@b
      t: [2] = read b
      update top t
      total_term_2_below: [2] = sub(t, top)
      total_term_2: [2] = exp(total_term_2_below)
      update total total_term_2
      row_2: [2,3] = read x[src]
      scaled: [2,3] = scale(row_2, const=2.0)
      m_2: [2,3] = mul(scaled, total_term_2)
      update acc m_2
    total_zero: [2] = scale(total, const=0.0)
    total_one: [2] = one_minus(total_zero)
    total_least: [2] = max(total, total_one)
    inverse: [2] = reciprocal(total_least)
    acc_share: [2,3] = mul(inverse, acc)
    store y = acc_share
"""
WHERE_READ = """
  traverse node
    init top: [2] max
    init total: [2] sum below top
    for edge@a
      s: [2] = read a
      store p = s
      update top s
      total_term_below: [2] = sub(s, top)
      total_term: [2] = exp(total_term_below)
      update total total_term
    for edge@b
      t: [2] = read b
      store p = t
      update top t
      total_term_below_2: [2] = sub(t, top)
      total_term: [2] = exp(total_term_below_2)
      update total total_term
    inverse: [2] = reciprocal(total)
    init acc: [2,3] sum
    for edge
      share_2_power_score: [2] = read p
      share_2_power_below: [2] = sub(share_2_power_score, top)
      share_2_power: [2] = exp(share_2_power_below)
      share_2: [2] = mul(share_2_power, inverse)
      row: [2,3] = read v
      m: [2,3] = mul(share_2, row)
      update acc m
    store y = acc
"""
STORED = """
  traverse node
    init top: [2] max
    init total: [2] sum below top
    for edge
      s: [2] = read a
      store p = s
      update top s
      total_term_below: [2] = sub(s, top)
      total_term: [2] = exp(total_term_below)
      update total total_term
    inverse: [2] = reciprocal(total)
    for edge
      held_score: [2] = read p
      held_below: [2] = sub(held_score, top)
      held: [2] = exp(held_below)
      share: [2] = mul(held, inverse)
      store p = share
"""

OTHER = """
  gemm z[dst_pair -> node] += x[dst] @ w heads=2 k=3 n=4
"""
CHANGES = """
  gemm a[edge] = x[src] @ u heads=1 k=6 n=2
"""

REWRITES = {
    "one walk": (SCORES + SHARES + SUM, ONE_WALK),
    "one walk of groups": (SCORES_OF_GROUPS + SHARES + SUM_OF_GROUPS, ONE_WALK_OF_GROUPS),
    "computed where read": (SCORES_OF_GROUPS + SHARES + SUM_OF_PAIRS, WHERE_READ),
    "a product needs them": (SCORES + SHARES + SUM + PRODUCT, STORED + SUM + PRODUCT),
    "a product needs them first": (SCORES + SHARES + PRODUCT + SUM, STORED + PRODUCT + SUM),
    "a product is between": (SCORES + SHARES + OTHER + SUM, OTHER + ONE_WALK),
    "a product of the scores": (SCORES + SHARES + CHANGES + SUM, STORED + CHANGES + SUM),
}


def launch_of(kernels: str) -> Launch:
    """The launch of some kernels' text, with the buffers that they name."""
    words = set(kernels.replace("[", " ").split())
    lines = HEAD.strip().splitlines()
    return parse(
        "\n".join([lines[0], *(s for s in lines[1:] if s.split()[1][:-1] in words), kernels])
    )


def walks(launch: Launch) -> int:
    """How many loops over edges there are."""
    bodies = (kernel.body for kernel in launch.kernels if isinstance(kernel, Traversal))
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
    assert show(one_pass(before)) == show(after)
    assert one_pass(after) == after


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", REWRITES)
def test_it_computes_the_same(name, graph, scale):
    before = launch_of(REWRITES[name][0])
    verify(before)
    check_same(before, one_pass(before), GRAPHS[graph](), scale)


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
def test_only_sums_of_multiples_join_the_walk(reader):
    readers = NOT_JOINED | {"divided": DIVIDED, "as it is": SUM}
    before = launch_of(SCORES + SHARES + readers[reader])
    verify(before)
    after = one_pass(before)
    assert walks(after) == (2 if reader in NOT_JOINED else 1)
    check_same(before, after, GRAPHS["isolated nodes"]())


@pytest.mark.parametrize(
    "changed",
    [
        ("sub(score, top)", "sub(top, score)"),
        ("store p = power", "store p = below"),
        ("reciprocal(total)", "exp(total)"),
        ("      update top s", "      f: [2] = scale(s, const=2.0)\n      update top f"),
        ("mul(held, inverse)", "mul(held, total)"),
        ("for edge\n      held", "for edge@a\n      held"),
    ],
    ids=["sign", "power", "inverse", "maximum", "share", "group"],
)
def test_what_is_no_softmax_stays(changed):
    text = SCORES + SHARES
    assert changed[0] in text
    before = parse(HEAD + text.replace(*changed))
    assert show(one_pass(before)).partition("traverse")[2] == show(before).partition("traverse")[2]


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
def test_walks_of_plans(layer, heads, plan, left):
    module = LAYERS[layer].make(AWKWARD["one relation"](), 8, heads)
    (found,) = (v.plan for v in variants_of(adapt(module).program) if v.id == f"{plan}/b1024")
    assert sum(walks(one_pass(launch)) for launch in found.launches) == left


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("layer", ["rgat-across", "rgat-within", "hgt"])
def test_every_plan_computes_the_same(layer, heads):
    module = LAYERS[layer].make(AWKWARD["one relation"](), 8, heads)
    launches = {
        launch
        for variant in variants_of(adapt(module).program)
        for launch in variant.plan.launches
        if one_pass(launch) != launch
    }
    assert launches
    for before in sorted(launches, key=show):
        after = one_pass(before)
        verify(after)
        assert walks(after) < walks(before)
        check_same(before, after, GRAPHS["isolated nodes"]())

"""Softmaxes that take in the sums of nodes and pairs that they weight."""

from dataclasses import replace

import pytest
import torch
from tests.backends.cpp.test_one_pass import ATTENTION

from hetune.variants.errors import KernelError
from hetune.variants.frontend.layers import hgt_program, rgat_program
from hetune.variants.kernel.nodes import EdgeSoftmax, Traversal
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.one_pass import one_pass
from hetune.variants.kernel.passes.softmax_forms import expanded, if_moderate
from hetune.variants.kernel.passes.work import work
from hetune.variants.kernel.text import show
from hetune.variants.kernel.verify import verify
from hetune.variants.plan.choices import LoweringForm
from hetune.variants.plan.variants import plans_of
from hetune.variants.program.nodes import Space
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.plans import run_plan
from hetune.variants.testing.programs import random_parameters

SEPARATE = """
launch
  buffer x: node[16]
  buffer room: edge[] in scratch room
  buffer g: node[16]
  buffer z: node[16]
  traverse node
    softmax share: [] over edge to room
      scores edge
        to: [16] = read x[dst]
        row: [16] = read x[src]
        s: [] = dot(to, row)
        score s
  traverse node
    own: [16] = read x
    gate: [16] = relu(own)
    store g = gate
  traverse node
    init acc: [16] sum
    for edge
      share: [] = read room
      row: [16] = read x[src]
      m: [16] = mul(share, row)
      update acc m
    store z = acc
"""

GRAPHS = {
    "either side": lambda: typed_graph((6, 3), [(0, 1, 14), (1, 0, 14), (0, 0, 8)]),
    "duplicate edges": AWKWARD["duplicate edges"],
    "isolated nodes": lambda: typed_graph((9, 6), [(0, 0, 20), (1, 0, 12), (0, 1, 3)]),
}


def softmaxes(plan):
    bodies = (k.body for each in plan.launches for k in each.kernels if isinstance(k, Traversal))
    return [s for body in bodies for s in body if isinstance(s, EdgeSoftmax)]


def forms(program):
    return {
        c.program.id: c.form for c in plans_of(program, "cpu") if c.form is not LoweringForm.FUSED
    }


def test_scores_of_inner_products_are_summed_in_one_pass():
    found = forms(hgt_program(64, 64))
    assert found["dst+scores-dst+folded"] is LoweringForm.ONE_PASS
    assert found["hybrid+scores-hybrid+folded"] is LoweringForm.SEPARATE_PRODUCTS


@pytest.mark.parametrize("width", [7, 24])
def test_rows_that_vectors_do_not_hold_are_left(width):
    assert LoweringForm.ONE_PASS not in forms(hgt_program(width, width)).values()


def test_scores_of_numbers_are_summed_in_one_pass_whatever_the_groups_of_sums():
    found = forms(rgat_program(64, 64))
    assert found["dst+weights-first"] is LoweringForm.ONE_PASS
    assert found["hybrid+weights-first"] is LoweringForm.SEPARATE_PRODUCTS
    (plan,) = (
        plan
        for choices, plan in plans_of(rgat_program(64, 64), "cpu").items()
        if choices.id == "hybrid+weights-first+one-pass"
    )
    (softmax,) = softmaxes(plan)
    assert [part.rows.group for part in softmax.scores] == [""]
    assert [loop.rows.space for loop in softmax.sums] == [Space.DST_PAIR, Space.EDGE]


@pytest.mark.parametrize(("heads", "fits"), [(4, True), (3, False), (16, False)])
def test_scores_of_many_edges_fit_into_a_vector(heads, fits):
    text = SEPARATE.replace("[16]", f"[{heads},16]").replace("[]", f"[{heads}]")
    scores = text[text.index("        to:") : text.index("        score s")]
    text = text.replace(scores, f"        s: [{heads}] = read b\n")
    launch = parse(text.replace("  buffer g:", f"  buffer b: edge[{heads}]\n  buffer g:"))
    verify(launch)
    assert (len(one_pass(launch).kernels) == 1) is fits


def test_what_is_counted_of_one_pass_reads_each_row_once():
    launch = parse(SEPARATE)

    def counted(launch):
        total = work(
            expanded(launch, if_moderate), lambda rows: 100 if rows.space is Space.EDGE else 10
        )
        return total.gathers, total.special, total.scratch_bytes

    three_passes_over_scores = 4 * 100 * 6
    assert counted(launch) == (200, 100 + 10, three_passes_over_scores)
    assert counted(one_pass(launch)) == (100, 100, 0)


def test_what_is_counted_of_scores_that_are_numbers_computes_the_same():
    graph, program = GRAPHS["either side"](), rgat_program(16, 16)
    values = random_parameters(program, graph)
    plans = {choices.id: plan for choices, plan in plans_of(program, "cpu").items()}
    for name in ("dst+weights-first+one-pass", "hybrid+weights-first+one-pass"):
        plan = plans[name]
        launches = tuple(expanded(launch, if_moderate) for launch in plan.launches)
        assert launches != plan.launches
        expected = run_plan(plan, values, graph)
        counted = run_plan(replace(plan, launches=launches), values, graph)
        torch.testing.assert_close(counted, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("program", [hgt_program(16, 16), rgat_program(16, 16)], ids=str)
def test_plans_are_what_the_program_says(program, graph):
    graph, plans = graph(), plans_of(program, "cpu")
    values = random_parameters(program, graph)
    ((_, wanted), *_) = plans.items()
    expected = run_plan(wanted, values, graph)
    found = [plan for choices, plan in plans.items() if choices.form is LoweringForm.ONE_PASS]
    assert found
    for plan in found:
        assert [softmax for softmax in softmaxes(plan) if softmax.sums]
        torch.testing.assert_close(run_plan(plan, values, graph), expected, rtol=1e-4, atol=1e-4)


def test_text_comes_back():
    launch = parse(ATTENTION.format(h=2, d=16))
    assert parse(show(launch)) == launch


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        store total = shares\n", "        store total += shares\n"),
        ("          update shares share\n", "          update shares shift\n"),
        ("to room\n", "\n"),
    ],
    ids=["adds to what is stored", "sums what is not weighted", "no room"],
)
def test_loops_over_pairs_store_weighted_sums(old, new):
    text = ATTENTION.format(h=1, d=16)
    assert old in text
    with pytest.raises(KernelError, match="in a loop over pairs, a softmax stores sums"):
        verify(parse(text.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("relu(own)", "relu(own)", True),
        ("row: [16] = read x[src]\n      m", "row: [16] = read g[dst]\n      m", False),
        ("    for edge", "    gate: [16] = read x\n    for edge", True),
        (
            "    for edge\n      share: [] = read room\n      row: [16] = read x[src]",
            "    row: [16] = read x\n    for edge\n      share: [] = read room",
            False,
        ),
        ("own: [16] = read x\n", "own: [16] = read g\n", False),
        ("store g =", "store g +=", False),
    ],
    ids=["all", "sums of what is stored", "a row", "sums of a row", "own rows change", "rows grow"],
)
def test_sums_need_nothing_computed_behind_the_softmax(old, new, fits):
    """And where tiles give up, a block runs again: it must find what it found."""
    assert old in SEPARATE
    launch = parse(SEPARATE.replace(old, new))
    verify(launch)
    fused = one_pass(launch)
    verify(fused)
    assert (len(fused.kernels) == 1) is fits

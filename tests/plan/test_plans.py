"""Plans in detail: who brings a term in, what is looked up, what is a view; and golden files."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.kernels import (
    aggregate_program,
    attention_program,
    linear_program,
)
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.text import show, show_kernel
from hetune.variants.passes.pipeline import clean
from hetune.variants.plan.lower import lower
from hetune.variants.plan.nodes import BufferView, Plan
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.interpret import interpret
from hetune.variants.program.text import parse
from hetune.variants.runtime.domain import Domain
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.plans import run_plan
from hetune.variants.testing.programs import random_parameters


def plan_of(text: str, **options: bool) -> Plan:
    return lower(parse(dedent(text)), **options)


def kernels(plan: Plan) -> list[str]:
    """The first line of every kernel."""
    return [show_kernel(kernel) for launch in plan.launches for kernel in launch.kernels]


def test_the_first_product_starts_from_the_bias():
    plan = plan_of(
        """
        program p(x: node[4] feature, root: shared[4,3], bias: shared[3])
          h: node[3] = linear x root
          out: node[3] = add h bias
          return out
        """
    )
    assert kernels(plan) == ["gemm out[node] = x @ root + bias heads=1 k=4 n=3"]


def test_a_bias_per_node_type_needs_a_weight_per_node_type():
    text = """
        program p(x: node[4] feature, root: {space}[4,3], bias: ntype[3])
          h: node[3] = linear x root
          out: node[3] = add h bias
          return out
        """
    assert "+ bias" in kernels(plan_of(text.format(space="ntype")))[0]
    (launch,) = plan_of(text.format(space="shared")).launches
    (product,) = launch.kernels
    assert show_kernel(product) == "gemm out[node] = x @ root heads=1 k=4 n=3"
    assert "read bias" in show(launch)


def test_products_start_a_sum_and_scattering_ones_end_it():
    plan = plan_of(
        """
        program p(x: node[4] feature, w: etype[4,3], root: shared[4,3], y: node[3] feature)
          xs: edge[4] = take x edge src
          pair: dst_pair[4] = sum xs dst_pair
          h: dst_pair[3] = linear pair w
          m: node[3] = sum h node
          r: node[3] = linear x root
          some: node[3] = add m r
          out: node[3] = add some y
          return out
        """
    )
    assert kernels(plan) == [
        "gemm out[node] = x @ root heads=1 k=4 n=3",
        "gemm out[dst_pair -> node] += sum(x[src]) @ w heads=1 k=4 n=3",
        "traverse node",  # adds y
    ]


def test_a_sum_of_pairs_alone_starts_from_zero():
    text = """
        program p(x: node[4] feature, w: etype[4,3])
          xs: edge[4] = take x edge src
          pair: dst_pair[4] = sum xs dst_pair
          h: dst_pair[3] = linear pair w
          out: node[3] = sum h node
          return out
        """
    assert kernels(plan_of(text)) == [
        "traverse node",
        "gemm out[dst_pair -> node] += sum(x[src]) @ w heads=1 k=4 n=3",
    ]
    assert kernels(plan_of(text, fuse_sums=False)) == [
        "traverse node",
        "traverse dst_pair",
        "gemm out[dst_pair -> node] += pair @ w heads=1 k=4 n=3",
    ]


def test_separate_products_are_kept_and_added_up_by_a_walk():
    plan = plan_of(
        """
        program p(x: node[4] feature, w: etype[4,3], y: node[3] feature)
          c: dst_pair[] = count dst_pair
          i: dst_pair[] = reciprocal c
          xs: edge[4] = take x edge src
          pair: dst_pair[4] = sum xs dst_pair
          h: dst_pair[3] = linear pair w
          scaled: dst_pair[3] = mul i h
          m: node[3] = sum scaled node
          out: node[3] = add m y
          return out
        """,
        fuse_sums=False,
        separate_products=True,
    )
    assert [[show_kernel(kernel) for kernel in launch.kernels] for launch in plan.launches] == [
        ["traverse dst_pair"],
        ["gemm h[dst_pair] = pair @ w heads=1 k=4 n=3"],
        ["traverse node"],
    ]
    assert [buffer.name for buffer in plan.temporaries] == ["pair", "h", "out"]


def test_what_counts_alone_decide_is_looked_up():
    plan = plan_of(
        """
        program p(x: node[4] feature, w: etype[4,3])
          c: dst_pair[] = count dst_pair
          i: dst_pair[] = reciprocal c
          pair_x: dst_pair[4] = take x dst_pair dst
          h: dst_pair[3] = linear pair_x w
          scaled: dst_pair[3] = mul i h
          out: node[3] = sum scaled node
          return out
        """
    )
    assert [let.name for let in plan.constants] == ["c", "i"]
    assert kernels(plan)[-1] == "gemm out[dst_pair -> node] += i * x[dst] @ w heads=1 k=4 n=3"


def test_weights_of_weights_are_no_kernels():
    plan = plan_of(
        """
        program p(x: node[4] feature, w: etype[4,3], a: shared[3])
          wa: etype[4] = einsum "kd,d->k" w a
          x_pair: src_pair[4] = take x src_pair src
          s: src_pair[] = dot x_pair wa
          e: edge[] = take s edge
          out: node[] = sum e node
          return out
        """
    )
    assert [let.name for let in plan.weights] == ["wa"]
    assert kernels(plan) == ["traverse src_pair", "traverse node"]


def test_a_reshape_is_a_view():
    plan = plan_of(
        """
        program p(x: node[2,2] feature, w: shared[4,3])
          r: node[2,2] = reciprocal x
          flat: node[4] = reshape r [4]
          out: node[3] = linear flat w
          return out
        """
    )
    (launch,) = plan.launches
    scratch = {b.name: (b.type.shape, b.scratch) for b in launch.buffers if b.scratch}
    assert scratch == {"r": ((2, 2), "r"), "r_as_4": ((4,), "r")}
    assert {buffer.name for buffer in plan.temporaries} == {"out"}


def test_a_reshape_inside_a_block_is_scratch_too():
    plan = plan_of(
        """
        program p(x: node[2,2] feature)
          r: node[2,2] = relu x
          flat: node[4] = reshape r [4]
          s: node[4] = relu flat
          e: edge[4] = take s edge src
          out: node[4] = sum e node
          return out
        """
    )
    assert plan.views == ()
    assert [buffer.name for buffer in plan.temporaries] == ["s", "out"]


def test_a_reshape_that_edges_read_is_a_view():
    plan = plan_of(
        """
        program p(x: node[2,2] feature)
          r: node[2,2] = relu x
          flat: node[4] = reshape r [4]
          e: edge[4] = take flat edge src
          out: node[4] = sum e node
          return out
        """
    )
    assert plan.views == (BufferView("r_as_4", "r"),)
    assert {buffer.name for buffer in plan.temporaries} == {"r", "out"}


def test_rows_that_only_edges_read_are_made_for_nodes_with_edges():
    plan = plan_of(
        """
        program p(x: node[4] feature, w: shared[4,3])
          h: node[3] = linear x w
          hs: edge[3] = take h edge src
          out: node[3] = sum hs node
          return out
        """
    )
    assert kernels(plan)[0] == "gemm h[node] = x @ w heads=1 k=4 n=3 only=src"


def test_nodes_without_edges_keep_what_was_added_before():
    plan = plan_of(
        """
        program p(x: node[4] feature, w: shared[4,4])
          xs: edge[4] = take x edge src
          m: node[4] = sum xs node
          a: node[4] = linear x w
          b: node[4] = linear m w
          out: node[4] = add a b
          return out
        """
    )
    assert kernels(plan)[-1] == "gemm out[node] += m @ w heads=1 k=4 n=4 only=dst"


@pytest.mark.parametrize(
    "line", ["", "  c: node[] = count node\n", "  r: node[2,2] = reshape x [2,2]\n"], ids=repr
)
def test_a_result_that_is_there_already_is_copied(line):
    result = line.strip().partition(":")[0] or "x"
    program = parse(f"program p(x: node[4] feature)\n{line}  return {result}\n")
    plan = lower(program)
    assert kernels(plan) == ["traverse node"]
    assert [buffer.name for buffer in plan.temporaries] == [*plan.results] == [f"{result}_copy"]
    graph = AWKWARD["hub"]()
    values = random_parameters(program, graph)
    found = run_plan(plan, values, graph)
    assert torch.equal(found, interpret(program, values, graph).float())


def test_softmaxes_and_counts_of_a_group():
    program = parse(
        dedent("""
        program p(c: edge[] feature) groups(d: fewer_dst, s: fewer_src)
          cs: edge@s[] = take c edge@s
          a: edge@s[] = softmax cs node
          b: edge@s[] = softmax cs dst_pair
          both: edge@s[] = mul a b
          total: node[] = sum both node
          n: node[] = count node@s
          out: node[] = mul total n
          return out
        """)
    )
    graph = AWKWARD["source hub"]()
    groups, values = Domain(graph).groups, random_parameters(program, graph)
    assert all(groups.values())
    expected = interpret(program, values, graph, groups)
    for each in (program, clean(program)):
        found = run_plan(lower(each), values, graph)
        assert relative_error(found, expected) <= TOLERANCE


HYBRID = """
program p(x: node[4] feature, w: etype[4,3], u: etype[4,3]) groups(few: fewer_dst, many{rule})
  xf: edge@few[4] = take x edge@few src
  mf: edge@few[3] = linear xf w
  pm: src_pair@many[4] = take x src_pair@many src
  hm: src_pair@many[3] = linear pm u
  mm: edge@many[3] = take hm edge@many
  m: edge[3] = merge mf mm
  out: node[3] = sum m node
  return out
"""


def test_groups_are_what_their_rules_say_whatever_they_are_called():
    program = parse(HYBRID.format(rule=": fewer_src"))
    graph = AWKWARD["source hub"]()
    values = random_parameters(program, graph)
    held = Domain(graph).groups
    expected = interpret(program, values, graph, {"few": held["d"], "many": held["s"]})
    assert relative_error(run_plan(lower(program), values, graph), expected) <= TOLERANCE


def test_a_group_needs_a_rule():
    with pytest.raises(ProgramError) as caught:
        lower(parse(HYBRID.format(rule="")))
    assert str(caught.value) == (
        "program 'p' does not say which edge types are in the groups many: give them rules, e.g. "
        "groups(many: fewer_src)"
    )


def test_merged_groups_hold_each_edge_type_once():
    with pytest.raises(ProgramError, match="'m' merges do not hold each edge type once"):
        lower(parse(HYBRID.format(rule=": fewer_dst")))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "y: dst_pair[] = sum s dst_pair\n  return y",
            "its result y has dst_pair rows: return those of nodes, edges or types",
        ),
        (
            "y: node[] = sum s node src\n  return y",
            "y is a sum at sources: only those at destinations are supported",
        ),
        (
            "t: etype[] = max s etype\n  e: edge[] = take t edge\n  y: node[] = sum e node\n"
            "  return y",
            "t is a max into etype rows: only reductions into nodes and destination pairs, and "
            "sums of rows into types, are supported",
        ),
    ],
)
def test_what_no_kernel_computes_yet_has_a_reason(body, reason):
    text = f"program p(c: edge[] feature)\n  s: edge[] = softmax c node\n  {body}\n"
    with pytest.raises(ProgramError) as caught:
        plan_of(text)
    assert str(caught.value) == f"no kernel computes the program 'p' yet: {reason}"


def test_nothing_times_infinity_is_no_number():
    program = parse(
        dedent("""
        program p(x: node[4] feature, w: shared[4,3])
          xs: edge[4] = take x edge src
          m: node[4] = sum xs node
          c: node[] = count node
          i: node[] = reciprocal c
          mean: node[4] = mul i m
          out: node[3] = linear mean w
          return out
        """)
    )
    plan, graph = lower(program), AWKWARD["isolated nodes"]()
    assert kernels(plan)[-1] == "gemm out[node] = mean @ w heads=1 k=4 n=3"
    values = random_parameters(program, graph)
    found, expected = run_plan(plan, values, graph), interpret(program, values, graph)
    assert expected.isnan().any()
    assert torch.equal(found.isnan(), expected.isnan())


GOLDEN = {
    "rgcn-mean.txt": rgcn_program(64, 64, "mean"),
    "rgat-across.txt": rgat_program(64, 64),
    "rgat-within-2-heads.txt": rgat_program(64, 32, 2, softmax="within"),
    "hgt.txt": hgt_program(64, 64),
    "hgt-2-heads.txt": hgt_program(64, 64, 2),
    "linear.txt": linear_program(64, 32),
    "aggregate.txt": aggregate_program(64),
    "attention-2-heads.txt": attention_program(64, 2),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_launches_are_as_reviewed(name, golden):
    plans = {v.plan_id: v.plan for v in variants_of(GOLDEN[name], "cpu")}
    # Launches that several plans share are printed once.
    numbers: dict[Launch, int] = {}
    text = []
    for plan_id, plan in plans.items():
        for launch in plan.launches:
            numbers.setdefault(launch, len(numbers) + 1)
        order = " ".join(str(numbers[launch]) for launch in plan.launches)
        temporaries = " ".join(buffer.name for buffer in plan.temporaries)
        text.append(f"# {plan_id}: launches {order}; temporaries {temporaries}\n")
    text += [f"\n# {number}\n{show(launch)}" for launch, number in numbers.items()]
    golden(name, "".join(text))

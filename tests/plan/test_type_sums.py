"""Programs that sum rows up into the rows of types: every plan equals the interpreter."""

import pytest

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.kernel.nodes import Gather, Outer, SegmentSum
from hetune.variants.plan.lower import lower
from hetune.variants.plan.variants import plans_of, variants_of
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.limitation import limitation
from hetune.variants.program.text import parse
from hetune.variants.program.verify import verify
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.plans import run_results
from hetune.variants.testing.programs import random_parameters

RGCN = """
program rgcn(x: node[5] feature, y: node[3] feature, c: edge[] feature)
  xs: edge[5] = take x edge src
  yd: edge[3] = take y edge dst
  cy: edge[3] = mul c yd
  xy: edge[5,3] = outer xs cy
  w: etype[5,3] = sum xy etype
  rr: node[5,3] = outer x y
  root: shared[5,3] = sum rr shared
  bias: shared[3] = sum y shared
  types: ntype[3] = sum y ntype
  return w, root, bias, types, w
"""
PAIRS = """
program pairs(x: node[4] feature, y: node[2,3] feature, c: edge[2] feature, p: etype[])
  xs: edge[4] = take x edge src
  cx: edge[2,4] = outer c xs
  sums: dst_pair[2,4] = sum cx dst_pair
  n: dst_pair[] = count dst_pair
  share: dst_pair[] = reciprocal n
  yd: dst_pair[2,3] = take y dst_pair dst
  scaled: dst_pair[2,3] = mul share yd
  more: dst_pair[2,3] = mul p scaled
  xy: dst_pair[2,4,3] = outer sums more
  w: etype[2,4,3] = sum xy etype
  return w
"""
REST = """
program rest(x: node[4] feature, y: node[2,3] feature, c: edge[2] feature, r: etype[4,2])
  xs: edge[4] = take x edge src
  yd: edge[2,3] = take y edge dst
  cy: edge[2,3] = mul c yd
  flat: edge[6] = reshape cy [6]
  xy: edge[4,6] = outer xs flat
  one: etype[4,6] = sum xy etype
  heads: etype[4,2,3] = reshape one [4,2,3]
  plain: edge[6] = reshape yd [6]
  py: edge[4,6] = outer xs plain
  other: etype[4,6] = sum py etype
  second: etype[4,2,3] = reshape other [4,2,3]
  w: etype[4,2,3] = add heads second
  rows: edge[2] = linear xs r
  both: edge[2] = mul c rows
  t: etype[2] = sum both etype
  u: etype[2,3] = sum cy etype
  all: shared[2] = sum both shared
  out: edge[2] = mul t both
  back: node[2] = sum out node
  return w, u, all, back, t
"""
PROGRAMS = {
    name: parse(text) for name, text in {"rgcn": RGCN, "pairs": PAIRS, "rest": REST}.items()
}
GRAPHS = ("no edges", "relations without edges", "several blocks", "thousands of relations")


def check(program, plan, name, *backend) -> None:
    graph = AWKWARD[name]()
    values = random_parameters(program, graph)
    found = run_results(plan, values, graph, *backend)
    for rows, right in zip(found, interpret_results(program, values, graph), strict=True):
        assert relative_error(rows, right) <= TOLERANCE


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreted(name, device):
    program = PROGRAMS[name]
    verify(program)
    assert limitation(program) is None
    for plan in plans_of(program, device).values():
        for graph in GRAPHS:
            check(program, plan, graph)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled(name):
    known = {variant.plan_id: variant for variant in variants_of(PROGRAMS[name], "cpu")}
    for variant in known.values():
        for graph in GRAPHS:
            check(PROGRAMS[name], variant.plan, graph, CppBackend(), variant.schedules)


def test_products_read_rows_where_they_are():
    """Nothing of an edge is stored but its factor."""
    kernels = [kernel for launch in lower(PROGRAMS["rgcn"]).launches for kernel in launch.kernels]
    outers = [kernel for kernel in kernels if isinstance(kernel, Outer)]
    assert outers == kernels
    assert isinstance(outers[0].x, Gather)
    assert isinstance(outers[0].y, Gather)
    pairs = [k for launch in lower(PROGRAMS["pairs"]).launches for k in launch.kernels]
    assert isinstance(pairs[-1], Outer)
    assert isinstance(pairs[-1].x, SegmentSum)
    assert isinstance(pairs[-1].y, Gather)
    assert pairs[-1].scale


LIMITED = {
    "depends on weights alone": "program p(x: node[2] feature, w: etype[2])\n  return w\n",
    "only sums into types": """program p(x: node[2] feature)
  s: shared[2] = sum x shared
  t: shared[2] = relu s
  return t
""",
    "max into shared rows": """program p(x: node[2] feature)
  s: shared[2] = max x shared
  return s
""",
}


@pytest.mark.parametrize("reason", LIMITED)
def test_what_runs_in_the_interpreter(reason):
    assert reason in limitation(parse(LIMITED[reason]))

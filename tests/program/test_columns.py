"""Rows side by side are taken apart: the same result, of operators on the parts."""

from __future__ import annotations

import pytest

from hetune.variants.program.canonical import digest
from hetune.variants.program.columns import by_columns
from hetune.variants.program.interpret import interpret
from hetune.variants.program.limitation import limitation
from hetune.variants.program.nodes import Concat, Slice
from hetune.variants.program.text import parse, show
from hetune.variants.program.verify import verify
from hetune.variants.testing.conformance import relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.programs import random_parameters

HEAD = """\
program p(x: node[3] feature, y: node[3] feature, h: node[2,4] feature, e: edge[2] feature,
  w: etype[8,6], u: shared[5,4], heads: shared[2,7,2], a: shared[8], b: shared[5], n: ntype[3],
  w6: shared[3,6], b6: shared[6], w9: shared[9,6])
  xe: edge[3] = take x edge src
  ye: edge[3] = take y edge dst
  he: edge[2,4] = take h edge src
  three: edge[8] = concat xe ye e
  two: node[6] = concat x y
"""
BODIES = {
    "product": "z: edge[6] = linear three w\n  out: node[6] = sum z node",
    "functions": """r: edge[8] = relu three
  s: edge[8] = mul r a
  t: edge[8] = add s three
  z: edge[6] = linear t w
  out: node[6] = max z node""",
    "moved": """c: node[5] = slice two 1 6
  d: edge[5] = take c edge src
  k: edge[] = dot d b
  m: edge[] = softmax k node
  z: edge[4] = linear d u
  v: edge[4] = mul m z
  out: node[4] = sum v node""",
    "heads": """t: edge[2,3] = slice he 0 3
  q: edge[2,7] = concat he t
  z: edge[2,2] = linear q heads
  o: node[2,2] = sum z node
  out: node[4] = reshape o [4]""",
    "another shape": """t: edge[1,8] = reshape three [1,8]
  s: edge[1,8] = relu t
  f: edge[8] = reshape s [8]
  z: edge[6] = linear f w
  out: node[6] = min z node""",
    "gates": """z: edge[6] = linear three w
  i: edge[2] = slice z 0 2
  f: edge[2] = slice z 2 4
  o: edge[2] = slice z 4 6
  g: edge[2] = sigmoid i
  j: edge[2] = mul g f
  k: edge[2] = add j o
  out: node[2] = sum k node""",
    "folds": """f: edge[] = fold three 0 max
  g: edge[] = fold three 0 mean
  l: edge[] = dot three a
  k: edge[] = add f g
  j: edge[] = add k l
  m: edge[3] = mul j xe
  out: node[3] = sum m node""",
    "cut of cuts": """m: node[3] = add x n
  q: node[6] = concat m two
  c: node[5] = slice q 2 7
  d: node[2] = slice c 1 3
  o: node[2,2] = outer d d
  s: node[2,1] = slice o 1 2
  out: node[2] = reshape s [2]""",
    "rows of outer products": """t: node[2,2] = slice h 0 2
  s: node[4] = reshape t [4]
  c: node[8] = concat s s
  d: node[8] = reshape h [8]
  o: node[8,8] = outer c d
  out: node[8] = fold o 0 sum""",
    "stacks": """l: node[6] = linear x w6
  c: node[12] = concat x y x y
  d: node[6] = concat y x
  k: node[4,3] = reshape c [4,3]
  r: node[4,3] = relu k
  m: node[3] = fold r 0 max
  f: node[2,6] = reshape c [2,6]
  g: node[6] = fold f 0 mean
  i: node[6] = add l b6
  j: node[3,2] = reshape i [3,2]
  o: node[3,6] = outer m d
  q: node[3,2,3] = reshape o [3,2,3]
  s: node[3,2,3] = mul j q
  z: node[3,3] = fold s 1 sum
  v: node[9] = reshape z [9]
  p: node[6] = linear v w9
  e6: node[6] = add g p
  out: node[] = fold e6 0 max""",
    "weights beside rows": """m: edge[10] = concat a e
  r: edge[10] = relu m
  t: edge[8] = slice m 0 8
  d: edge[] = dot t three
  p: edge[10] = mul d r
  q: node[10] = sum r node
  u2: node[8] = slice q 0 8
  v: node[10] = sum p node
  k: node[8] = sum t node
  f: node[8] = slice v 1 9
  g: node[8] = add u2 f
  out: node[8] = add g k""",
}
KEPT = ("moved", "heads", "cut of cuts", "rows of outer products", "weights beside rows")
"""Where rows are left side by side."""
BODIES["cut of cuts"] = BODIES["cut of cuts"].replace("node[6] = concat m", "node[9] = concat m")


@pytest.mark.parametrize("name", BODIES)
def test_columns_are_taken_apart(name):
    body = BODIES[name]
    program = parse(f"{HEAD}  {body}\n  return out\n")
    verify(program)
    found = by_columns(program)
    verify(found)
    graph = AWKWARD["relations without edges"]()
    values = random_parameters(program, graph)
    expected = interpret(program, values, graph)
    assert relative_error(interpret(found, values, graph), expected) <= 1e-12
    left = [let for let in found.lets if isinstance(let.op, Concat | Slice)]
    rows = [let for let in left if not let.type.space.is_weight]
    assert name in KEPT or not rows
    assert digest(by_columns(found)) == digest(found), show(found)


def test_what_is_returned_side_by_side_has_no_kernel():
    program = parse(f"{HEAD}  out: node[6] = relu two\n  return out\n")
    verify(program)
    assert "side by side" in str(limitation(program))
    assert limitation(parse(f"{HEAD}  {BODIES['gates']}\n  return out\n")) is None

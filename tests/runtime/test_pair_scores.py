"""Scores of all candidates as products and distances, against the program edge by edge."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.passes.pairs import separate
from hetune.variants.program.interpret import interpret
from hetune.variants.program.nodes import End, Space
from hetune.variants.program.text import parse
from hetune.variants.program.verify import verify
from hetune.variants.runtime.edge_scores import edge_scores
from hetune.variants.runtime.pair_products import squared_distances
from hetune.variants.runtime.pair_scores import pair_scores

NODES, TYPES, WIDTH = 11, 4, 6
ENDS = """
  h: edge[6] = take x edge src
  t: edge[6] = take x edge dst
"""
# name: parameters beside x, body, and how candidates at the heads and at the tails are met.
SCORES = {
    "distmult": (
        "r: etype[6]",
        """
  hr: edge[6] = mul h r
  s: edge[] = dot hr t
""",
        "raw raw",
    ),
    "transe": (
        "r: etype[6]",
        """
  a: edge[6] = add h r
  u: edge[6] = sub a t
  b: edge[6] = abs u
  n: edge[] = fold b 0 sum
  s: edge[] = scale n -1.0
""",
        "raw raw",
    ),
    "transe squared": (
        "r: etype[6]",
        """
  a: edge[6] = add h r
  u: edge[6] = sub a t
  d: edge[] = dot u u
  n: edge[] = sqrt d
  s: edge[] = scale n -1.0
""",
        "raw raw",
    ),
    "transe normalized": (
        "r: etype[6]",
        """
  hh: edge[] = dot h h
  hl: edge[] = sqrt hh
  hc: edge[] = clamp_min hl 1e-12
  hn: edge[6] = div h hc
  tt: edge[] = dot t t
  tl: edge[] = sqrt tt
  tc: edge[] = clamp_min tl 1e-12
  tn: edge[6] = div t tc
  a: edge[6] = add hn r
  u: edge[6] = sub a tn
  q: edge[6] = mul u u
  d: edge[] = fold q 0 sum
  n: edge[] = sqrt d
  s: edge[] = scale n -1.0
""",
        "made made",
    ),
    "transf": (
        "r: etype[6]",
        """
  ht: edge[] = dot h t
  two: edge[] = scale ht 2.0
  rt: edge[] = dot r t
  hr: edge[] = dot h r
  p: edge[] = add two rt
  s: edge[] = sub p hr
""",
        "raw raw",
    ),
    "rescal": (
        "m: etype[6,6]",
        """
  hm: edge[6] = linear h m
  s: edge[] = dot hm t
""",
        "raw raw",
    ),
    "transr of the difference": (
        "r: etype[4], m: etype[6,4]",
        """
  u: edge[6] = sub h t
  um: edge[4] = linear u m
  v: edge[4] = add um r
  d: edge[] = dot v v
  n: edge[] = sqrt d
  s: edge[] = scale n -1.0
""",
        "typed typed",
    ),
    "transh of the difference": (
        "w: etype[6], r: etype[6]",
        """
  u: edge[6] = sub h t
  uw: edge[] = dot u w
  p: edge[6] = mul uw w
  v: edge[6] = sub u p
  z: edge[6] = add v r
  b: edge[6] = abs z
  n: edge[] = fold b 0 sum
  s: edge[] = scale n -1.0
""",
        "typed typed",
    ),
    "pairre": (
        "a: etype[6], b: etype[6]",
        """
  ha: edge[6] = mul h a
  tb: edge[6] = mul t b
  u: edge[6] = sub ha tb
  q: edge[6] = abs u
  c: edge[6] = pow_c q 3.0
  d: edge[] = fold c 0 mean
  s: edge[] = scale d -1.0
""",
        "typed typed",
    ),
    "mure": (
        "a: etype[6], r: etype[6], y: node[] feature",
        """
  ha: edge[6] = mul h a
  hr: edge[6] = add ha r
  u: edge[6] = sub hr t
  d: edge[] = dot u u
  hb: edge[] = take y edge src
  tb: edge[] = take y edge dst
  bb: edge[] = add hb tb
  g: shared[] = scale one 3.0
  m: edge[] = sub bb d
  s: edge[] = add m g
""",
        "typed raw",
    ),
    "rotate": (
        "c: etype[6], z: node[6] feature",
        """
  hi: edge[6] = take z edge src
  ti: edge[6] = take z edge dst
  co: etype[6] = cos c
  si: etype[6] = sin c
  rr: edge[6] = mul h co
  ii: edge[6] = mul hi si
  ri: edge[6] = mul h si
  ir: edge[6] = mul hi co
  a: edge[6] = sub rr ii
  b: edge[6] = add ri ir
  u: edge[6] = sub a t
  v: edge[6] = sub b ti
  uu: edge[] = dot u u
  vv: edge[] = dot v v
  d: edge[] = add uu vv
  n: edge[] = sqrt d
  s: edge[] = scale n -1.0
""",
        "typed raw",
    ),
    "complex": (
        "c: etype[6], i: etype[6], z: node[6] feature",
        """
  hi: edge[6] = take z edge src
  ti: edge[6] = take z edge dst
  a: edge[6] = mul h c
  b: edge[6] = mul hi i
  re: edge[6] = sub a b
  d: edge[6] = mul h i
  e: edge[6] = mul hi c
  im: edge[6] = add d e
  one_: edge[] = dot re t
  two: edge[] = dot im ti
  s: edge[] = add one_ two
""",
        "raw raw",
    ),
    "gated": (
        "r: etype[6]",
        """
  a: edge[6] = add h t
  b: edge[6] = tanh a
  s: edge[] = dot b r
""",
        "none none",
    ),
}


def a_program(name):
    params, body, _ = SCORES[name]
    extra = ", one: shared[]" if "one " in body else ""
    text = f"program score(x: node[6] feature, {params}{extra}){ENDS}{dedent(body)[1:]}"
    lines = [
        line if line.startswith("program") else f"  {line.strip()}" for line in text.splitlines()
    ]
    program = parse("\n".join(line for line in lines if line.strip()) + "\n  return s\n")
    verify(program)
    return program


def tables(program, dtype=torch.float64):
    count = {Space.NODE: NODES, Space.ETYPE: TYPES, Space.SHARED: 1}
    generator = torch.Generator().manual_seed(0)
    return {
        p.name: torch.randn(count[p.type.space], *p.type.shape, generator=generator, dtype=dtype)
        for p in program.params
    }


def edge_by_edge(program, values, nodes, types, candidates, end):
    """[B, K] scores by an edge each."""
    fixed = nodes.repeat_interleave(candidates.shape[1])
    ends = (fixed, candidates.flatten())
    src, dst = ends if end is End.DST else ends[::-1]
    kinds = types.repeat_interleave(candidates.shape[1])
    graph = HeteroGraph(src, dst, kinds, num_nodes=NODES, num_etypes=TYPES)
    return interpret(program, values, graph).view(len(nodes), -1)


@pytest.mark.parametrize("name", SCORES)
def test_all_and_some_candidates(name):
    program = a_program(name)
    values = tables(program)
    nodes = torch.tensor([3, 0, 3, 10, 7, 1])
    types = torch.tensor([2, 0, 2, 3, 0, 2])
    expected = SCORES[name][2].split()
    for end, how in zip((End.SRC, End.DST), expected, strict=True):
        score = separate(program, end)
        everyone = torch.arange(NODES).expand(len(nodes), -1)
        want = edge_by_edge(program, values, nodes, types, everyone, end)
        found = edge_scores(program, values, nodes, types, end)
        torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)
        none = edge_scores(program, values, nodes[:0], types[:0], end)
        assert none.shape == (0, NODES)
        if how == "none":
            assert score is None
            continue
        assert score is not None
        kind = "typed" if score.by_type else "raw" if score.keys is None else "made"
        assert kind == how
        found = pair_scores(score, values, nodes, types)
        torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)
        none = pair_scores(score, values, nodes[:0], types[:0])
        assert none.shape == (0, NODES)
        if not score.by_type:
            chunks = torch.randint(NODES, (2, 5), generator=torch.Generator().manual_seed(1))
            want = edge_by_edge(program, values, nodes, types, chunks.repeat_interleave(3, 0), end)
            found = pair_scores(score, values, nodes, types, chunks)
            torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["rescal", "rotate", "transh of the difference"])
def test_gradients(name):
    program = a_program(name)
    nodes, types = torch.tensor([3, 0, 3, 7]), torch.tensor([2, 0, 2, 1])
    everyone = torch.arange(NODES).expand(len(nodes), -1)
    grads = []
    for way in ("edges", "pairs"):
        values = {name: value.requires_grad_() for name, value in tables(program).items()}
        if way == "edges":
            scores = edge_by_edge(program, values, nodes, types, everyone, End.DST)
        else:
            scores = pair_scores(separate(program, End.DST), values, nodes, types)
        scores.sigmoid().log().sum().backward()
        grads.append({name: value.grad for name, value in values.items()})
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-9)


def test_distances_of_huge_and_infinite_rows_are_those_of_differences():
    """Their squares outgrow float32, or are no numbers together, where distances need not."""
    huge = torch.tensor([[2e19, 0.0], [1.9e19, 0.0], [5e18, 1.0], [torch.inf, 1.0], [1.0, 2.0]])
    rows = torch.cat((huge, huge.flip(1), -huge, torch.full((1, 2), torch.nan)))
    want = (rows[:, None] - rows).square().sum(-1)
    assert want[0, 1] < want[0, 4] == torch.inf
    torch.testing.assert_close(squared_distances(rows, rows), want, equal_nan=True)


@pytest.mark.parametrize("distance", [0.0, 1e-4, 1e-2, 0.1, 1.0])
def test_distances_of_near_rows_keep_their_digits(distance):
    """Rows of length 8 that are so far apart: |a|^2 - 2 a.b + |b|^2 would have an error of 1e-3."""
    program = a_program("transe squared")
    values = tables(program, torch.float32)
    generator = torch.Generator().manual_seed(2)
    steps = torch.nn.functional.normalize(torch.randn(NODES, WIDTH, generator=generator))
    values["x"] = torch.full((NODES, WIDTH), 3.0) + distance * steps
    values["r"] = torch.zeros(TYPES, WIDTH)
    nodes = torch.arange(NODES)
    found = pair_scores(separate(program, End.DST), values, nodes, nodes % TYPES)
    want = -torch.cdist(
        values["x"].double(), values["x"].double(), compute_mode="donot_use_mm_for_euclid_dist"
    )
    torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-6 * distance)

"""Derivative rules against torch's autograd, and gradients as text."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from hetune.variants.errors import ProgramError
from hetune.variants.graph.bipartite import BipartiteGraph
from hetune.variants.passes.backward import backward
from hetune.variants.passes.derivatives import BINARY, UNARY
from hetune.variants.passes.gradient import differentiate
from hetune.variants.program.functions import MAP_ARITY, WITH_CONSTANT
from hetune.variants.program.text import parse, show
from hetune.variants.program.verify import verify
from hetune.variants.testing.gradients import (
    autograd_gradients,
    result_gradients,
    staged_gradients,
)
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.programs import random_parameters

GRAPH = typed_graph((7, 5, 2), [(0, 1, 12), (1, 0, 9), (0, 0, 7), (1, 2, 0), (2, 0, 6)])
BIPARTITE = BipartiteGraph(
    torch.tensor([0, 5, 3, 3]),
    torch.tensor([1, 1, 0, 1]),
    torch.tensor([0, 1, 1, 0]),
    num_sources=6,
    num_targets=3,
    num_etypes=2,
)
GROUPS = {"g": (0, 3), "k": (1, 2, 4)}


def assert_gradients(program, values, graph=GRAPH, groups=GROUPS):
    """Stages give what autograd gives, for all parameters at once and for each kind alone."""
    grads = result_gradients(program, values, graph, groups)
    names = [param.name for param in program.params if param.role != "constant"]
    weights = [name for name in names if program.type_of(name).space.is_weight]
    for wanted in (names, weights, names[:1]):
        found = backward(program, wanted)
        for stage in found.stages:
            verify(stage.program)
        want = autograd_gradients(program, values, grads, graph, groups, wanted)
        have = staged_gradients(found, {**values, **grads}, graph, groups)
        torch.testing.assert_close(have, want, rtol=1e-10, atol=1e-10)


def test_every_function_has_a_derivative():
    assert UNARY.keys() | BINARY.keys() | {"outer"} == MAP_ARITY.keys()


@pytest.mark.parametrize("fn", UNARY)
def test_functions_of_one_operand(fn):
    """At 0, too, and where two pieces of a function meet."""
    const = " 0.5" if fn in WITH_CONSTANT else ""
    program = parse(f"""program p(x: node[] feature)
  y: node[] = {fn} x{const}
  return y
""")
    x = torch.linspace(-3.0, 3.0, 13, dtype=torch.float64)  # 0 and 0.5 among them
    if fn in ("log", "sqrt", "rsqrt", "pow_c", "reciprocal"):
        x = x[x > 0]
    graph = typed_graph((len(x),), [(0, 0, 3)])
    assert_gradients(program, {"x": x}, graph)


@pytest.mark.parametrize("fn", BINARY)
def test_functions_of_two_operands(fn):
    """Equal ones too, and where one is spread out over the axes or rows of the other."""
    for one, other, out in (
        ("node[3]", "node[3]", "node[3]"),
        ("node[3]", "node[]", "node[3]"),
        ("node[]", "node[3]", "node[3]"),
        ("node[2,3]", "shared[2]", "node[2,3]"),
        ("ntype[]", "node[3]", "node[3]"),
    ):
        program = parse(f"""program p(x: {_param(one)}, z: {_param(other)})
  y: {out} = {fn} x z
  return y
""")
        verify(program)
        values = random_parameters(program, GRAPH)
        if fn == "pow":
            values["x"] = values["x"].abs()
        values = {name: (rows * 2).round() / 2 + 0.0 for name, rows in values.items()}
        if fn in ("div", "pow"):
            values = {name: torch.where(rows == 0, 1.5, rows) for name, rows in values.items()}
        assert_gradients(program, values)


def _param(kind: str) -> str:
    return kind if "type" in kind or "shared" in kind else f"{kind} feature"


def test_powers_at_zero_are_torchs():
    program = parse("""program p(x: node[] feature, z: node[] feature)
  y: node[] = pow x z
  c: node[] = pow_c x 2.0
  d: node[] = pow_c x 0.0
  return y, c, d
""")
    x, z = torch.tensor([[0.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 1.0]], dtype=torch.float64)
    assert_gradients(program, {"x": x, "z": z}, typed_graph((4,), [(0, 0, 2)]))


OPERATORS = {
    "movements": """
    program p(x: node[3] feature, f: edge[3] feature, w: ntype[3])
      a: edge[3] = take x edge src
      b: dst_pair[3] = take x dst_pair dst
      c: edge[3] = take b edge
      d: src_pair[3] = take x src_pair src
      e: edge[3] = take d edge
      h: edge[3] = mul a c
      i: edge[3] = mul h e
      j: edge[3] = mul i f
      k: src_pair[3] = sum j src_pair
      l: node[3] = sum k node src
      m: dst_pair[3] = sum i dst_pair
      n: node[3] = sum m node dst
      o: etype[3] = take w etype src
      q: edge[3] = mul f o
      r: node[3] = sum q node dst
      s: ntype[3] = sum x ntype
      t: shared[3] = sum f shared
      return l, n, r, s, t
    """,
    "extremes": """
    program p(x: node[3] feature, f: edge[3] feature, c: edge[2] feature)
      a: edge[3] = take x edge src
      b: node[3] = max a node dst
      d: node[3] = min a node src
      e: edge[3] = mul a f
      g: dst_pair[3] = max e dst_pair
      h: node[3] = min g node dst
      i: node[2] = prod c node dst
      j: node[3] = prod f node src
      return b, d, h, i, j
    """,
    "softmax": """
    program p(x: node[2] feature, f: edge[2] feature)
      a: edge[2] = take x edge src
      b: edge[2] = softmax f node
      c: edge[2] = mul a b
      d: edge[2] = softmax c dst_pair
      return d, b
    """,
    "products": """
    program p(
      x: node[4] feature, y: node[2,3] feature,
      w: etype[4,3], u: shared[4,2,3], v: ntype[2,3,5], t: etype[4], s: etype[2,3,2], o: shared[3]
    )
      a: edge[4] = take x edge src
      b: edge[3] = linear a w
      c: edge[2,3] = linear a u
      d: node[2,5] = linear y v
      e: edge[] = linear a t
      f: edge[2,3] = take y edge dst
      g: edge[2,2] = linear f s
      h: edge[2] = dot f c
      i: edge[2] = dot c o
      j: edge[2] = dot b f
      k: edge[] = dot b o
      return b, d, e, g, h, i, j, k
    """,
    "outer products": """
    program p(
      x: node[2] feature, y: node[3] feature, z: node[2,3] feature, w: shared[2,4], v: shared[2]
    )
      a: node[2,3] = outer x y
      b: node[2,3,4] = outer z w
      c: node[2,3,3] = outer z a
      ones: shared[2] = pow_c v 0.0
      d: node[2,3] = outer ones y
      e: edge[2,3] = take d edge src
      return a, b, c, e
    """,
    "axes": """
    program p(x: node[2,3,4] feature, y: node[2,3,2] feature, w: shared[2,3,1])
      a: node[2,3] = fold x 2 sum
      b: node[2,4] = fold x 1 mean
      c: node[3,4] = fold x 0 max
      d: node[2,3] = fold x 2 min
      e: node[3,2] = fold y 0 sum
      f: node[2,3,7] = concat x y w
      g: node[2,3,2] = slice x 1 3
      h: node[2,3,3] = slice x 0 3
      i: node[24] = reshape x [24]
      j: node[2,3,4] = mul a x
      k: node[2,3] = fold j 2 mean
      l: node[2] = fold k 1 sum
      return b, c, d, e, f, g, h, i, k, l
    """,
    "weights": """
    program p(x: node[3] feature, w: shared[3,4], a: etype[4,2], b: shared[4], c: ntype[2])
      d: etype[3,2] = einsum "ij,jk->ik" w a
      e: shared[3] = einsum "ij->i" w
      f: etype[2] = take c etype dst
      g: etype[3,2] = einsum "ik,k->ik" d f
      i: edge[3] = take x edge src
      j: edge[2] = linear i g
      k: edge[3] = mul i e
      return j, k
    """,
    "groups": """
    program p(x: node[3] feature, f: edge[3] feature, w: etype[3,2]) groups(g, k)
      a: edge@g[3] = take x edge@g src
      b: edge@k[3] = take f edge@k
      c: edge@g[2] = linear a w
      d: edge@k[2] = linear b w
      e: edge[2] = merge c d
      h: node[2] = sum e node dst
      i: edge[3] = sum b edge
      return h, i
    """,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    program = parse(dedent(OPERATORS[name]).lstrip("\n"))
    verify(program)
    values = random_parameters(program, GRAPH)
    values = {key: (rows * 2).round() / 2 for key, rows in values.items()}  # with ties and zeros
    assert_gradients(program, values)


def test_rows_of_sources():
    program = parse("""program p(
  x: source[3] feature, y: node[4] feature, w: etype[3,2], u: shared[4,2]
)
  a: edge[3] = take x edge src
  b: edge[2] = linear a w
  c: node[2] = linear y u
  d: edge[2] = take c edge dst
  e: edge[2] = mul b d
  f: node[2] = max e node dst
  g: node[2] = add f c
  return g
""")
    verify(program)
    assert_gradients(program, random_parameters(program, BIPARTITE), BIPARTITE)


def test_rows_of_sources_that_their_gradient_does_not_read():
    program = parse("""program p(x: source[3] feature)
  a: edge[3] = take x edge src
  b: dst_pair[3] = sum a dst_pair
  c: node[3] = sum b node dst
  return c
""")
    assert_gradients(program, random_parameters(program, BIPARTITE), BIPARTITE)


def test_the_gradient_of_rgcn_is_hectors():
    program = parse("""program rgcn(x: node[3] feature, w: etype[3,2], root: shared[3,2])
  x_src: edge[3] = take x edge src
  by_w: edge[2] = linear x_src w
  count: dst_pair[] = count dst_pair
  reciprocal: dst_pair[] = reciprocal count
  share: edge[] = take reciprocal edge
  mul: edge[2] = mul share by_w
  sum: node[2] = sum mul node dst
  by_root: node[2] = linear x root
  out: node[2] = add sum by_root
  return out
""")
    gradient = show(differentiate(program, ["x", "w", "root"]))
    assert (
        gradient
        == """\
program rgcn_grad(x: node[3] feature, w: etype[3,2], root: shared[3,2], out_grad: node[2] feature)
  x_src: edge[3] = take x edge src
  count: dst_pair[] = count dst_pair
  reciprocal: dst_pair[] = reciprocal count
  share: edge[] = take reciprocal edge
  root_turned: shared[2,3] = einsum "kd->dk" root
  x_grad: node[3] = linear out_grad root_turned
  outer: node[3,2] = outer x out_grad
  sum_2: shared[3,2] = sum outer shared
  out_grad_dst: edge[2] = take out_grad edge dst
  mul_3: edge[2] = mul share out_grad_dst
  w_turned: etype[2,3] = einsum "kd->dk" w
  x_src_grad: edge[3] = linear out_grad_dst w_turned
  x_src_grad_scaled: edge[3] = mul share x_src_grad
  outer_2: edge[3,2] = outer x_src mul_3
  sum_3: etype[3,2] = sum outer_2 etype
  sum_4: node[3] = sum x_src_grad_scaled node src
  x_grad_2: node[3] = add x_grad sum_4
  return x_grad_2, sum_3, sum_2
"""
    )


def test_what_has_no_derivative():
    program = parse("program p(x: node[2] feature)\n y: node[2] = relu x\n return y\n")
    with pytest.raises(ProgramError, match="there is no parameter 'z'"):
        differentiate(program, ["z"])
    unusual = parse("""program p(x: node[2,3,4] feature, y: node[3,4] feature)
  z: node[2,3] = dot x y
  return z
""")
    with pytest.raises(ProgramError, match="z is an inner product of"):
        differentiate(unusual, ["x"])

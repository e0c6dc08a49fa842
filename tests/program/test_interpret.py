"""The interpreter against the definitions, row by row in Python."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.interpret import interpret, interpret_all, interpret_results
from hetune.variants.program.nodes import (
    Concat,
    Count,
    Dot,
    Fold,
    Linear,
    Map,
    Merge,
    Reduce,
    Slice,
    Softmax,
    Space,
    Take,
    Type,
)
from hetune.variants.program.text import parse
from hetune.variants.program.verify import verify

GROUPS = {"g": (0, 2), "k": (1, 3)}


def random_graph(num_edges=30, seed=0, num_nodes=9):
    """Two node types, four relations of which one has no edges, and an isolated node."""
    draw = torch.Generator().manual_seed(seed)
    half = num_nodes // 2
    ends = {0: (0, 0), 1: (0, 1), 2: (1, 0)}
    etype = torch.randint(3, (num_edges,), generator=draw)
    sides = torch.tensor([ends[r] for r in etype.tolist()], dtype=torch.int64).reshape(-1, 2)
    local = torch.randint(half, (num_edges, 2), generator=draw)
    nodes = sides * half + local
    ntype = torch.tensor([0] * half + [1] * (num_nodes - half))
    triples = [("a", "0", "a"), ("a", "1", "b"), ("b", "2", "a"), ("b", "3", "b")]
    return HeteroGraph(
        nodes[:, 0],
        nodes[:, 1],
        etype,
        ntype,
        num_ntypes=2,
        ntype_names=["a", "b"],
        canonical_etypes=triples,
    )


def empty_graph():
    nothing = torch.empty(0, dtype=torch.int64)
    ntype = torch.zeros(3, dtype=torch.int64)
    return HeteroGraph(nothing, nothing, nothing, ntype, num_etypes=4, num_ntypes=2)


def mul(x, y):
    """Scales every leading row of the one with more axes."""
    x, y = (x, y) if x.dim() >= y.dim() else (y, x)
    return x * y if x.dim() == y.dim() or not y.dim() else torch.einsum("h...,h->h...", x, y)


class Naive:
    """Values as lists of (key, row); keys are nodes, edges, (etype, node) pairs or types."""

    def __init__(self, graph):
        self.graph = graph
        self.edges = list(
            zip(graph.src.tolist(), graph.dst.tolist(), graph.etype.tolist(), strict=True)
        )
        self.ntype = graph.ntype.tolist()

    def keys(self, space, group):
        graph, of = self.graph, GROUPS.get(group, range(self.graph.num_etypes))
        edges = [e for e, (_, _, r) in enumerate(self.edges) if r in of]
        match space:
            case Space.NODE:
                return range(graph.num_nodes)
            case Space.EDGE:
                return edges
            case Space.SRC_PAIR:
                return sorted({(self.edges[e][2], self.edges[e][0]) for e in edges})
            case Space.DST_PAIR:
                return sorted({(self.edges[e][2], self.edges[e][1]) for e in edges})
            case Space.NTYPE:
                return range(graph.num_ntypes)
            case Space.ETYPE:
                return range(graph.num_etypes)
            case Space.SHARED:
                return [None]

    def type_key(self, weight, space, key):
        if weight is Space.SHARED:
            return None
        if weight is Space.NTYPE:
            return self.ntype[key] if space is Space.NODE else key
        if space is Space.EDGE:
            return self.edges[key][2]
        return key[0] if space.is_edgewise else key

    def source_key(self, x, op, key):
        match x.space, op.space:
            case Space.SHARED, _:
                return None
            case Space.NODE, Space.EDGE:
                return self.edges[key][0 if op.end == "src" else 1]
            case Space.NODE, _:
                return key[1]
            case Space.EDGE, _:
                return key
            case Space.SRC_PAIR, _:
                return self.edges[key][2], self.edges[key][0]
            case Space.DST_PAIR, _:
                return self.edges[key][2], self.edges[key][1]
            case Space.NTYPE, Space.ETYPE:
                graph = self.graph
                ends = graph.etype_src_ntype if op.end == "src" else graph.etype_dst_ntype
                return int(ends[key])
        return self.type_key(x.space, op.space, key)

    def target_key(self, space, key):
        if isinstance(key, tuple):
            return key[1]
        _, dst, etype = self.edges[key]
        return dst if space is Space.NODE else (etype, dst)

    def run(self, let, types, rows):
        op, out = let.op, let.type
        keys = self.keys(out.space, out.group)

        def at(name, key):
            space = types[name].space
            return rows[name][self.type_key(space, out.space, key) if space.is_weight else key]

        match op:
            case Take(x=x):
                return {key: rows[x][self.source_key(types[x], op, key)] for key in keys}
            case Linear(x=x, w=w):
                heads = len(types[x].shape) == 2
                spec = "hk,hkd->hd" if heads else "k,k...->..."
                return {key: torch.einsum(spec, at(x, key), at(w, key)) for key in keys}
            case Map(fn="mul", args=(x, y)):
                return {key: mul(at(x, key), at(y, key)) for key in keys}
            case Map(fn="outer", args=(x, y)):
                return {k: torch.einsum("hk,hd->hkd", at(x, k), at(y, k)) for k in keys}
            case Fold(x=x, axis=axis, fn=fn):
                of = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}
                return {key: of[fn](rows[x][key], axis) for key in keys}
            case Concat(parts=parts):
                return {key: torch.cat([at(part, key) for part in parts], -1) for key in keys}
            case Slice(x=x, start=start, stop=stop):
                return {key: rows[x][key][..., start:stop] for key in keys}
            case Dot(x=x, y=y):
                return {key: (at(x, key) * at(y, key)).sum(-1) for key in keys}
            case Reduce(x=x, space=space, fn=fn, end=end):
                back = Take("", types[x].space, end, types[x].group)
                met = {key: [] for key in keys}
                for key, row in rows[x].items():
                    met[self.source_key(Type(space, (), out.group), back, key)].append(row)
                fold = {
                    "sum": torch.add,
                    "prod": torch.mul,
                    "max": torch.maximum,
                    "min": torch.minimum,
                }[fn]
                empty = torch.full(out.shape, float(fn == "prod"), dtype=torch.float64)
                return {
                    k: functools.reduce(fold, found) if found else empty for k, found in met.items()
                }
            case Softmax(x=x, over=over):
                return {
                    key: row.exp()
                    / sum(
                        other.exp()
                        for k, other in rows[x].items()
                        if self.target_key(over, k) == self.target_key(over, key)
                    )
                    for key, row in rows[x].items()
                }
            case Count(space=space, group=group):
                edges = [self.target_key(space, e) for e in self.keys(Space.EDGE, group)]
                return {key: torch.tensor(float(edges.count(key))).double() for key in keys}
            case Merge(parts=parts):
                return {key: next(rows[p][key] for p in parts if key in rows[p]) for key in keys}
        raise AssertionError(op)


PROGRAM = """\
program everything(
  x: node[4] feature, xh: node[2,4] feature, f: edge[2] feature,
  w: etype[4,2,3], wh: etype[2,4,3], wn: ntype[4,3], ws: shared[4,3],
  a: etype[2,3], v: shared[3], t: ntype[5], s: shared[]
) groups(g, k)
  xs: edge[4] = take x edge src
  xd: edge@g[4] = take x edge@g dst
  hs: edge[2,3] = linear xs w
  hg: edge@g[2,3] = linear xd w
  hk: edge@k[2,3] = take hs edge@k
  fg: edge@g[2] = take f edge@g
  sp: src_pair@g[4] = take x src_pair@g src
  hp: src_pair@g[2,3] = linear sp w
  dp: dst_pair[2,4] = take xh dst_pair dst
  hq: dst_pair[2,3] = linear dp wh
  from_pairs: edge@g[2,3] = take hp edge@g
  from_dst: edge[2,3] = take hq edge
  by_node: node[3] = linear x wn
  by_all: node[3] = linear x ws
  at_edge: edge[2,3] = take a edge
  at_pair: src_pair@g[2,3] = take a src_pair@g
  at_node: node[5] = take t node
  at_src: etype[5] = take t etype src
  at_dst: etype[5] = take t etype dst
  score: edge[2] = dot hs a
  score_g: edge@g[2] = dot hg v
  every: edge[2] = dot v hs
  alpha: edge[2] = softmax score node
  beta: edge[2] = softmax score dst_pair
  gamma: edge@g[2] = softmax score_g dst_pair
  delta: edge@g[2] = softmax fg node
  weighted: edge[2,3] = mul alpha hs
  typed: edge[2,3] = mul hs a
  scalar: edge[2,3] = mul s hs
  at_nodes: node[3] = sum hg_gone node
  sums: node[2,3] = sum weighted node
  sums_g: node[2,3] = sum hg node
  pair_sums: dst_pair[2,3] = sum typed dst_pair
  pair_sums_g: dst_pair@g[2,3] = sum hg dst_pair
  from_pair_sums: node[2,3] = sum pair_sums_g node
  degree: node[] = count node
  degree_g: node[] = count node@g
  pair_degree: dst_pair@g[] = count dst_pair@g
  whole: edge[2,3] = merge hk hg
  of_source: node[2,3] = sum hs node src
  of_source_g: node[2,3] = max hg node src
  most: node[2,3] = max hs node
  least: node[2,3] = min hs node src
  product: node[2] = prod score node
  pair_most: dst_pair[2,3] = max hs dst_pair
  pair_product: src_pair@g[2,3] = prod hg src_pair
  pairs_of_source: node[2,3] = sum hp node src
  pairs_least: node[2,3] = min pair_sums node
  by_etype: etype[2,3] = sum hs etype
  by_etype_g: etype[2,3] = min hp etype
  pairs_by_etype: etype[2,3] = sum pair_sums etype
  by_ntype: ntype[3] = sum by_node ntype
  most_by_ntype: ntype[3] = max by_all ntype
  of_etypes: ntype[2,3] = sum by_etype ntype src
  to_etypes: ntype[2,3] = max by_etype ntype dst
  to_all_edges: edge[2,3] = sum hg edge
  to_all_edges_prod: edge[2,3] = prod hg edge
  all_nodes: shared[3] = sum by_node shared
  all_edges: shared[2,3] = max hs shared
  all_pairs: shared[2,3] = sum pair_sums_g shared
  all_types: shared[3] = prod by_ntype shared
  all_etypes: shared[5] = min at_src shared
  from_all: edge@g[3] = take all_nodes edge@g
  from_all_nodes: node[3] = take all_types node
  pairs_of_heads: edge[2,3,3] = outer hs a
  over_heads: edge[3] = fold hs 0 mean
  over_row: edge@g[2] = fold hg 1 max
  least_of_row: node[2] = fold sums 1 min
  of_weight: etype[2] = fold a 1 sum
  beside: edge[2,6] = concat hs a
  beside_all: edge[7] = concat score v score
  middle: edge@g[2,1] = slice hg 1 2
  of_w: etype[4,2,2] = slice w 1 3
  return whole
""".replace("  at_nodes: node[3] = sum hg_gone node\n", "")


def random_values(program, graph, seed=0):
    naive, draw = Naive(graph), torch.Generator().manual_seed(seed)
    return {
        param.name: torch.randn(
            len(naive.keys(param.type.space, "")),
            *param.type.shape,
            generator=draw,
            dtype=torch.float64,
        )
        for param in program.params
    }


@pytest.mark.parametrize(
    "graph",
    [random_graph(), random_graph(60, seed=1), random_graph(1), empty_graph()],
    ids=["random", "denser", "one_edge", "no_edges"],
)
def test_every_operator_as_its_definition_says(graph):
    program = parse(PROGRAM)
    verify(program)
    values = random_values(program, graph)
    found = interpret_all(program, values, graph, GROUPS)
    naive, types = Naive(graph), program.types
    rows = {
        param.name: dict(
            zip(naive.keys(param.type.space, ""), values[param.name].unbind(), strict=True)
        )
        for param in program.params
    }
    for let in program.lets:
        rows[let.name] = naive.run(let, types, rows)
        expected = list(rows[let.name].values())
        assert found[let.name].shape == (len(expected), *let.type.shape), let
        if expected:
            torch.testing.assert_close(
                found[let.name], torch.stack(expected), rtol=1e-12, atol=1e-12, msg=str(let)
            )


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add x y", lambda x, y: x + y),
        ("sub x y", lambda x, y: x - y),
        ("div x y", lambda x, y: x / y),
        ("leaky_relu x 0.1", lambda x, y: x if x > 0 else 0.1 * x),
        ("scale x -3.0", lambda x, y: -3 * x),
        ("relu x", lambda x, y: max(x, 0)),
        ("gelu x", lambda x, y: x * 0.5 * (1 + math.erf(x / math.sqrt(2)))),
        ("exp x", lambda x, y: math.exp(x)),
        ("sigmoid x", lambda x, y: 1 / (1 + math.exp(-x))),
        ("tanh x", lambda x, y: math.tanh(x)),
        ("reciprocal x", lambda x, y: 1 / x),
        ("one_minus x", lambda x, y: 1 - x),
        ("maximum x y", max),
        ("minimum x y", min),
        ("equal x y", lambda x, y: float(x == y)),
        ("pow x y", lambda x, y: x**y if x > 0 else math.nan),
        ("elu x 0.5", lambda x, y: x if x > 0 else 0.5 * (math.exp(x) - 1)),
        ("shift x -0.5", lambda x, y: x - 0.5),
        ("clamp_min x 0.5", lambda x, y: max(x, 0.5)),
        ("clamp_max x 0.5", lambda x, y: min(x, 0.5)),
        ("pow_c x 3.0", lambda x, y: x**3),
        ("silu x", lambda x, y: x / (1 + math.exp(-x))),
        ("softplus x", lambda x, y: math.log(1 + math.exp(x))),
        ("log x", lambda x, y: math.log(x) if x > 0 else math.nan),
        ("sin x", lambda x, y: math.sin(x)),
        ("cos x", lambda x, y: math.cos(x)),
        ("abs x", lambda x, y: abs(x)),
        ("sqrt x", lambda x, y: math.sqrt(x) if x > 0 else math.nan),
        ("rsqrt x", lambda x, y: 1 / math.sqrt(x) if x > 0 else math.nan),
        ("rsqrt0 x", lambda x, y: 1 / math.sqrt(x) if x > 0 else 0),
        ("square x", lambda x, y: x * x),
        ("step x", lambda x, y: float(x > 0)),
    ],
)
def test_function(op, expected):
    program = parse(
        f"program p(x: node[2] feature, y: node[2] feature)\n z: node[2] = {op}\n return z\n"
    )
    verify(program)
    graph = random_graph()
    values = random_values(program, graph)
    found = interpret(program, values, graph)
    wanted = [
        [expected(x, y) for x, y in zip(*rows, strict=True)]
        for rows in zip(values["x"].tolist(), values["y"].tolist(), strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), equal_nan=True)


def test_weights_meet_weights():
    program = parse("""program p(w: etype[4,2,3], v: shared[2,3], b: shared[4])
  wv: etype[4,2] = einsum "khd,hd->kh" w v
  wb: etype[4,2] = mul b wv
  o: shared[4,4] = outer b b
  r: etype[8] = reshape wb [8]
  return r
""")
    verify(program)
    graph = random_graph()
    values = random_values(program, graph)
    found = interpret_all(program, values, graph)
    w, v, b = (values[name] for name in "wvb")
    expected = torch.stack([(w[r] * v[0]).sum(-1) * b[0][:, None] for r in range(4)])
    torch.testing.assert_close(found["wb"], expected)
    torch.testing.assert_close(found["r"], expected.flatten(1))
    torch.testing.assert_close(found["o"][0], b[0][:, None] * b[0])


def test_several_results_in_any_space():
    program = parse("""program p(x: node[2] feature, f: edge[] feature)
  s: edge[] = softmax f node
  xs: edge[2] = take x edge dst
  y: node[2] = max xs node src
  return s, y, x
""")
    verify(program)
    graph = random_graph()
    values = random_values(program, graph)
    everything = interpret_all(program, values, graph)
    found = interpret_results(program, values, graph)
    assert [tuple(rows.shape) for rows in found] == [(30,), (9, 2), (9, 2)]
    assert all(map(torch.equal, found, (everything[name] for name in "syx")))
    with pytest.raises(ValueError, match="too many values"):
        interpret(program, values, graph)


def test_a_reduction_is_the_transpose_of_the_take_back():
    """<take x, y> = <x, reduce y> for all rows: each is the other's gradient."""
    graph = random_graph(40, seed=3)
    for coarse, fine in (
        ("node", "edge src"), ("node", "edge dst"), ("node", "src_pair src"),
        ("node", "dst_pair dst"), ("etype", "edge"), ("etype", "dst_pair"), ("ntype", "node"),
        ("ntype", "etype dst"), ("shared", "edge"), ("shared", "node"),
    ):  # fmt: skip
        space, _, end = fine.partition(" ")
        program = parse(f"""program p(n: node[3] feature, e: edge[3] feature)
  e_pairs: dst_pair[3] = sum e dst_pair
  e_sources: src_pair[3] = max e src_pair
  e_etypes: etype[3] = sum e etype
  n_types: ntype[3] = sum n ntype
  n_all: shared[3] = max n shared
  out: {space}[3] = take {_name(coarse)} {fine}
  back: {coarse}[3] = sum {_name(space)} {coarse} {end}
  return out, back
""")
        verify(program)
        known = interpret_all(program, random_values(program, graph), graph)
        taken = (known["out"] * known[_name(space)]).sum()
        torch.testing.assert_close(taken, (known["back"] * known[_name(coarse)]).sum())


def _name(space):
    names = {"node": "n", "edge": "e", "dst_pair": "e_pairs", "src_pair": "e_sources"}
    return names.get(space) or {"etype": "e_etypes", "ntype": "n_types", "shared": "n_all"}[space]


def test_softmax_of_huge_scores_stays_finite_and_sums_to_one():
    program = parse("program p(f: edge[] feature)\n s: edge[] = softmax f node\n return s\n")
    graph = HeteroGraph(torch.tensor([0, 1, 0]), torch.tensor([0, 0, 1]))
    scores = torch.tensor([1e4, 1e4, -1e4])
    expected = torch.tensor([0.5, 0.5, 1.0])
    torch.testing.assert_close(interpret(program, {"f": scores}, graph), expected)


def test_gradients_flow_through_every_float_operator():
    program = parse(PROGRAM.replace("return whole", "return sums"))
    graph = random_graph(8)
    values = random_values(program, graph)
    inputs = tuple(values[name].requires_grad_() for name in ("x", "w", "a"))

    def result(x, w, a):
        return interpret(program, values | {"x": x, "w": w, "a": a}, graph, GROUPS)

    assert torch.autograd.gradcheck(result, inputs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "no tensor for the parameters x: pass one for each"),
        ({"x": torch.ones(9, 2).long()}, "parameters need one float dtype, found x: torch.int64"),
        ({"x": torch.ones(9, 3)}, "parameter 'x' is node[2] and needs the shape [9, 2], but has"),
    ],
)
def test_misfits(values, message):
    program = parse("program p(x: node[2] feature)\n return x\n")
    with pytest.raises(InputError) as error:
        interpret(program, values, random_graph())
    assert str(error.value).startswith(message)


def test_groups_that_leave_edges_out_do_not_merge():
    program = parse("""program p(x: edge[] feature) groups(a, b)
  p: edge@a[] = take x edge@a
  q: edge@b[] = take x edge@b
  y: edge[] = merge p q
  return y
""")
    graph = random_graph()
    values = {"x": torch.arange(30.0)}
    with pytest.raises(InputError, match="the groups a, b are merged but do not hold every edge"):
        interpret(program, values, graph, {"a": (0,), "b": (2,)})
    with pytest.raises(InputError, match="no edge types for the groups b: pass groups="):
        interpret(program, values, graph, {"a": (0,)})
    merged = interpret(program, values, graph, {"a": (0, 3), "b": (1, 2)})
    assert torch.equal(merged, values["x"])


@pytest.mark.parametrize("space", ["etype", "shared"])
@pytest.mark.parametrize("rows", ["edge[2,3]", "edge@a[2,3]", "dst_pair[2,3]", "node[2,3]"])
def test_sums_of_outer_products_need_no_matrix_of_each_row(rows, space):
    """They are what the matrices add up to, which are there where somebody wants them."""
    where, group = rows.partition("[")[0], " groups(a)" if "@" in rows else ""
    if where == "node":
        x, y, space = "x", "x", {"etype": "ntype"}.get(space, space)
    else:
        end = " src" if where.startswith("edge") else " dst"
        x, y = "xs", "ys"
    takes = (
        ""
        if where == "node"
        else f"""  xs: {rows} = take x {where}{end}
  ys: {rows} = mul xs w
"""
    )
    program = parse(f"""program p(x: node[2,3] feature, w: etype[2,3]){group}
{takes}  o: {where}[2,3,3] = outer {x} {y}
  s: {space}[2,3,3] = sum o {space}
  return s
""")
    verify(program)
    graph = random_graph()
    values, groups = random_values(program, graph), {"a": (0, 2)} if group else {}
    whole = interpret_all(program, values, graph, groups)
    torch.testing.assert_close(interpret(program, values, graph, groups), whole["s"])
    both = interpret_all(program, values, graph, groups, wanted={"o", "s"})
    assert torch.equal(both["o"], whole["o"])
    assert torch.equal(both["s"], whole["s"])


def test_values_that_nobody_wants_are_let_go():
    program = parse("""program p(w: etype[4], v: shared[4])
  a: etype[4] = mul v w
  b: etype[4] = relu a
  c: etype[4] = add a b
  return c
""")
    graph = random_graph()
    values = random_values(program, graph)
    everything = interpret_all(program, values, graph)
    for wanted in ({"c"}, {"a", "w"}, {"b", "c"}, set()):
        found = interpret_all(program, values, graph, wanted=wanted)
        assert found.keys() == wanted
        assert all(torch.equal(value, everything[name]) for name, value in found.items())

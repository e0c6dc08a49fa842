"""The interpreter against small cases by hand and against one row after the other."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import (
    REDUCTIONS,
    Apply,
    Def,
    Direct,
    FoldAxis,
    ForEach,
    Gather,
    Gemm,
    Init,
    Inner,
    Read,
    Rows,
    SegmentSum,
    Update,
    Write,
)
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.random_values import random_values
from hetune.variants.kernel.text import show
from hetune.variants.kernel.verify import verify
from hetune.variants.program.nodes import End, Space
from hetune.variants.testing.launches import random_launch

RELATIONS = {"": None, "a": (0, 2), "b": (1,)}


def graph_of(src, dst, etype, ntype=None, **counts):
    arrays = (
        None if ids is None else np.array(ids, dtype=np.int64) for ids in (src, dst, etype, ntype)
    )
    return HeteroGraph(*arrays, **counts)


def index_of(graph):
    return lambda group: GraphIndex.of(graph, RELATIONS[group])


def run(text, graph, **values):
    launch = parse(text)
    verify(launch)
    tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
    interpret(launch, tensors, index_of(graph), graph)
    return tensors


# Canonical order: 0 -0-> 1, 2 -0-> 1, 0 -1-> 1, 1 -2-> 2; nodes 0 and 3 have no edges into them.
SMALL = graph_of([2, 0, 0, 1], [1, 1, 1, 2], [0, 0, 1, 2], num_nodes=4, num_etypes=3)


def test_gather_product_per_source_pair():
    text = """\
launch
  buffer x: node[2]
  buffer w: etype[2,1]
  buffer t: src_pair@a[1]
  gemm t[src_pair@a] = x[src] @ w heads=1 k=2 n=1
"""
    x = [[1.0, 2], [3, 4], [5, 6], [7, 8]]
    w = [[[1.0], [10]], [[0], [0]], [[-1], [1]]]
    # Pairs of relations 0 and 2 by (etype, src): (0, 0), (0, 2), (2, 1).
    assert run(text, SMALL, x=x, w=w, t=[[9.0], [9], [9]])["t"].tolist() == [[21], [65], [1]]


def test_scatter_adds_up_at_destinations():
    text = """\
launch
  buffer x: node[1]
  buffer s: edge[]
  buffer w: shared[1,1]
  buffer y: node[1]
  gemm y[edge@a -> node] += s * x[src] @ w heads=1 k=1 n=1
"""
    x, s = [[1.0], [2], [3], [4]], [10.0, 20, 30, 40]
    result = run(text, SMALL, x=x, s=s, w=[[[2.0]]], y=[[0.5], [0.5], [0.5], [0.5]])
    # Edges of relations 0 and 2: 0 -> 1 (s 10), 2 -> 1 (s 20), 1 -> 2 (s 40).
    assert result["y"].flatten().tolist() == [0.5, 0.5 + 2 * (10 + 60), 0.5 + 2 * 80, 0.5]


def test_outer_products_add_up_by_type():
    text = """\
launch
  buffer x: node[1]
  buffer y: node[2]
  buffer s: edge[]
  buffer w: etype[1,2]
  outer w[edge@a] = s * x[src], y[dst] heads=1 k=1 n=2
"""
    x, y = [[1.0], [2], [3], [4]], [[0.0, 0], [20, -1], [30, 1], [0, 0]]
    w = run(text, SMALL, x=x, y=y, s=[1.0, 2, 3, 4], w=[[[9.0, 9]]] * 3)["w"]
    assert w.tolist() == [[[1 * 20 + 6 * 20, -7]], [[0, 0]], [[8 * 30, 8]]]


def test_sum_first_with_a_weight_per_head():
    text = """\
launch
  buffer x: node[1]
  buffer a: edge[2]
  buffer w: etype[2,1,1]
  buffer p: dst_pair[2]
  gemm p[dst_pair] = sum(a * x[src]) @ w heads=2 k=1 n=1
"""
    x, a = [[1.0], [2], [3], [4]], [[1.0, 2], [3, 4], [5, 6], [7, 8]]
    w = [[[[1.0]], [[10]]], [[[1]], [[1]]], [[[2]], [[3]]]]
    # Pairs (1, 0): edges 0 and 1; (1, 1): edge 2; (2, 2): edge 3.
    expected = [[1 + 9, 10 * (2 + 12)], [5, 6], [2 * 14, 3 * 16]]
    assert run(text, SMALL, x=x, a=a, w=w, p=[[0.0, 0]] * 3)["p"].tolist() == expected


def test_bfloat16_rows_are_rounded_as_they_are_stored():
    text = """\
launch
  buffer x: node[32]
  buffer w: etype[32,32]
  buffer t: src_pair@a[32] of bfloat16
  gemm t[src_pair@a] = x[src] @ w heads=1 k=32 n=32
"""
    launch, table = parse(text), torch.zeros(3, 32, dtype=torch.bfloat16)
    verify(launch)
    x = torch.full((4, 32), 1 + 3 * 2**-9, dtype=torch.float64)
    values = {"x": x, "w": torch.eye(32, dtype=torch.float64).repeat(3, 1, 1), "t": table}
    interpret(launch, values, index_of(SMALL), SMALL)
    assert (table == 1 + 2**-7).all()
    out = torch.empty(4, 32, dtype=torch.float64)
    read = """\
launch
  buffer t: src_pair@a[32] of bfloat16
  buffer y: node[32]
  traverse node
    init total: [32] sum
    for edge@a
      h: [32] = read t
      update total h
    store y = total
"""
    interpret(parse(read), {"t": table, "y": out}, index_of(SMALL), SMALL)
    assert out[1].tolist() == [2 * float(table[0, 0])] * 32


def test_bias_and_ntype_weights():
    graph = graph_of([0], [1], [0], [0, 0, 1], num_etypes=1)
    text = """\
launch
  buffer x: node[1]
  buffer w: ntype[1,2]
  buffer b: ntype[2]
  buffer y: node[2]
  gemm y[node] = x @ w + b heads=1 k=1 n=2
"""
    w, b = [[[1.0, 2]], [[3, 4]]], [[0.5, 0.25], [100, 200]]
    result = run(text, graph, x=[[1.0], [2], [3]], w=w, b=b, y=[[0.0, 0]] * 3)
    assert result["y"].tolist() == [[1.5, 2.25], [2.5, 4.25], [109, 212]]


def test_softmax_over_the_edges_of_a_node():
    text = """\
launch
  buffer a: edge[]
  buffer n: node[]
  traverse node
    init top: [] max
    init total: [] sum
    for edge
      s: [] = read a
      update top s
    for edge
      s: [] = read a
      d: [] = sub(s, top)
      r: [] = exp(d)
      update total r
      store a = r
    for edge
      s: [] = read a
      r: [] = div(s, total)
      store a = r
    store n = total
"""
    result = run(text, SMALL, a=[0.0, math.log(2), math.log(5), 3.0], n=[9.0, 9, 9, 9])
    assert torch.allclose(result["a"], torch.tensor([1 / 8, 2 / 8, 5 / 8, 1]).double())
    assert torch.allclose(result["n"], torch.tensor([0, 8 / 5, 1, 0]).double())


def test_nested_pairs_and_a_group():
    text = """\
launch
  buffer x: node[1]
  buffer c: dst_pair@a[]
  buffer y: node[1]
  traverse node
    init acc: [1] max
    init low: [1] sum
    for dst_pair@a
      init part: [1] sum
      for edge@a
        h: [1] = read x[src]
        update part h
      k: [] = read c
      m: [1] = mul(k, part)
      update acc m
      update low part
    update acc low
    store y += acc
"""
    x, c, y = [[1.0], [2], [3], [4]], [10.0, -1], [[0.5], [0.5], [0.5], [0.5]]
    result = run(text, SMALL, x=x, c=c, y=y)["y"].flatten().tolist()
    # Node 1: the pair of relation 0 sums to 4, times 10; node 2: 2, times -1, so the sum wins.
    assert result == [0.5, 40.5, 2.5, 0.5]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("add(u, v)", [1, -4]),
        ("sub(u, v)", [-5, 0]),
        ("mul(u, v)", [-6, 4]),
        ("div(u, v)", [-2 / 3, 1]),
        ("maximum(u, v)", [3, -2]),
        ("minimum(u, v)", [-2, -2]),
        ("leaky_relu(u, const=0.25)", [-0.5, -0.5]),
        ("scale(v, const=-2.0)", [-6, 4]),
        ("relu(v)", [3, 0]),
        ("gelu(v)", [3 * 0.5 * (1 + math.erf(3 / 2**0.5)), -1 + math.erf(2 / 2**0.5)]),
        ("exp(u)", [math.exp(-2), math.exp(-2)]),
        ("sigmoid(v)", [1 / (1 + math.exp(-3)), 1 / (1 + math.exp(2))]),
        ("tanh(v)", [math.tanh(3), math.tanh(-2)]),
        ("reciprocal(v)", [1 / 3, -1 / 2]),
        ("one_minus(v)", [-2, 3]),
    ],
)
def test_functions(call, expected):
    text = f"""\
launch
  buffer a: shared[]
  buffer b: node[]
  buffer y: node[]
  traverse node
    u: [] = read a
    v: [] = read b
    r: [] = {call}
    store y = r
"""
    graph = graph_of([], [], [], num_nodes=2)
    result = run(text, graph, a=[-2.0], b=[3.0, -2], y=[0.0, 0])["y"]
    assert torch.allclose(result, torch.tensor(expected, dtype=torch.float64), atol=1e-12)


def test_a_read_does_not_change_with_the_buffer():
    text = """\
launch
  buffer x: node[]
  traverse node
    old: [] = read x
    two: [] = scale(old, const=2.0)
    store x = two
    store x += old
"""
    assert run(text, SMALL, x=[1.0, 2, 3, 4])["x"].tolist() == [3, 6, 9, 12]


# --- against a naive loop -----------------------------------------------------------------


class Naive:
    """Runs launches one row after the other, blocks of one node in any order.

    Knows the graph's edges only, none of hetune's indexes.
    """

    def __init__(self, graph, values, order):
        edges = zip(graph.dst.tolist(), graph.etype.tolist(), graph.src.tolist(), strict=True)
        self.edges = sorted(edges)
        self.graph, self.values, self.order = graph, values, order

    def run(self, launch):
        if len(launch.kernels) == 1:
            self.kernel(launch.kernels[0], None)
            return
        for node in self.order:
            for kernel in launch.kernels:
                self.kernel(kernel, node)

    def rows(self, rows):
        """Rows as dictionaries of what is known about them."""
        wanted = RELATIONS[rows.group]
        chosen = [
            {"row": i, "dst": d, "etype": r, "src": s}
            for i, (d, r, s) in enumerate(self.edges)
            if wanted is None or r in wanted
        ]
        match rows.space:
            case Space.NODE:
                return [{"row": v, "node": v} for v in range(self.graph.num_nodes)]
            case Space.EDGE:
                return chosen
            case Space.DST_PAIR:
                keys = sorted({(e["dst"], e["etype"]) for e in chosen})
                return [{"row": i, "dst": d, "etype": r} for i, (d, r) in enumerate(keys)]
            case Space.SRC_PAIR:
                keys = sorted({(e["etype"], e["src"]) for e in chosen})
        return [{"row": i, "etype": r, "src": s} for i, (r, s) in enumerate(keys)]

    def inside(self, row, node):
        return node is None or row.get("dst", row.get("node")) == node

    def place(self, type, rows, row, end):
        own = row["node"] if rows.space is Space.NODE else row.get(str(end))
        match type.space:
            case Space.NODE:
                return own
            case Space.NTYPE:
                return int(self.graph.ntype[own])
            case Space.ETYPE:
                return row["etype"]
            case Space.SHARED:
                return 0
            case space if space is rows.space:
                return row["row"]
        for pair in self.rows(Rows(type.space, type.group)):
            if all(row[key] == value for key, value in pair.items() if key != "row"):
                return pair["row"]
        raise AssertionError("the pair is missing")

    def read(self, launch_types, name, rows, row, end=End.NONE):
        type = launch_types[name]
        place = self.place(type, rows, row, end)
        return self.values[name][place].copy()

    def kernel(self, kernel, node):
        for row in self.rows(kernel.rows):
            if self.inside(row, node):
                if isinstance(kernel, Gemm):
                    self.gemm(kernel, row)
                else:
                    self.body(kernel.body, [(kernel.rows, row, {}, {})])

    def gemm(self, g, row):
        edges = self.rows(Rows(Space.EDGE))
        if g.only is not End.NONE and all(e[g.only] != row["row"] for e in edges):
            if g.fill:
                out = self.values[g.out]
                empty = np.zeros(out.shape[1:])
                if g.bias is not None:
                    empty += self.read(self.types, g.bias, g.rows, row).reshape(empty.shape)
                out[row["row"]] = empty
            return
        match g.x:
            case Direct(buffer):
                x = self.read(self.types, buffer, g.rows, row)
            case Gather(buffer, end):
                x = self.read(self.types, buffer, g.rows, row, end)
            case SegmentSum(buffer, end, weight):
                edges = Rows(Space.EDGE, g.rows.group)
                x = 0
                for e in self.rows(edges):
                    if (e["dst"], e["etype"]) == (row["dst"], row["etype"]):
                        part = self.read(self.types, buffer, edges, e, end).reshape(-1, g.k)
                        if weight is not None:
                            part = self.read(self.types, weight, edges, e).reshape(-1, 1) * part
                        x = x + part
        w = self.read(self.types, g.w, g.rows, row).reshape(g.heads, g.k, g.n)
        result = np.stack([x.reshape(g.heads, g.k)[h] @ w[h] for h in range(g.heads)])
        if g.scale is not None:
            result *= self.read(self.types, g.scale, g.rows, row).reshape(-1, 1)
        if g.bias is not None:
            result += self.read(self.types, g.bias, g.rows, row).reshape(result.shape)
        out = self.values[g.out]
        place = row["dst"] if g.scatter else row["row"]
        result = result.reshape(out.shape[1:])
        out[place] = out[place] + result if g.accumulate else result

    def body(self, body, stack):
        rows, row, values, reductions = stack[-1]
        scope = {name: value for _, _, known, _ in stack for name, value in known.items()}
        for statement in body:
            match statement:
                case Def(name, shape, expr):
                    values[name] = scope[name] = self.expr(expr, rows, row, scope)
                    assert values[name].shape == shape
                case Init(name, shape, reduce):
                    reductions[name] = reduce
                    values[name] = np.full(shape, REDUCTIONS[reduce])
                    scope[name] = values[name]
                case Update(name, value):
                    _, _, held, how = next(frame for frame in stack if name in frame[3])
                    held[name] = scope[name] = COMBINES[how[name]](held[name], scope[value])
                case Write(buffer, value, accumulate):
                    out, new = self.values[buffer], scope[value]
                    out[row["row"]] = out[row["row"]] + new if accumulate else new
                case ForEach(inner, nested):
                    for other in self.rows(inner):
                        same_node = other["dst"] == row.get("node", row.get("dst"))
                        if same_node and row.get("etype", other["etype"]) == other["etype"]:
                            self.body(nested, [*stack, (inner, other, {}, {})])
                    scope |= values

    def expr(self, expr, rows, row, scope):
        match expr:
            case Read(buffer, end):
                return self.read(self.types, buffer, rows, row, end)
            case Apply(fn, args, const):
                return FUNCTIONS[fn](*align([scope[a] for a in args]), *filter(None, [const]))
            case FoldAxis(x, axis, fn):
                return getattr(np, fn)(scope[x], axis)
            case Inner(x, y):
                return np.asarray((scope[x] * scope[y]).sum(-1))


def align(args):
    axes = max(a.ndim for a in args)
    return [a.reshape(a.shape + (1,) * (axes - a.ndim)) for a in args]


COMBINES = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
FUNCTIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "shift": lambda x, number: x + number,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "square": np.square,
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "scale": lambda x, factor: x * factor,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5)),
    "exp": np.exp,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "one_minus": lambda x: 1 - x,
}


def random_graph(rng):
    ntype = np.sort(rng.integers(0, 2, rng.integers(1, 7)))
    nodes, edges, etypes = len(ntype), rng.integers(0, 14), 4  # relation 3 is in no other group
    etype = rng.integers(0, etypes, edges)
    # Each relation has one source type, as canonical graphs do; duplicates and loops are welcome.
    pools = [np.flatnonzero(ntype == t) for t in (0, 1)]
    pools = [pool if len(pool) else np.arange(nodes) for pool in pools]
    src = np.array([rng.choice(pools[r % 2]) for r in etype], dtype=np.int64)
    dst = rng.integers(0, nodes, edges)
    return HeteroGraph(src, dst, etype, ntype, num_etypes=etypes, num_ntypes=2)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_random_launches_against_a_naive_loop(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    launch = random_launch(seed, widths=(1, 2, 3))
    values = random_values(launch, index_of(graph), graph, seed=seed)
    naive = Naive(graph, {k: v.numpy().copy() for k, v in values.items()}, order=None)
    naive.order = rng.permutation(graph.num_nodes).tolist()
    naive.types = {b.name: b.type for b in launch.buffers}
    naive.run(launch)
    interpret(launch, values, index_of(graph), graph)
    for name, expected in naive.values.items():
        np.testing.assert_allclose(
            values[name].numpy(), expected, rtol=1e-9, atol=1e-9, err_msg=f"{name}\n{show(launch)}"
        )


def test_float32_agrees_with_float64():
    rng = np.random.default_rng(3)
    for seed in range(40):
        graph, launch = random_graph(rng), random_launch(seed)
        wide = random_values(launch, index_of(graph), graph)
        narrow = {name: tensor.float() for name, tensor in wide.items()}
        interpret(launch, wide, index_of(graph), graph)
        interpret(launch, narrow, index_of(graph), graph)
        for name, tensor in narrow.items():
            assert tensor.dtype is torch.float32
            torch.testing.assert_close(tensor.double(), wide[name], rtol=1e-4, atol=1e-4)


# --- tensors that do not fit --------------------------------------------------------------

COPY = """\
launch
  buffer x: node[2,3]
  buffer y: node[2,3]
  traverse node
    h: [2,3] = read x
    store y = h
"""


def test_flat_rows_are_welcome():
    x, y = torch.randn(4, 6), torch.zeros(4, 6)
    interpret(parse(COPY), {"x": x, "y": y}, index_of(SMALL), SMALL)
    assert torch.equal(x, y)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": torch.zeros(4, 6)}, "no tensor for buffer 'y': add it to values"),
        ({"y": torch.zeros(3, 6)}, r"buffer 'y' has shape \(3, 6\): \(4, 2, 3\) is needed"),
        ({"y": torch.zeros(6, 4).T}, "'y' must be contiguous and of a floating dtype"),
        ({"y": torch.zeros(4, 6, dtype=torch.int64)}, "contiguous and of a floating dtype"),
        ({"y": torch.zeros(4, 6).double()}, "buffer 'y' is torch.float64 on cpu, others are"),
    ],
)
def test_tensors_that_do_not_fit(values, message):
    with pytest.raises(InputError, match=message):
        interpret(parse(COPY), {"x": torch.zeros(4, 6), **values}, index_of(SMALL), SMALL)


def test_a_softmax_goes_over_the_edges_of_all_groups():
    text = """
launch
  buffer s: edge[]
  buffer z: edge[]
  traverse node
    softmax share: [] over edge to z
      scores edge@b
        a: [] = read s
        score a
      scores edge@a
        b: [] = read s
        twice: [] = scale(b, const=2.0)
        score twice
"""
    scores = [3.0, 5.0, 4.0, -2.0]  # the third is of group b, the last alone at its node
    powers = [math.exp(-4), 1.0, math.exp(-6)]
    shares = [power / sum(powers) for power in powers]
    found = run(text, SMALL, s=scores, z=[0.0] * 4)
    assert found["z"].tolist() == pytest.approx([*shares, 1.0], rel=1e-12)
    summed = (
        text.replace("buffer z: edge", "buffer y: node").replace(" to z", "")
        + """\
      for edge@a
        c: [] = read s
        part: [] = mul(share, c)
        update total part
    store y = total
"""
    )
    summed = summed.replace("    softmax", "    init total: [] sum\n    softmax")
    found = run(summed, SMALL, s=scores, y=[0.0] * 4)
    total = 3.0 * shares[0] + 5.0 * shares[1]
    assert found["y"].tolist() == pytest.approx([0.0, total, -2.0, 0.0], rel=1e-12)

"""Rows of bfloat16: stored in an order of their own, and read as they were, rounded once."""

import math
from itertools import product

import pytest
import torch
from tests.full import every

from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import Element, Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.random_values import random_values
from hetune.variants.kernel.verify import verify

SHAPES = ("32", "64", "2,16", "8,8", "3,32")
COPY = """
launch
  buffer x: node[{shape}]
  buffer t: node[{shape}] of bfloat16
  traverse node
    row: [{shape}] = read x
    store t = row
"""
BACK = """
launch
  buffer t: node[{shape}] of bfloat16
  buffer y: node[{shape}]
  traverse node
    row: [{shape}] = read t
    store y = row
"""
UNUSUAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -3e-39, 3.3895e38, 1 + 2**-8)


@pytest.mark.parametrize(("shape", "lanes"), every(4, product(SHAPES, (16, 8, 4))))
def test_rows_come_back_as_torch_rounds_them(shape, lanes, backend, place_of, graphs):
    place, schedule = place_of(graphs["plain"]), Schedule(block_nodes=64, lanes=lanes)
    copy, back = parse(COPY.format(shape=shape)), parse(BACK.format(shape=shape))
    verify(copy)
    x = random_values(copy, place.index, place.graph, torch.float32)["x"]
    x.view(-1)[: len(UNUSUAL)] = torch.tensor(UNUSUAL)
    table, out = torch.empty_like(x, dtype=torch.bfloat16), torch.empty_like(x)
    backend.bind(copy, schedule, place)({"x": x, "t": table})
    backend.bind(back, schedule, place)({"t": table, "y": out})
    torch.testing.assert_close(out, x.bfloat16().float(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(out.signbit(), x.signbit())


LAUNCHES = {
    "product of a gathered row": """
  buffer t: node[{h},{k}] of bfloat16
  buffer w: etype[{h},{k},{n}]
  buffer y: edge[{h},{n}]
  gemm y[edge@a] = t[src] @ w heads={h} k={k} n={n}
""",
    "activated operand": """
  buffer t: node[{h},{k}] of bfloat16
  buffer w: ntype[{h},{k},{n}]
  buffer y: node[{h},{n}]
  gemm y[node] = gelu(t) @ w heads={h} k={k} n={n}
""",
    "sum first": """
  buffer t: node[{h},{k}] of bfloat16
  buffer w: etype[{h},{k},{n}]
  buffer y: node[{h},{n}]
  gemm y[dst_pair -> node] += sum(t[src]) @ w heads={h} k={k} n={n}
""",
    "weighted sum": """
  buffer t: node[{h},{k}] of bfloat16
  buffer a: edge[{h}]
  buffer w: etype[{h},{k},{n}]
  buffer y: node[{h},{n}]
  gemm y[dst_pair -> node] += sum(a * t[src]) @ w heads={h} k={k} n={n}
""",
    "scores and sums of pairs": """
  buffer t: src_pair[{h},{k}] of bfloat16
  buffer q: node[{h},{k}]
  buffer y: node[{h},{k}]
  traverse node
    query: [{h},{k}] = read q
    init acc: [{h},{k}] sum
    for edge
      row: [{h},{k}] = read t
      score: [{h}] = dot(row, query)
      part: [{h},{k}] = mul(score, row)
      update acc part
    store y = acc
""",
}
WRITTEN = {
    "product": "gemm t[src_pair] = s * x[src] @ w + b heads={h} k={k} n={n}",
    "nodes": "gemm u[node] = x @ v + c heads={h} k={k} n={n} only=dst fill",
    "tail": """gemm p[src_pair] = x[src] @ w heads={h} k={k} n={n}
    more: [{width}] = relu(p)
    store t_flat = more""",
}
OUTPUTS = """
  buffer x: node[{h},{k}]
  buffer s: src_pair[]
  buffer w: etype[{h},{k},{n}]
  buffer v: ntype[{h},{k},{n}]
  buffer b: etype[{width}]
  buffer c: ntype[{width}]
  buffer t: src_pair[{h},{n}] of bfloat16
  buffer t_flat: src_pair[{width}] of bfloat16
  buffer u: node[{h},{n}] of bfloat16
"""
SIZES = [(1, 64, 64), (4, 16, 16), (8, 16, 8), (2, 32, 160)]


def _values(launch, place):
    """Random tensors, of bfloat16 where buffers are; and the names of these."""
    values = random_values(launch, place.index, place.graph, torch.float32)
    narrow = {b.name for b in launch.buffers if b.element is Element.BFLOAT16}
    return {n: v.bfloat16() if n in narrow else v for n, v in values.items()}, narrow


def _packed(backend, place, schedule, launch, name, rows):
    """Rows as the backend stores them."""
    (kind,) = (b.type for b in launch.buffers if b.name == name)
    space = f"{kind.space}[{','.join(map(str, kind.shape))}]"
    text = COPY.replace("node[{shape}]", space).replace("{shape}", space[len(kind.space) + 1 : -1])
    table = torch.empty_like(rows)
    copy = parse(text.replace("traverse node", f"traverse {kind.space}"))
    backend.bind(copy, schedule, place)({"x": rows.float(), "t": table})
    return table


@pytest.mark.parametrize(("text", "size"), every(3, product(LAUNCHES, SIZES)))
def test_kernels_read_them(text, size, backend, place_of, graphs):
    h, k, n = size
    schedule = Schedule(block_nodes=64, lanes=16 if h % 2 else 8)
    launch = parse("launch" + LAUNCHES[text].format(h=h, k=k, n=n))
    verify(launch)
    for name, graph in graphs.items():
        place = place_of(graph)
        expected, narrow = _values(launch, place)
        got = {n: v.clone() for n, v in expected.items()}
        for table in narrow:
            got[table] = _packed(backend, place, schedule, launch, table, got[table])
        interpret(launch, expected, place.index, graph)
        backend.bind(launch, schedule, place)(got)
        most = expected["y"].abs().max().item() if expected["y"].numel() else 0.0
        torch.testing.assert_close(got["y"], expected["y"], rtol=0, atol=1e-5 * most, msg=name)


@pytest.mark.parametrize(("text", "size"), every(2, product(WRITTEN, SIZES[1:])))
def test_kernels_write_them(text, size, backend, place_of, graphs):
    """Within half a unit in the last place of float32's result."""
    h, k, n = size
    schedule = Schedule(block_nodes=64, lanes=16 if h % 2 else 8)
    kernel = WRITTEN[text].format(h=h, k=k, n=n, width=h * n)
    sizes = {"h": h, "k": k, "n": n, "width": h * n}
    buffers = [line.format(**sizes) for line in OUTPUTS.strip("\n").splitlines()]
    launch = parse("\n".join(("launch", *_used(buffers, kernel), f"  {kernel}")))
    verify(launch)
    out = "u" if text == "nodes" else "t_flat" if text == "tail" else "t"
    for name, graph in graphs.items():
        place = place_of(graph)
        expected, _ = _values(launch, place)
        got = {n: v.clone() for n, v in expected.items()}
        interpret(launch, expected, place.index, graph)
        backend.bind(launch, schedule, place)(got)
        kind = launch.type_of(out)
        shape, rows = ",".join(map(str, kind.shape)), got[out]
        back = BACK.format(shape=shape).replace("node", str(kind.space))
        found = torch.empty(rows.shape)
        backend.bind(parse(back), schedule, place)({"t": rows, "y": found})
        wanted = expected[out].float()
        limit = 2**-7 * wanted.abs() + 1e-6
        assert ((found - wanted).abs() <= limit).all(), name


def _used(buffers, kernel):
    words = set(kernel.replace("[", " ").split())
    return [line for line in buffers if line.split()[1][:-1] in words]

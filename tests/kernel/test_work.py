"""The work of launches against numbers by hand."""

import dataclasses

import pytest

from hetune.variants.kernel.nodes import Element, Rows
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.terms import Work
from hetune.variants.kernel.passes.work import work
from hetune.variants.kernel.verify import verify
from hetune.variants.program.nodes import Space
from hetune.variants.testing.launches import random_launch

COUNTS = {
    ("node", ""): 10,
    ("ntype", ""): 3,
    ("shared", ""): 1,
    ("etype", ""): 6,
    ("edge", ""): 100,
    ("src_pair", ""): 40,
    ("dst_pair", ""): 30,
    ("etype", "s"): 2,
    ("edge", "s"): 20,
    ("src_pair", "s"): 8,
    ("dst_pair", "s"): 7,
    ("etype", "r"): 4,
    ("edge", "r"): 80,
    ("src_pair", "r"): 32,
    ("dst_pair", "r"): 23,
}


def count(rows):
    return COUNTS[rows.space, rows.group]


def of(buffers, kernels, count=count):
    lines = [f"  buffer {b}" for b in buffers.split("; ")]
    lines += [f"  {line}" for line in kernels.strip("\n").splitlines()]
    launch = parse("\n".join(["launch", *lines]))
    verify(launch)
    return work(launch, count)


CASES = [
    (
        # 8 source pairs, 3 -> 5 columns: 8 nodes at most, 2 weights; lists src and etype.
        "x: node[3]; w: etype[3,5]; t: src_pair@s[5]",
        "gemm t[src_pair@s] = x[src] @ w heads=1 k=3 n=5",
        Work(
            matrix_flops=2 * 8 * 3 * 5,
            read_bytes=4 * (8 * 3 + 2 * 15),
            write_bytes=4 * 8 * 5,
            index_bytes=4 * 16,
            gathered_bytes=4 * 8 * 3,
            gathers=8,
            touched_bytes=4 * (8 * 3 + 2 * 15 + 8 * 5),
        ),
    ),
    (
        # More pairs than nodes: each of the 10 nodes is read from memory once, gathered 40 times.
        "x: node[3]; w: shared[3,5]; t: src_pair[5]",
        "gemm t[src_pair] = x[src] @ w heads=1 k=3 n=5",
        Work(
            matrix_flops=2 * 40 * 3 * 5,
            read_bytes=4 * (10 * 3 + 15),
            write_bytes=4 * 40 * 5,
            index_bytes=4 * 40,
            gathered_bytes=4 * 40 * 3,
            gathers=40,
            touched_bytes=4 * (40 * 3 + 15 + 40 * 5),
        ),
    ),
    (
        # A function of 3 elements, then of 5; neither the product nor a list is written or read
        # twice, and nodes without edges at the destination, of which 30 pairs know at most 10,
        # have the tail but no product.
        "x: node[3]; w: ntype[3,5]; g: ntype[]; y: node[5]",
        """
gemm t[node] = leaky_relu(x, const=0.5) @ w heads=1 k=3 n=5 only=dst fill
  a: [] = read g
  u: [5] = mul(a, t)
  v: [5] = gelu(u)
  store y += v
""",
        Work(
            matrix_flops=2 * 10 * 3 * 5,
            vector_flops=10 * (2 * 3 + 5 + 5),
            special=10 * 5,
            read_bytes=4 * (10 * 3 + 3 * 15 + 3 + 10 * 5),
            write_bytes=4 * 10 * 5,
            index_bytes=4 * 10,
            touched_bytes=4 * (10 * 3 + 3 * 15 + 10 + 2 * 10 * 5),
        ),
    ),
    (
        # Aggregate first: 20 edges weighted and summed per head (2 x 3), then 7 pairs scattered to
        # 7 nodes, which are read and written. Lists: 7 + 1 pointers, src, position; type, node.
        "x: node[3]; a: edge[2]; w: etype[2,3,4]; y: node[8]",
        "gemm y[dst_pair@s -> node] += sum(a * x[src]) @ w heads=2 k=3 n=4",
        Work(
            matrix_flops=2 * 7 * 2 * 3 * 4,
            vector_flops=2 * 20 * 6 + 7 * 8,
            read_bytes=4 * (8 * 3 + 20 * 2 + 2 * 24 + 7 * 8),
            write_bytes=4 * 7 * 8,
            index_bytes=4 * (8 + 20 + 20 + 7 + 7),
            gathered_bytes=4 * 20 * 3,
            gathers=20,
            touched_bytes=4 * (20 * 3 + 20 * 2 + 2 * 24 + 2 * 7 * 8),
        ),
    ),
    (
        # Outer products of the edges of a group, into 6 types.
        "x: node[3]; y: node[5]; c: edge[]; w: etype[3,5]",
        "outer w[edge@s] = c * x[src], y[dst] heads=1 k=3 n=5",
        Work(
            matrix_flops=2 * 20 * 15,
            vector_flops=20 * 5,
            read_bytes=4 * (8 * 3 + 7 * 5 + 20),
            write_bytes=4 * 6 * 15,
            index_bytes=4 * 4 * 20,
            gathered_bytes=4 * 20 * 3,
            gathers=20,
            touched_bytes=4 * (20 * 3 + 20 * 5 + 20 + 6 * 15),
        ),
    ),
    (
        # Edges of a group with a scale, a bias and a product in place of the old rows.
        "m: edge[3]; u: edge[]; w: etype[3,5]; b: shared[5]; e: edge[5]",
        "gemm e[edge@s] = u * m @ w + b heads=1 k=3 n=5",
        Work(
            matrix_flops=2 * 20 * 15,
            vector_flops=2 * 20 * 5,
            read_bytes=4 * (20 * 3 + 20 + 2 * 15 + 5),
            write_bytes=4 * 20 * 5,
            index_bytes=4 * (20 + 20),
            touched_bytes=4 * (20 * 3 + 20 + 2 * 15 + 20 * 5 + 20 * 5),
        ),
    ),
    (
        # A sum over the edges of nodes; the buffer of pairs is gathered edge by edge.
        "t: src_pair@s[4]; y: node[4]",
        """
traverse node
  init acc: [4] sum
  for edge@s
    h: [4] = read t
    m: [4] = leaky_relu(h, const=0.2)
    update acc m
  r: [4] = exp(acc)
  store y += r
""",
        Work(
            vector_flops=20 * 4 * 2 + 20 * 4 + 10 * 4,
            special=10 * 4,
            read_bytes=4 * (8 * 4 + 10 * 4),
            write_bytes=4 * 10 * 4,
            index_bytes=4 * (11 + 20),
            gathered_bytes=4 * 20 * 4,
            gathers=20,
            touched_bytes=4 * (20 * 4 + 2 * 10 * 4),
        ),
    ),
    (
        # Destination, pair and type are known in nested loops: only pointers, the pairs' types
        # and src are followed.
        "x: node[2,3]; v: etype[2,3]; q: dst_pair@s[]; e: edge[2]",
        """
traverse node
  d: [2,3] = read x
  for dst_pair@s
    for edge@s
      s: [2,3] = read x[src]
      c: [] = read q
      w: [2,3] = read v
      f: [2] = dot(s, d)
      g: [2] = mul(f, c)
      h: [2] = dot(s, w)
      k: [2] = add(g, h)
      store e = k
""",
        Work(
            vector_flops=20 * (12 + 2 + 12 + 2),
            read_bytes=4 * (10 * 6 + 7 + 2 * 6),
            write_bytes=4 * 20 * 2,
            index_bytes=4 * (11 + 8 + 20 + 7 + 20),
            gathered_bytes=4 * 20 * 6,
            gathers=20,
            touched_bytes=4 * (10 * 6 + 20 * 6 + 20 + 20 * 6 + 20 * 2),
        ),
    ),
    (
        # What one kernel wrote the next need not read from memory.
        "x: node[3]; w: etype[3,5]; q: dst_pair@s[5]; y: node[5]",
        """
gemm q[dst_pair@s] = x[dst] @ w heads=1 k=3 n=5
traverse node
  init acc: [5] sum
  for dst_pair@s
    h: [5] = read q
    update acc h
  store y = acc
""",
        Work(
            matrix_flops=2 * 7 * 15,
            vector_flops=7 * 5,
            read_bytes=4 * (7 * 3 + 2 * 15),
            write_bytes=4 * (7 * 5 + 10 * 5),
            index_bytes=4 * (7 + 7 + 11),
            touched_bytes=4 * (7 * 3 + 2 * 15 + 2 * 7 * 5 + 10 * 5),
        ),
    ),
    (
        # Two groups read the same nodes: their distinct sources add up, but not beyond all nodes.
        "x: node[1]; y: node[1]",
        """
traverse node
  init acc: [1] sum
  for edge@s
    h: [1] = read x[src]
    update acc h
  for edge@r
    h: [1] = read x[src]
    update acc h
  store y = acc
""",
        Work(
            vector_flops=100,
            read_bytes=4 * 10,
            write_bytes=4 * 10,
            index_bytes=4 * (11 + 20 + 11 + 80),
            gathered_bytes=4 * 100,
            gathers=100,
            touched_bytes=4 * 110,
        ),
    ),
]


FEW = [
    (
        # 4 pairs know at most 4 of the 10 nodes: so many are read and multiplied; all are written.
        "x: node[3]; w: ntype[3,5]; y: node[5]",
        "gemm y[node] = x @ w heads=1 k=3 n=5 only=src fill",
        Work(
            matrix_flops=2 * 4 * 15,
            read_bytes=4 * (4 * 3 + 3 * 15),
            write_bytes=4 * 10 * 5,
            index_bytes=4 * 4,
            touched_bytes=4 * (4 * 3 + 3 * 15 + 10 * 5),
        ),
    ),
    (
        # Without fill, what is added to is read and written at nodes with an edge alone.
        "x: node[3]; w: ntype[3,5]; b: shared[5]; y: node[5]",
        "gemm y[node] += x @ w + b heads=1 k=3 n=5 only=dst",
        Work(
            matrix_flops=2 * 4 * 15,
            vector_flops=2 * 4 * 5,
            read_bytes=4 * (4 * 3 + 3 * 15 + 5 + 4 * 5),
            write_bytes=4 * 4 * 5,
            index_bytes=4 * 4,
            touched_bytes=4 * (4 * 3 + 3 * 15 + 4 * 5 + 2 * 4 * 5),
        ),
    ),
    (
        # A walk that adds sums of a group passes by nodes that have none: 4 are read and written.
        "x: node[3]; y: node[3]",
        """
traverse node
  init acc: [3] sum
  for edge@s
    h: [3] = read x[src]
    update acc h
  store y += acc
""",
        Work(
            vector_flops=6 * 3 + 4 * 3,
            read_bytes=4 * (4 * 3 + 4 * 3),
            write_bytes=4 * 4 * 3,
            index_bytes=4 * (11 + 6),
            gathered_bytes=4 * 6 * 3,
            gathers=6,
            touched_bytes=4 * (6 * 3 + 2 * 4 * 3),
        ),
    ),
]


@pytest.mark.parametrize(("buffers", "kernels", "expected"), FEW)
def test_work_of_nodes_with_an_edge(buffers, kernels, expected):
    few = {Space.EDGE: 6, Space.SRC_PAIR: 4, Space.DST_PAIR: 4}
    assert of(buffers, kernels, lambda rows: few.get(rows.space, count(rows))) == expected


@pytest.mark.parametrize(("buffers", "kernels", "expected"), CASES)
def test_work(buffers, kernels, expected):
    assert of(buffers, kernels) == expected


def test_sums_and_totals():
    a, b = Work(1, 2, 3, 4, 5, 6, 7, 8, 9), Work(10, 20, 30, 40, 50, 60, 70, 80, 90)
    assert a + b == Work(11, 22, 33, 44, 55, 66, 77, 88, 99)
    assert a.flops == 6


def test_rows_of_bfloat16_take_half_the_bytes():
    launch = random_launch(11)
    half = tuple(dataclasses.replace(b, element=Element.BFLOAT16) for b in launch.buffers)
    wide, narrow = work(launch, count), work(dataclasses.replace(launch, buffers=half), count)
    assert wide.read_bytes == 2 * narrow.read_bytes
    assert wide.gathered_bytes == 2 * narrow.gathered_bytes
    assert wide.touched_bytes == 2 * narrow.touched_bytes
    assert wide.index_bytes == narrow.index_bytes
    assert wide.flops == narrow.flops


def test_an_empty_graph_has_no_work():
    def nothing(rows):
        return {Space.SHARED: 1, Space.ETYPE: 0}.get(rows.space, 0)

    for seed in range(50):
        launch = random_launch(seed)
        found = work(launch, nothing)
        assert (found.flops, found.gathers, found.write_bytes) == (0, 0, 0)


def test_compulsory_traffic_is_no_more_than_all_accesses():
    def asked(rows):
        group = {"a": "s", "b": "r"}.get(rows.group, "")
        return count(Rows(rows.space, group))

    for seed in range(300):
        found = work(random_launch(seed), asked)
        assert 0 < found.read_bytes + found.write_bytes <= found.touched_bytes
        assert found.gathered_bytes <= found.touched_bytes

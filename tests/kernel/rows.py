"""Products and elementwise walks around them, as texts, and how launches of them are compared."""

import torch

from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.random_values import random_values
from hetune.variants.testing.graphs import typed_graph

RELATIONS = {"": None, "a": (0, 2), "b": (1,), "s": (0, 2), "d": (1,)}
GRAPH = typed_graph((9, 6), [(0, 0, 20), (1, 0, 12), (0, 1, 3)])

HEAD = """
launch
  buffer x: node[8]
  buffer x2: node[2,4]
  buffer w: ntype[8,8]
  buffer b: ntype[8]
  buffer g: ntype[]
  buffer s: node[8] in scratch s
  buffer s_as_2x4: node[2,4] in scratch s
  buffer t: node[8] in scratch t
  buffer t_as_2x4: node[2,4] in scratch t
  buffer r: node[8] in scratch r
  buffer kept: node[8]
  buffer n: node[]
  buffer v: etype[8,8]
  buffer e: edge[8]
  buffer f: edge[8] in scratch f
  buffer o: edge[8]
  buffer q: edge[8]
  buffer h: etype[2,4,4]
  buffer p: node[2]
  buffer y: node[8]
  buffer z: node[8]
"""
PRODUCT = """
  gemm t[node] = x @ w + b heads=1 k=8 n=8
"""
RELU = """
  traverse node
    row: [8] = read t
    active: [8] = relu(row)
    store y = active
"""
SKIP = """
  traverse node
    row: [2,4] = read t_as_2x4
    gate: [] = read g
    open: [] = sigmoid(gate)
    t: [2,4] = mul(open, row)
    old: [2,4] = read x2
    both: [2,4] = add(t, old)
    store s_as_2x4 = both
"""
THEN = """
  traverse node
    row: [8] = read s
    active: [8] = gelu(row)
    store y = active
"""
BEFORE = """
  traverse node
    raw: [2,4] = read x2
    active: [2,4] = leaky_relu(raw, const=0.5)
    store s_as_2x4 = active
"""
OF_IT = """
  gemm y[node] = s @ w heads=1 k=8 n=8 only=src
"""
OTHER = """
  gemm z[node] = x @ w heads=1 k=8 n=8
"""


def walk(read: str, stored: str, fn: str = "relu(row)", rows: str = "node") -> str:
    """A function of one buffer's rows, stored to another."""
    return f"""
  traverse {rows}
    row: [8] = read {read}
    active: [8] = {fn}
    store {stored} active
"""


def launch_of(kernels: str) -> Launch:
    """The launch of some kernels' text, with the buffers that they name."""
    words = set(kernels.replace("[", " ").replace("(", " ").replace(",", " ").split())
    lines = HEAD.strip().splitlines()
    named = [line for line in lines[1:] if line.split()[1][:-1] in words]
    return parse("\n".join([lines[0], *named, kernels]))


def index_of(group: str) -> GraphIndex:
    return GraphIndex.of(GRAPH, RELATIONS[group])


def check_same(before: Launch, after: Launch) -> None:
    """Both leave the same in every buffer that is no scratch, and nothing is missing."""
    wanted = random_values(before, index_of, GRAPH)
    started = random_values(before, index_of, GRAPH)
    found = random_values(after, index_of, GRAPH)
    for name, tensor in found.items():
        tensor.copy_(started[name])
    interpret(before, wanted, index_of, GRAPH)
    interpret(after, found, index_of, GRAPH)
    lasting = {buffer.name for buffer in before.buffers if not buffer.scratch}
    assert lasting <= found.keys()
    for name in sorted(lasting):
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-9, atol=1e-12)

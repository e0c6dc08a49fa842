"""Generated code is reviewed as a diff: `pytest --update-goldens` renews it."""

import pytest

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.codegen import print_unit
from hetune.variants.backends.cpp.fit import fitted
from hetune.variants.backends.cpp.lower import lower
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.text import show_schedule
from hetune.variants.registry.vectors import Vectors

from .test_flat_softmax import ADDITIVE
from .test_one_pass import ATTENTION

AGGREGATE_FIRST = """
launch
  buffer x: node[64]
  buffer root: shared[64,64]
  buffer bias: shared[64]
  buffer w: etype[64,64]
  buffer scale: dst_pair@d[]
  buffer y: node[64]
  gemm y[node] = x @ root + bias heads=1 k=64 n=64
  gemm y[dst_pair@d -> node] += scale * sum(x[src]) @ w heads=1 k=64 n=64
"""

ODD_WIDTH = """
launch
  buffer x: node[2,63]
  buffer w: etype[2,63,65]
  buffer t: src_pair[2,65]
  gemm t[src_pair] = x[src] @ w heads=2 k=63 n=65
"""

GATHERED_ROWS = """
launch
  buffer x: node[2,64]
  buffer w: etype[2,64,160]
  buffer t: src_pair[2,160]
  gemm t[src_pair] = x[src] @ w heads=2 k=64 n=160
"""

DOT_PRODUCTS = """
launch
  buffer x: node[2,63]
  buffer w: ntype[2,63,3]
  buffer y: node[2,3]
  gemm y[node] = x @ w heads=2 k=63 n=3
"""

WEIGHTED_SUM = """
launch
  buffer t: src_pair[2,32]
  buffer a: edge[2]
  buffer y: node[2,32]
  traverse node
    init acc: [2,32] sum
    for edge
      h: [2,32] = read t
      c: [2] = read a
      m: [2,32] = mul(c, h)
      update acc m
    store y = acc
"""

SOFTMAX = """
launch
  buffer k: node[2,24]
  buffer q: dst_pair[2,24]
  buffer alpha: edge[2]
  traverse node
    softmax share: [2] over edge to alpha
      scores edge
        query: [2,24] = read q
        key: [2,24] = read k[src]
        s: [2] = dot(key, query)
        score s
"""

LAST_PRODUCT = """
launch
  buffer m: node[24]
  buffer w: ntype[24,24]
  buffer b: ntype[24]
  buffer skip: ntype[]
  buffer x: node[24]
  buffer y: node[24]
  gemm p[node] = gelu(m) @ w + b heads=1 k=24 n=24 only=dst fill
    gate: [] = read skip
    open: [] = sigmoid(gate)
    closed: [] = one_minus(open)
    new: [24] = mul(open, p)
    old: [24] = read x
    kept: [24] = mul(closed, old)
    both: [24] = add(new, kept)
    store y = both
"""
"""HGT's: a function of its operand, rows that are filled, and what is done with its rows."""

OUTER = """
launch
  buffer x: node[24]
  buffer y: node[2,24]
  buffer a: edge[2]
  buffer w: etype[24,48]
  outer w[edge@d] = a * x[src], y[dst] heads=1 k=24 n=48
"""

KERNELS = {
    "aggregate-first": (AGGREGATE_FIRST, Schedule()),
    "odd-width": (ODD_WIDTH, Schedule()),
    "gathered-rows": (GATHERED_ROWS, Schedule()),
    "dot-products": (DOT_PRODUCTS, Schedule(lanes=8)),
    "weighted-sum": (WEIGHTED_SUM, Schedule()),
    "softmax": (SOFTMAX, Schedule(unroll=1)),
    "last-product": (LAST_PRODUCT, Schedule()),
    "flat-softmax": (ADDITIVE.format(h=2, d=32), Schedule()),
    "one-pass": (ATTENTION.format(h=2, d=32), Schedule()),
    "outer": (OUTER, Schedule()),
    "few-registers": (AGGREGATE_FIRST, fitted(Schedule(), Vectors(8, 16))),
}


@pytest.mark.parametrize("name", KERNELS)
def test_generated_code(name, golden):
    text, schedule = KERNELS[name]
    launch = parse(text)
    unit = lower(launch, schedule, Arguments(launch), show_schedule(schedule))
    golden(f"{name}.cpp", print_unit(unit))

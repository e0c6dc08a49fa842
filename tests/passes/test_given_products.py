"""Products with a feature that become features, and products as sums over a matrix's entries."""

from __future__ import annotations

import torch

from hetune.variants.graph.bipartite import BipartiteGraph
from hetune.variants.passes.given_products import given_products, sparse_product
from hetune.variants.program.interpret import interpret
from hetune.variants.program.text import parse
from hetune.variants.program.verify import verify

SAGE = """
program sage(x: node[130] feature, near: shared[130,4], own: shared[130,4])
  y: node[4] = linear x near
  sent: edge[4] = take y edge src
  total: node[4] = sum sent node
  root: node[4] = linear x own
  out: node[4] = add total root
  return out
"""


def test_a_feature_whose_products_are_given_is_left_out():
    found = given_products(parse(SAGE), 128)
    verify(found.program)
    assert (found.feature, found.weights) == ("x", {"y": "near", "root": "own"})
    params = {param.name: param.type.shape for param in found.program.params}
    assert params == {"y": (4,), "root": (4,)}
    assert [let.name for let in found.program.lets] == ["sent", "total", "out"]


def test_a_feature_that_something_else_reads_stays():
    text = SAGE.replace("return out", "return out, x")
    found = given_products(parse(text), 128)
    verify(found.program)
    assert {param.name for param in found.program.params} == {"x", "y", "root"}


def test_features_of_few_columns_and_products_of_sums_are_left_alone():
    assert given_products(parse(SAGE), 131) is None
    summed = """
program summed(x: node[130] feature, w: shared[130,4])
  sent: edge[130] = take x edge src
  total: node[130] = sum sent node
  out: node[4] = linear total w
  return out
"""
    assert given_products(parse(summed), 128) is None


def test_entries_are_edges_from_columns_to_rows():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 5, generator=generator) * torch.eye(7, 5)
    x[2] = torch.randn(5, generator=generator)
    w = torch.randn(5, 3, generator=generator)
    at, column = x.nonzero(as_tuple=True)
    graph = BipartiteGraph(column, at, num_sources=5, num_targets=7)
    program = sparse_product(3)
    verify(program)
    product = interpret(program, {"w": w, "value": x[at, column]}, graph)
    torch.testing.assert_close(product, x @ w)

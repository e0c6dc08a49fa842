"""Edges that are used once: an index in their own order, and scores without a way through nodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.graph.edge_batch import BatchIndex, EdgeBatch
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.interpret import interpret
from hetune.variants.program.text import parse
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.testing.programs import random_parameters

TRANSR = parse("""
    program transr(x: node[8] feature, m: etype[8,8], r: etype[8])
      h: edge[8] = take x edge src
      hm: edge[8] = linear h m
      t: edge[8] = take x edge dst
      tm: edge[8] = linear t m
      rs: edge[8] = take r edge
      d: edge[8] = sub hm tm
      e: edge[8] = add d rs
      a: edge[8] = abs e
      s: edge[] = fold a 0 sum
      return s
""")


def batch(kind, count, seed=0, nodes=5000, etypes=7):
    ids = np.random.default_rng(seed)
    ends = (ids.integers(0, nodes, count) for _ in range(2))
    return kind(*ends, ids.integers(0, etypes, count), num_nodes=nodes, num_etypes=etypes)


@pytest.mark.parametrize("count", [0, 1, 300, 40_000])
@pytest.mark.parametrize("end", ["src", "dst"])
def test_pairs_are_those_of_the_edges_in_their_own_order(end, count):
    graph = batch(EdgeBatch, count)
    index = BatchIndex.of_batch(graph)
    of_edge, node, etype = (
        getattr(index, f"{end}_pair_{name}").numpy() for name in ("of_edge", "node", "etype")
    )
    assert np.array_equal(node[of_edge], getattr(graph, end).numpy())
    assert np.array_equal(etype[of_edge], graph.etype.numpy())
    keys = etype.astype(np.int64) * graph.num_nodes + node
    assert np.all(np.diff(keys) > 0)
    assert getattr(index, f"num_{end}_pairs") == len(node)
    stats, expected = index.relation_stats, GraphIndex.of(graph).relation_stats
    for name in ("edges", "src_pairs", "dst_pairs"):
        assert np.array_equal(getattr(stats, name), getattr(expected, name))
    assert torch.equal(index.edge_id, torch.arange(count, dtype=torch.int32))


@pytest.mark.parametrize("backend", [CppBackend(), TorchBackend()], ids=lambda each: each.name)
def test_every_variant_of_a_score_gives_what_it_gives_on_a_graph(backend):
    """And none of those that read edges one by one asks for anything by nodes."""
    given, graph = batch(EdgeBatch, 2000), batch(HeteroGraph, 2000)
    values = random_parameters(TRANSR, graph)
    expected = interpret(TRANSR, values, graph)
    features, flat = {"x": values["x"].float()}, 0
    for variant in variants_of(TRANSR, "cpu"):
        weights, found = weights_of(variant.plan, values, graph), []
        any_order = facts_of(variant.plan).takes_any_order
        flat += any_order
        for edges in (given, graph):
            domain = Domain(edges, any_order=any_order)
            run = Executable(variant.plan, domain, backend, variant.schedules)
            found += run.run(features, weights)
        assert torch.allclose(*found, rtol=1e-6)
        assert torch.allclose(found[0].double(), expected, atol=1e-4)
        own = BatchIndex.of_batch(given).build_seconds if any_order else {}
        assert not any("block" in step or "indptr" in step for step in own)
    assert flat

"""The least time of a layer follows from what every launch has to compute and to move."""

import math
from dataclasses import replace

import pytest
import torch

pytest.importorskip("torch_geometric")

from _bound import least_seconds
from _peers.problem import LAYERS, Problem

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.roofline import MachineModel

FAST = 1e30
COMPUTES = MachineModel(
    matrix_flops=1e9,
    vector_flops=FAST,
    special=math.inf,
    own_rate=FAST,
    shared_rate=FAST,
    memory_rate=FAST,
)
MOVES = replace(
    COMPUTES, matrix_flops=FAST, own_rate=1e9, shared_rate=1e9, memory_rate=1e9, own_bytes=1
)


@pytest.fixture
def graph():
    """Ten edges of one type that lead from one node to ten others."""
    src, dst = torch.zeros(10, dtype=torch.long), torch.arange(1, 11)
    etypes = [("node", "r", "node")]
    return HeteroGraph(src, dst, torch.zeros_like(src), num_nodes=11, canonical_etypes=etypes)


def test_a_machine_that_only_computes_transforms_the_fewest_rows(graph):
    found = least_seconds(Problem("rgcn", graph, 16), COMPUTES, 1)
    rows = 11 + 1  # the self loop's, and the only source's
    assert found == pytest.approx(rows * 2 * 16 * 16 / 1e9, rel=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_rows_are_read_and_the_result_is_written(graph, layer):
    found = least_seconds(Problem(layer, graph, 16), MOVES, 1)
    row = 16 * 4
    assert found >= (1 + 11) * row / 1e9
    assert least_seconds(Problem(layer, graph, 16), MOVES, 2) == pytest.approx(found / 2)


@pytest.mark.parametrize("layer", LAYERS)
def test_what_takes_longer_counts(graph, layer):
    problem = Problem(layer, graph, 16)
    both = replace(COMPUTES, own_rate=1e9, shared_rate=1e9, memory_rate=1e9, own_bytes=1)
    alone = [least_seconds(problem, machine, 1) for machine in (COMPUTES, MOVES)]
    assert max(alone) <= least_seconds(problem, both, 1) <= sum(alone)

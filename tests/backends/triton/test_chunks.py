"""Traversals that are shared out by edges: what lies in several chunks is as right as the rest."""

import pytest
import torch

from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.emit import emit
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.edge_chunks import shares_edges
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.launches import random_launch
from hetune.variants.testing.layers import LAYERS, randomized

from ..launches import ATTENTION, RGCN, SOFTMAX, WEIGHTED

EDGES = GpuSchedule(balance="edge", hub_elements=64, tile_rows=16, tile_columns=16, tile_k=16)
"""With chunks of 16 edges, the smallest there are."""

SUMS = """
launch
  buffer c: edge[]
  buffer x: node[{h},{d}]
  buffer q: node[{h}]
  buffer bias: shared[{h},{d}]
  buffer most: node[{h}]
  buffer y: node[{h},{d}]
  traverse node
    own: [{h}] = read q
    init acc: [{h},{d}] sum
    init top: [{h}] max
    init count: [] sum
    for edge@a
      share: [] = read c
      row: [{h},{d}] = read x[src]
      m: [{h},{d}] = mul(share, row)
      update acc m
      update acc row
      both: [{h}] = mul(share, own)
      update top both
      update count share
    squashed: [{h}] = tanh(top)
    all: [{h}] = add(squashed, count)
    store most = all
    b: [{h},{d}] = read bias
    out: [{h},{d}] = add(acc, b)
    store y += out
"""
"""Sums and a maximum, of values of edges, sources and the node itself."""

LAUNCHES = {"rgcn": RGCN, "sums": SUMS, "weighted": WEIGHTED}


def mostly_to_one(src, dst):
    return src, torch.where(torch.arange(len(dst)) % 8 > 0, 3, dst)


GRAPHS = {
    "several chunks": lambda: typed_graph(
        (9, 5), [(0, 0, 70), (1, 1, 9), (0, 0, 5)], 0, mostly_to_one
    ),
    "full chunks": lambda: typed_graph((40,), [(0, 0, 32), (0, 0, 16), (0, 0, 16)]),
    "one edge": lambda: typed_graph((5, 2), [(0, 0, 1), (1, 0, 0), (0, 1, 0)]),
}


def kernels(text: str, schedule: GpuSchedule) -> list[str]:
    return [
        one.function.name
        for one in emit(fused(parse(text.format(d=4, h=2)), "cuda"), schedule).kernels
    ]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", LAUNCHES)
def test_chunks_do_not_change_results(name, graph, check):
    check(parse(LAUNCHES[name].format(d=3, h=2)), GRAPHS[graph](), EDGES)


@pytest.mark.parametrize("name", LAUNCHES)
def test_isolated_nodes_and_no_edges(name, check, small, empty):
    check(parse(LAUNCHES[name].format(d=2, h=1)), small, EDGES)
    check(parse(LAUNCHES[name].format(d=2, h=1)), empty, EDGES)


@pytest.mark.parametrize("seed", [22, 37, 55, 117, 139])
def test_random_launches(seed, check, small):
    launch = random_launch(seed, (1, 3))
    assert shares_edges(launch, EDGES)
    check(launch, small, EDGES)


def test_a_hub_has_more_chunks_than_are_in_flight(check):
    hub = typed_graph((6,), [(0, 0, 400), (0, 0, 1), (0, 0, 3)], ends=mostly_to_one)
    check(parse(SUMS.format(d=1, h=1)), hub, EDGES)
    check(parse(WEIGHTED.format(d=1, h=1)), hub, EDGES)


@pytest.mark.parametrize("factor", [30.0, -1e30, 1e37])
def test_scores_may_be_anything(factor, check):
    graph = GRAPHS["several chunks"]()
    check(parse(WEIGHTED.format(d=1, h=2)), graph, EDGES, {"a": factor})


def test_runs_give_the_same_bits(check, small, monkeypatch):
    results = []
    bind = TritonBackend.bind

    def kept(self, launch, schedule, place):
        run = bind(self, launch, schedule, place)

        def again(buffers):
            copies = {name: value.clone() for name, value in buffers.items()}
            run(copies)
            run(buffers)
            results.append((copies["y"], buffers["y"]))

        return again

    monkeypatch.setattr(TritonBackend, "bind", kept)
    check(parse(WEIGHTED.format(d=2, h=1)), small, EDGES)
    ((first, second),) = results
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("layer", "heads", "plan"),
    [
        ("rgcn-mean", 1, "src"),
        ("rgat-across", 2, "src+weights-first"),
        ("hgt", 2, "src+scores-src"),
    ],
)
def test_plans_by_another_schedule(layer, heads, plan, check, small):
    module = randomized(LAYERS[layer].make(small, 8, heads)).eval()
    backend = TritonBackend(schedule=EDGES)
    assert check_variants(module, small, backend, keep=lambda v: v.id == f"{plan}/t64-e1024") == 1


def test_which_traversals_are_shared_out():
    parts = ["chunks", "join", "idle"]
    assert kernels(SUMS, EDGES) == [f"kernel_0_{part}" for part in parts]
    assert kernels(WEIGHTED, EDGES) == [f"kernel_0_{part}" for part in parts]
    assert kernels(RGCN, EDGES) == ["kernel_0", "kernel_1", *(f"kernel_2_{p}" for p in parts)]
    # Several loops over edges: by nodes.
    assert kernels(ATTENTION, EDGES) == ["kernel_0", "kernel_0_hubs"]
    assert kernels(SOFTMAX, EDGES) == ["kernel_0", "kernel_0_hubs", "kernel_1"]

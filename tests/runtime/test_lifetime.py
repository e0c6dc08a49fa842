"""What is kept, and that nothing is kept for ever; many threads at once."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from hetune.variants.frontend.tracing.expressions import called, evaluate, parameter
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.cost_estimates import RooflineEstimator
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.workspace import ReusedMemory
from hetune.variants.testing.graphs import typed_graph

pytestmark = pytest.mark.usefixtures("no_grad")

RELATIONS = [(0, 1, 60), (1, 0, 50), (0, 0, 40)]


def alive(kind: type) -> int:
    gc.collect()
    return sum(type(thing) is kind for thing in gc.get_objects())


@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_graphs_and_executables_are_freed(backend, rgcn, x):
    layer = compile_layer(rgcn, backend=backend)
    before = alive(Executable)
    graph = typed_graph((30, 20), RELATIONS)
    for variant in layer.variants:
        if variant.endswith("b256"):
            layer(x, graph, variant=variant)
    layer.explain(x, graph)
    assert alive(Executable) > before
    freed = weakref.ref(graph)
    del graph
    gc.collect()
    assert freed() is None
    assert alive(Executable) == before


def test_graphs_of_edge_tensors_are_freed(rgcn, x, edges):
    layer = compile_layer(rgcn, backend="torch")
    before = alive(Executable)
    index, etype = (tensor.clone() for tensor in edges)
    layer(x, index, etype)
    assert alive(Executable) == before + 1
    del index
    assert alive(Executable) == before


def test_layers_are_freed(rgcn, x, graph):
    layer = compile_layer(rgcn, backend="torch")
    layer(x, graph)
    freed = weakref.ref(layer)
    references = sys.getrefcount(rgcn)
    del layer
    gc.collect()
    assert freed() is None
    assert sys.getrefcount(rgcn) < references


def test_layers_of_equal_programs_share_executables(rgcn, x, graph):
    other = type(rgcn)(8, 8, 3)
    before = alive(Executable)
    first, second = (compile_layer(module, backend="torch") for module in (rgcn, other))
    assert not torch.equal(first(x, graph), second(x, graph))
    assert alive(Executable) == before + 1


def test_results_in_use_are_not_written_again():
    memory, elements = ReusedMemory(), 1 << 20
    first = memory.take(elements)
    address = first.data_ptr()
    part = first[:10].view(2, 5)
    array = part.numpy()
    del first, part
    gc.collect()
    second = memory.take(elements)
    assert second.data_ptr() != address  # the array still reads the first
    array[:] = 1.0
    del array
    gc.collect()
    third = memory.take(elements)
    assert third.data_ptr() == address
    assert third.data_ptr() != second.data_ptr()
    del third
    assert memory.take(elements + 1).numel() == elements + 1
    assert memory.take(5).numel() == 5


def test_threads_get_what_they_asked_for(rgcn, x, graph, edges):
    """Same layer, other inputs, variants and graphs, all at once."""
    layer = compile_layer(rgcn, backend="torch")
    graphs = [typed_graph((30, 20), RELATIONS, seed) for seed in range(3)]
    variants = [variant for variant in layer.variants if variant.endswith("b256")]
    jobs = [(x + k, graphs[k % 3], variants[k % len(variants)]) for k in range(4 * len(variants))]
    expected = [compile_layer(rgcn, backend="torch")(*job[:2], variant=job[2]) for job in jobs]
    start = threading.Barrier(4)

    def run(first: int) -> list[torch.Tensor]:
        start.wait()
        with torch.no_grad():
            return [layer(rows, g, variant=v) for rows, g, v in jobs[first::4]]

    with ThreadPoolExecutor(4) as pool:
        for first, found in enumerate(pool.map(run, range(4))):
            for one, other in zip(found, expected[first::4], strict=True):
                assert torch.equal(one, other)


def test_threads_share_one_graph_of_edge_tensors(rgcn, x, edges):
    layer = compile_layer(rgcn, backend="torch")
    expected = layer(x, *edges)

    def run(_: int) -> torch.Tensor:
        with torch.no_grad():
            return layer(x, *edges)

    with ThreadPoolExecutor(8) as pool:
        assert all(torch.equal(found, expected) for found in pool.map(run, range(32)))


def held(graph: HeteroGraph) -> int:
    """Bytes of all the graph's indexes, tensors that they share counted for each."""
    return GraphIndex.of(graph).retention.nbytes


def large_graph() -> HeteroGraph:
    return typed_graph((3000, 2000), [(0, 1, 20_000), (1, 0, 30_000), (0, 0, 9_000)])


def test_indexes_that_no_kernel_reads_go_once_runs_repeat(rgcn):
    graph, x = large_graph(), torch.randn(5000, 8)
    layer, other = compile_layer(rgcn, expected_runs=1e6), compile_layer(rgcn, expected_runs=1e6)
    first = layer(x, graph)
    indexed = held(graph)
    assert torch.equal(layer(x, graph), first)
    read = held(graph)
    assert read < 0.6 * indexed
    assert torch.equal(other(x, graph), first)
    assert held(graph) == read
    for variant in layer.variants:  # what they need beyond that is there again
        if variant.endswith("b256"):
            assert torch.allclose(layer(x, graph, variant=variant), first, atol=1e-5)
    assert held(graph) > read


def test_indexes_stay_as_long_as_layers_take_turns_to_index(rgcn):
    graph, x = large_graph(), torch.randn(5000, 8)
    source, destination = (
        next(v for v in compile_layer(rgcn).variants if v.startswith(side))
        for side in ("src", "dst")
    )
    layer = compile_layer(rgcn)
    layer(x, graph, variant=source)
    layer(x, graph, variant=destination)
    indexed = held(graph)
    layer(x, graph, variant=source)
    assert held(graph) == indexed  # the other one was indexed since its last run
    layer(x, graph, variant=destination)
    assert held(graph) < indexed


def test_indexes_stay_where_a_choice_is_to_come(rgcn):
    graph, x = large_graph(), torch.randn(5000, 8)
    layer = compile_layer(rgcn, estimator=RooflineEstimator(estimating_seconds=3600.0))
    layer(x, large_graph())  # its kernels are there now, so that the question is put off
    layer(x, graph)
    indexed = held(graph)
    for _ in range(5):
        layer(x, graph)
    assert held(graph) == indexed


def test_indexes_stay_for_who_reads_them_in_every_run(rgcn):
    graph, x = large_graph(), torch.randn(5000, 8)
    layer = compile_layer(rgcn, backend="torch")
    variant = layer.variants[0]
    layer(x, graph, variant=variant)
    builds = GraphIndex.of(graph).retention.builds
    for _ in range(3):
        layer(x, graph, variant=variant)
    assert GraphIndex.of(graph).retention.builds == builds


def test_what_a_layer_knows_of_a_graph_goes_with_the_layer(rgcn, x, graph):
    layer = compile_layer(rgcn)
    layer(x, graph)
    assert layer._runs in graph.state.owners
    del layer
    gc.collect()
    assert not graph.state.owners


@pytest.fixture
def uncollected():
    """No cycles are looked for meanwhile: what is in none goes with its last reference."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_results_that_torch_finishes_are_in_no_cycle(edges, x, uncollected):
    geometric = pytest.importorskip("torch_geometric.nn")

    class Pair(geometric.MessagePassing):
        def forward(self, x, edge_index):
            found = self.propagate(edge_index, x=x)
            return found, found.log_softmax(-1)

    layer = compile_layer(Pair(), backend="torch")
    layer(x, edges[0])
    found = layer(x, edges[0])
    kept = [weakref.ref(each) for each in found]
    del found
    assert [each() for each in kept] == [None, None]


def test_weights_that_are_computed_are_in_no_cycle(uncollected):
    twice = called(torch.Tensor.mul, (called(torch.Tensor.add, (parameter("w"), 1.0), {}), 2.0), {})
    weight = torch.ones(3)
    kept = weakref.ref(weight)
    assert evaluate(twice, {"w": weight}, {}).tolist() == [4.0] * 3
    del weight
    assert kept() is None

"""What is kept, and that nothing is kept for ever; many threads at once."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from hetune.variants.runtime.compiled import compile as compile_layer
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.workspace import ResultMemory
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
    memory, elements = ResultMemory(), 1 << 20
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

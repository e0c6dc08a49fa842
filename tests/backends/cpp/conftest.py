"""Runs launches through the C++ backend beside the interpreter."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from hetune.variants.backends.cpp.bind import bind
from hetune.variants.backends.cpp.emit import emit
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import Launch, Schedule
from hetune.variants.kernel.testing import random_values
from hetune.variants.kernel.verify import verify
from hetune.variants.registry import Registry

GROUPS = {"": None, "a": (0, 2), "b": (1,)}


def _random_graph(nodes: int, edges: int, hub: bool = False) -> HeteroGraph:
    rng = np.random.default_rng(nodes)
    dst = rng.integers(0, nodes, edges)
    if hub:
        dst[: edges // 2] = 1
    return HeteroGraph(
        rng.integers(0, nodes, edges),
        dst,
        rng.integers(0, 3, edges),
        np.sort(rng.integers(0, 3, nodes)),
        num_nodes=nodes,
        num_etypes=3,
        num_ntypes=3,
    )


@pytest.fixture(scope="session")
def graphs() -> dict[str, HeteroGraph]:
    """Awkward graphs, and one that has several blocks and full register tiles."""
    return {
        "plain": _random_graph(300, 1500),
        "sparse": _random_graph(60, 40),
        "hub": _random_graph(40, 400, hub=True),
        "one node": _random_graph(1, 5),
        "no edges": _random_graph(7, 0),
    }


@pytest.fixture(scope="session")
def registry(tmp_path_factory) -> Registry:
    return Registry(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def check(registry, graphs) -> Callable[..., None]:
    """Compares a launch on all graphs with the interpreter in float64, on 1 and on 2 threads."""

    def compare(launch: Launch, schedule: Schedule | None = None) -> None:
        verify(launch)
        schedule = schedule or Schedule(block_nodes=64)
        emitted = emit(launch, schedule)
        library = registry.load(emitted.source)
        for name, graph in graphs.items():

            def index_of(group, graph=graph):
                return GraphIndex.of(graph, GROUPS[group])

            expected = random_values(launch, index_of, graph)
            interpret(launch, expected, index_of, graph)
            results = []
            for threads in (1, 2):
                values = random_values(launch, index_of, graph, torch.float32)
                bind(emitted, library, schedule, values, index_of, graph)(threads)
                results.append(values)
            for buffer, want in expected.items():
                got, again = (result[buffer] for result in results)
                assert torch.equal(got, again), (name, buffer)
                limit = 1e-5 * want.abs().max().item() if want.numel() else 0.0
                torch.testing.assert_close(got.double(), want, rtol=0.0, atol=limit)

    return compare

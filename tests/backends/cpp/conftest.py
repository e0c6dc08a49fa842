"""Runs launches through the C++ backend beside the interpreter."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from hetune.variants.backends.base import SCRATCH, TERMS
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.interpret_rows import row_count
from hetune.variants.kernel.nodes import Launch, Rows, Schedule
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.kernel.random_values import random_values
from hetune.variants.kernel.scratch import scratch_layout
from hetune.variants.kernel.verify import verify

GROUPS = {"": None, "a": (0, 2), "b": (1,)}


@dataclass(frozen=True)
class _Place:
    graph: HeteroGraph

    def index(self, group: str) -> GraphIndex:
        return GraphIndex.of(self.graph, GROUPS[group])

    def count(self, rows: Rows) -> int:
        return row_count(rows, self.index, self.graph)


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
def backend() -> CppBackend:
    return CppBackend()


@pytest.fixture(scope="session")
def place_of() -> type[_Place]:
    return _Place


def _change(
    values: dict[str, torch.Tensor], of: Callable[[torch.Tensor], torch.Tensor] | None
) -> dict[str, torch.Tensor]:
    if of is not None:
        for value in values.values():
            value.copy_(of(value))
    return values


@pytest.fixture
def check(backend, graphs) -> Iterator[Callable[..., None]]:
    """Compares a launch on all graphs with the interpreter in float64, on 1, 2 and other threads.

    Buffers hold signed random numbers, or what becomes ``of`` them.
    """

    def compare(
        launch: Launch,
        schedule: Schedule | None = None,
        only: dict[str, HeteroGraph] | None = None,
        of: Callable[[torch.Tensor], torch.Tensor] | None = None,
        more_threads: int = 2,
    ) -> None:
        verify(launch)
        for name, graph in (only or graphs).items():
            place = _Place(graph)
            expected = _change(random_values(launch, place.index, graph), of)
            interpret(launch, expected, place.index, graph)
            chosen = schedule or Schedule(block_nodes=64)
            runs = fused(launch, "cpu")
            run = backend.bind(runs, chosen, place)
            share = scratch_layout(runs, chosen.block_nodes, place.index).stride
            results = []
            for threads in (1, more_threads):
                values = _change(random_values(launch, place.index, graph, torch.float32), of)
                values[SCRATCH] = torch.full((threads * share,), torch.nan)
                widest = max(buffer.type.width for buffer in launch.buffers)
                values[TERMS] = torch.full((300 * widest,), torch.nan)
                torch.set_num_threads(threads)
                run(values)
                results.append(values)
            for buffer in (buffer.name for buffer in launch.buffers if not buffer.scratch):
                got, again, want = results[0][buffer], results[1][buffer], expected[buffer]
                assert torch.equal(got.nan_to_num(), again.nan_to_num()), (name, buffer)
                limit = 1e-5 * want.nan_to_num().abs().max().item() if want.numel() else 0.0
                wanted = {"rtol": 0.0, "atol": limit, "equal_nan": bool(want.isnan().any())}
                torch.testing.assert_close(got.double(), want, **wanted)

    before = torch.get_num_threads()
    yield compare
    torch.set_num_threads(before)

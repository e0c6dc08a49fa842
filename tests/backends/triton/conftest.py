"""Runs launches through Triton's interpreter, on the CPU, beside our own.

Triton decides when it is imported whether it interprets: `tests/conftest.py` tells it to. Tests
that compile do so in processes of their own. Before 3.7.1 it cannot interpret beside NumPy 2.4.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pytest
import torch

from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.interpret_rows import row_count
from hetune.variants.kernel.nodes import Launch, Rows
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.kernel.random_values import random_values
from hetune.variants.kernel.verify import verify
from hetune.variants.testing.graphs import typed_graph

GROUPS = {"": None, "a": (0, 2), "b": (1,)}
CPU = torch.device("cpu")


@dataclass(frozen=True)
class _Place:
    graph: HeteroGraph

    def index(self, group: str) -> GraphIndex:
        return DeviceIndex.on(self.graph, CPU, GROUPS[group])

    def count(self, rows: Rows) -> int:
        return row_count(rows, self.index, self.graph)


@pytest.fixture(scope="session")
def small() -> HeteroGraph:
    """Two node types, a hub, isolated nodes, duplicates: in every kernel several programs."""

    def to_few(src: torch.Tensor, dst: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return src, torch.where(torch.arange(len(dst)) % 4 == 0, 0, dst)

    return typed_graph((50, 30), [(0, 0, 60), (1, 0, 40), (0, 1, 30)], ends=to_few)


@pytest.fixture(scope="session")
def empty() -> HeteroGraph:
    """No edges of its three types."""
    return typed_graph((4, 3), [(0, 0, 0), (1, 0, 0), (0, 1, 0)])


@pytest.fixture
def check() -> Callable[..., None]:
    """Compares a launch with the kernel interpreter in float64."""
    pytest.importorskip("triton", minversion="3.7.1")

    def compare(
        launch: Launch,
        graph: HeteroGraph,
        schedule: GpuSchedule | None = None,
        factors: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        verify(launch)
        place = _Place(graph)
        expected = random_values(launch, place.index, graph)
        found = random_values(launch, place.index, graph, torch.float32)
        for buffer, factor in factors.items():
            found[buffer] *= factor
            expected[buffer] = found[buffer].double()
        interpret(launch, expected, place.index, graph)
        TritonBackend().bind(fused(launch, "cuda"), schedule or GpuSchedule(), place)(found)
        for buffer in (buffer.name for buffer in launch.buffers if not buffer.scratch):
            want = expected[buffer]
            limit = 1e-5 * want.nan_to_num().abs().max().item() if want.numel() else 0.0
            torch.testing.assert_close(
                found[buffer].double(), want, rtol=0.0, atol=limit, equal_nan=True
            )

    return compare

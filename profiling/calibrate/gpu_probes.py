"""What is timed to know a GPU: a product, a copy, rows picked from its cache, starting kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hetune.profiling.calibrate.probes import AGGREGATION, ROW_BYTES, Probe, bound, random_graph
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.runtime.replay import Recorder

_FLOAT = 4
_STARTS = 50
_FEW = 32
_TURNS = 8


def _probe(run: Callable[[], object], units: float) -> Probe:
    """Of which the median time of single runs counts."""
    return Probe(run, units, repeats=False, quantile=0.5)


def product(side: int, device: torch.device) -> Probe:
    """Operations of torch's product of two square float32 matrices, in torch's precision.

    Args:
        side: Rows and columns of each.
        device: Where they lie.
    """
    a, b = (torch.randn(side, side, device=device) for _ in range(2))
    c = torch.empty_like(a)
    return _probe(lambda: torch.mm(a, b, out=c), 2.0 * side**3)


def copied(count: int, device: torch.device) -> Probe:
    """Bytes that are read and written while so many are copied.

    Args:
        count: Bytes of what is copied.
        device: Where it lies.
    """
    source = torch.zeros(count // _FLOAT, device=device)
    target = torch.empty_like(source)
    return _probe(lambda: target.copy_(source), 2.0 * _FLOAT * source.numel())


def picked(nodes: int, edges: int, device: torch.device) -> Probe:
    """Bytes of rows that weighted sums over each node's edges pick, several times in a row.

    Only the first of these finds the cache cold.

    Args:
        nodes: Rows of 256 bytes that there are to pick from.
        edges: How many are picked each time.
        device: Where they lie.

    Raises:
        CompileError: The kernel cannot be compiled here.
    """
    graph = random_graph(nodes, edges, 1)
    run = bound(AGGREGATION, graph, TritonBackend(), GpuSchedule(), device)

    def turns() -> None:
        for _ in range(_TURNS):
            run()

    return _probe(turns, float(_TURNS * edges * ROW_BYTES))


def started(device: torch.device) -> Probe:
    """Kernels with next to nothing to do, started one after the other, as those of layers are.

    Args:
        device: Where they run.

    Raises:
        CompileError: The kernel cannot be compiled here.
    """
    run = _little(device)

    def runs() -> None:
        for _ in range(_STARTS):
            run()

    return _probe(runs, float(_STARTS))


def replayed(device: torch.device, recorder: Recorder) -> Probe:
    """The same kernels as one CUDA graph.

    Args:
        device: Where they run.
        recorder: What records them.

    Raises:
        CompileError: The kernel cannot be compiled here.
        RuntimeError: They cannot be recorded.
    """
    run = _little(device)

    def runs() -> None:
        for _ in range(_STARTS):
            run()

    with recorder.on(device):
        run()  # which compiles it
        graph = recorder.record(runs, None)
    return _probe(graph.replay, float(_STARTS))


def _little(device: torch.device) -> Callable[[], object]:
    """A launch that starts one kernel, for sums over a few edges."""
    return bound(AGGREGATION, random_graph(_FEW, _FEW, 1), TritonBackend(), GpuSchedule(), device)

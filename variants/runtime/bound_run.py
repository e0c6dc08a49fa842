"""A variant bound to a graph and watched: what a run is where nothing is left to choose."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter

from torch import Tensor

from hetune.variants.graph.threads import kernel_threads, record_used_threads, using_threads
from hetune.variants.runtime.edge_rows import IN_GRAPH_ORDER, EdgeOrders
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.float32_range import Overflow
from hetune.variants.runtime.thread_watch import ThreadWatch


@dataclass(frozen=True, slots=True, eq=False)
class BoundRun:
    """Runs a variant on a graph, with one thread where several are held up.

    Attributes:
        executable: The variant on the graph.
        watch: Who says how many threads a run has; None: as many as there are.
    """

    executable: Executable
    watch: ThreadWatch | None

    def run(
        self,
        inputs: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        out: Tensor | None,
        overflow: Overflow,
        orders: EdgeOrders = IN_GRAPH_ORDER,
    ) -> tuple[Tensor, ...]:
        """As `Executable.run`."""
        watch = self.watch
        if watch is None:
            record_used_threads(kernel_threads())
            return self.executable.run(inputs, weights, out, overflow=overflow, orders=orders)
        threads, clock = watch.threads, _Clock()
        record_used_threads(threads)
        with using_threads(threads) if threads == 1 else nullcontext():
            results = self.executable.run(inputs, weights, out, clock, overflow, orders)
        watch.record(threads, clock.seconds)
        return results


class _Clock:
    """Seconds from a run's first launch to the end of its last one: without waiting for others."""

    __slots__ = ("_end", "_start")

    def __init__(self) -> None:
        self._start: float | None = None

    def __call__(self) -> None:
        self._end = perf_counter()
        if self._start is None:
            self._start = self._end

    @property
    def seconds(self) -> float:
        return 0.0 if self._start is None else self._end - self._start

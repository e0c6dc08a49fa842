"""The measuring process: problem after problem, until its parent goes away.

Run by `hetune.profiling.process.supervisor` as ``python -m hetune.profiling.process.measuring``,
with the descriptors of a heartbeat and of a connection as its arguments. Whatever goes wrong with a
variant in a way that a process survives is in the answer; the parent sees the rest.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Protocol

from hetune.profiling.corpus import build
from hetune.profiling.measure.bench import Bench, bench_of
from hetune.profiling.measure.candidate import loss_of
from hetune.profiling.measure.limits import Limits, usable_memory
from hetune.profiling.measure.problem import SETUP, graph_facts, measure_problem, promoted_for
from hetune.profiling.measure.record import Stamp
from hetune.profiling.process.heartbeat import SETTING_UP, Heartbeat
from hetune.profiling.process.memory_limit import lift_memory_limit, limit_memory
from hetune.profiling.process.messages import Message, Order, Refusal, decode_order, encode
from hetune.profiling.records import Measurement
from hetune.profiling.units import GraphRecipe, ProblemSpec
from hetune.variants.errors import (
    CompileError,
    HetuneError,
    RegistryError,
    SourceError,
    WorkerError,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.device import Device
from hetune.variants.plan.variants import Variant


class MeasureFunction(Protocol):
    """As `measure_problem`."""

    def __call__(
        self,
        problem: ProblemSpec,
        graph: HeteroGraph,
        variants: tuple[Variant, ...],
        stamp: Stamp,
        *,
        limits: Limits,
        bench: Bench,
        seed: int,
        beat: Callable[[str], None],
    ) -> list[Measurement]:
        """Measures variants of a problem."""
        ...


class MeasuringProcess:
    """Answers orders; remembers the last graph, and how long the yardsticks usually take.

    Args:
        heartbeat: Says what is at work.
        send: Takes answers.
        measure: Measures.
        bench_of: Where and how, by device.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        send: Callable[[Message], object],
        measure: MeasureFunction = measure_problem,
        bench_of: Callable[[Device], Bench] = bench_of,
    ) -> None:
        self._heartbeat = heartbeat
        self._send = send
        self._measure = measure
        self._bench_of = bench_of
        self._benches: dict[Device, Bench] = {}
        self._graph: tuple[GraphRecipe, HeteroGraph] | None = None

    def answer(self, order: Order) -> None:
        """Measures what is ordered; sends the graph's facts ahead, so that they outlive a crash.

        Raises:
            VariantError, CompileError: There is no GPU here, or no Triton; nothing was begun.
            WorkerError: This process has lost its GPU, to the variant of the last heartbeat.
        """
        bench = self._bench(order.problem.device)
        self._heartbeat.beat(SETTING_UP)
        if order.problem.device == "cpu":
            limit_memory(order.limits.memory_bytes or usable_memory())
        else:
            lift_memory_limit()
        try:
            graph = self._graph_of(order.problem.graph)
            self._send(graph_facts(graph))
            found = self._measured(order, graph, bench)
        except WorkerError:
            raise
        # A kernel's own is its variant's result; a file may be there again.
        except (CompileError, RegistryError, SourceError) as error:
            self._send(Refusal(str(error)))
        except Exception as error:  # whatever a problem raises is the result of its units
            loss = loss_of(error)
            bench.check()
            self._send(loss)
        else:
            self._send(found)

    def _measured(self, order: Order, graph: HeteroGraph, bench: Bench) -> list[Measurement]:
        promoted = {v.id: v for v in promoted_for(order.problem)}
        numbers = {SETUP: SETTING_UP, **{id: n for n, id in enumerate(order.variants)}}
        return self._measure(
            order.problem,
            graph,
            tuple(promoted[id] for id in order.variants),
            order.stamp,
            limits=order.limits,
            bench=bench,
            seed=order.seed,
            beat=lambda variant: self._heartbeat.beat(numbers[variant]),
        )

    def _bench(self, device: Device) -> Bench:
        if device not in self._benches:
            self._benches[device] = self._bench_of(device)
        return self._benches[device]

    def _graph_of(self, recipe: GraphRecipe) -> HeteroGraph:
        if self._graph is None or self._graph[0] != recipe:
            self._graph = None  # freed before the next one takes its place
            self._graph = recipe, build(recipe)
        return self._graph[1]


def main(measure: MeasureFunction = measure_problem) -> None:
    """Answers orders until the parent's end of the connection closes; then it ends at once."""
    for number in (signal.SIGINT, signal.SIGTERM):  # which may be meant for all processes
        signal.signal(number, signal.SIG_IGN)  # the parent decides when to stop
    parent: Connection = Connection(int(sys.argv[2]))
    process = MeasuringProcess(
        Heartbeat(int(sys.argv[1])), lambda message: parent.send_bytes(encode(message)), measure
    )
    for order in _orders(parent):
        try:
            process.answer(order)
        except HetuneError as error:  # the next process may have a GPU
            sys.exit(str(error))


def _orders(parent: Connection) -> Iterator[Order]:
    """The parent's, whose connection is watched all the while: it ends with the parent."""
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        with suppress(EOFError, OSError):
            while True:
                orders.put(parent.recv_bytes())
        os._exit(0)  # without a parent it would only disturb the next one's measurements

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield decode_order(orders.get())


if __name__ == "__main__":
    main()

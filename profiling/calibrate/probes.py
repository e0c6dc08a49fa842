"""What is timed to know a machine: plain loops (`rates.cpp`), and launches as layers have them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.graph.float_memory import allocate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.random_values import random_values
from hetune.variants.kernel.verify import verify
from hetune.variants.kernel.walk import writes
from hetune.variants.registry import load_packaged
from hetune.variants.runtime.domain import Domain

ROW_BYTES = 256
"""Of a gathered row: 64 floats."""

LINE_BYTES = 64
"""Of a cache."""

_FMA_FLOPS = 384
_BLOCKS, _SMALLEST_BLOCK = 2, 16

PRODUCT = """
launch
  buffer x: node[{d}]
  buffer w: etype[{d},{d}]
  buffer t: src_pair[{d}]
  gemm t[src_pair] = x[src] @ w heads=1 k={d} n={d}
"""
"""A typed product for each source pair, of rows of ``d`` floats."""

AGGREGATION = """
launch
  buffer x: node[64]
  buffer a: edge[]
  buffer y: node[64]
  traverse node
    init acc: [64] sum
    for edge
      h: [64] = read x[src]
      c: [] = read a
      m: [64] = mul(c, h)
      update acc m
    store y = acc
"""
"""A weighted sum over each node's edges, of rows of 64 floats."""

_EXPONENTIALS = """
launch
  buffer a: edge[]
  buffer y: node[]
  traverse node
    init acc: [] sum
    for edge
      s: [] = read a
      e: [] = exp(s)
      update acc e
    store y = acc
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """Something to time.

    Attributes:
        run: Does it once.
        units: How much that is: operations, bytes, or launches.
        repeats: Whether several runs in a row may be timed together, until they last long enough.
        quantile: Which of its times counts. By default that which only a tenth of them are faster
            than: what else runs on a machine adds time, and single runs are lucky.
    """

    run: Callable[[], object]
    units: float
    repeats: bool = True
    quantile: float = 0.1


@cache
def _library() -> ctypes.CDLL:
    what = "what a machine can do at best"
    library = load_packaged("hetune.profiling.calibrate", "rates.cpp", "rates", what)
    sizes = ctypes.c_int64, ctypes.c_int, ctypes.c_void_p
    library.fma_peak.argtypes = sizes
    library.gather_sum.argtypes = (ctypes.c_void_p, ctypes.c_void_p, *sizes)
    library.exchange.argtypes = (
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_void_p),
    )
    for function in (library.fma_peak, library.gather_sum, library.exchange):
        function.restype = None
    return library


def fma(turns: int, threads: int) -> Probe:
    """Operations of FMA instructions on registers alone, on all threads.

    Raises:
        CompileError: There is no compiler.
    """
    function, sink = _library().fma_peak, torch.zeros(16 * threads, dtype=torch.float32)
    return Probe(
        lambda: function(turns, threads, sink.data_ptr()), float(turns * _FMA_FLOPS * threads)
    )


def gather(table: Tensor, rows: Tensor, threads: int) -> Probe:
    """Bytes of rows that are picked and added up.

    Args:
        table: float32 [N, 64], contiguous.
        rows: int32 [M] in [0, N).
        threads: How many pick at once.

    Raises:
        CompileError: There is no compiler.
    """
    function, sink = _library().gather_sum, torch.zeros(16 * threads, dtype=torch.float32)

    def run() -> None:
        function(table.data_ptr(), rows.data_ptr(), rows.numel(), threads, sink.data_ptr())

    return Probe(run, float(rows.numel() * ROW_BYTES))


def exchange(rows: int, threads: int, shift: int) -> Probe:
    """Cache lines that every thread reads of rows which threads have just written.

    On virtual machines it may depend on where their processors are at the time, for seconds: the
    median counts.

    Args:
        rows: How many each thread writes, and reads.
        threads: How many threads.
        shift: 0: its own; 1: those of the next thread.

    Raises:
        CompileError: There is no compiler.
    """
    function, sink = _library().exchange, torch.zeros(16 * threads, dtype=torch.float32)
    table = torch.zeros(threads * rows, ROW_BYTES // 4, dtype=torch.float32)
    order = torch.from_numpy(np.random.default_rng(0).permutation(rows).astype(np.int32))

    def run() -> None:
        given = table.data_ptr(), order.data_ptr(), rows, threads, shift, sink.data_ptr()
        function(*given)

    return Probe(run, float(rows * ROW_BYTES // LINE_BYTES), quantile=0.5)


def random_graph(nodes: int, edges: int, relations: int) -> HeteroGraph:
    """A graph whose edges join nodes drawn evenly; equal arguments, equal graphs."""
    rng = np.random.default_rng(0)
    return HeteroGraph(
        rng.integers(0, nodes, edges),
        rng.integers(0, nodes, edges),
        rng.integers(0, relations, edges),
        num_nodes=nodes,
        num_etypes=relations,
    )


def product(width: int, graph: HeteroGraph, schedule: Schedule | None = None) -> Probe:
    """Operations of a typed matrix product [rows, width] @ [width, width] over source pairs."""
    pairs = GraphIndex.of(graph).num_src_pairs
    run = _bound(PRODUCT.format(d=width), graph, schedule)
    return Probe(run, 2.0 * pairs * width * width)


def aggregation(graph: HeteroGraph, schedule: Schedule | None = None) -> Probe:
    """Bytes of source rows that a weighted sum over each node's edges gathers."""
    return Probe(_bound(AGGREGATION, graph, schedule), float(graph.num_edges * ROW_BYTES))


def exponentials(graph: HeteroGraph) -> Probe:
    """Evaluations of exp, one for each edge, in sums over each node's edges."""
    return Probe(_bound(_EXPONENTIALS, graph, None), float(graph.num_edges))


def launch(threads: int) -> Probe:
    """One launch with next to nothing to do on all threads, after something else has run."""
    nodes = _BLOCKS * _SMALLEST_BLOCK * threads
    graph = random_graph(nodes, nodes, 1)
    run = _bound(_EXPONENTIALS, graph, Schedule(block_nodes=_SMALLEST_BLOCK))
    return Probe(run, 1.0, repeats=False)


def _bound(text: str, graph: HeteroGraph, schedule: Schedule | None) -> Callable[[], object]:
    return bound(text, graph, CppBackend(), schedule or Schedule())


def bound(
    text: str,
    graph: HeteroGraph,
    backend: Backend,
    schedule: AnySchedule,
    device: torch.device | None = None,
) -> Callable[[], object]:
    """A launch, ready to run on random values.

    Args:
        text: The launch.
        graph: What it runs on.
        backend: Compiles it.
        schedule: How it is cut.
        device: Where values and indexes lie; the CPU, with its own indexes, if None.
    """
    parsed = parse(text)
    verify(parsed)
    domain = Domain(graph, device)
    run = backend.bind(parsed, schedule, domain)
    drawn = random_values(parsed, domain.index, graph, torch.float32)
    values = {name: value.to(device or "cpu") for name, value in drawn.items()}
    if device is None:
        for name in {name for kernel in parsed.kernels for name in writes(kernel)}:
            value = values[name]  # where runs of layers have it: in huge pages if it is large
            values[name] = allocate(value.numel()).view(value.shape).copy_(value)
    # The graph is kept for the run: a domain does not keep it alive.
    return lambda kept=graph: run(values)  # type: ignore[misc]

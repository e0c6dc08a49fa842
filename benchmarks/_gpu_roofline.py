"""Kernels of a GPU against what the card can do, measured beside them in the same turns.

The limits of a kernel: its operations at the rate of a large product by torch in the same
precision; the bytes that it cannot do without (every row once) at the rate of a large copy; and
picking the very rows that it picks, in the same order, which is timed, not computed. Its share is
the longest of the three over the time of the best schedule.
"""

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from _gpu import clocks
from _gpu_graphs import fresh_graph, origin
from _gpu_timing import Run, in_turns, stopwatch
from _gpu_units import UNIT_S, Unit
from _memory import describe
from torch import Tensor

from hetune.profiling.calibrate import gpu_probes
from hetune.profiling.calibrate.probes import AGGREGATION, PRODUCT
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.exhaustion import is_out_of_memory
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.kernel.verify import verify
from hetune.variants.runtime.domain import Domain

_FLOAT = 4
_AGGREGATED = 64
"""Width of the rows of `AGGREGATION`, and of `ATTENTION`."""
ATTENTION = """
launch
  buffer q: node[64]
  buffer k: node[64]
  buffer v: node[64]
  buffer p: edge[] in scratch p
  buffer y: node[64]
  traverse node
    softmax p: [] over edge to p
      scores edge
        key: [64] = read k[src]
        query: [64] = read q[dst]
        s: [] = dot(key, query)
        score s
  traverse node
    init acc: [64] sum
    for edge
      share: [] = read p
      row: [64] = read v[src]
      m: [64] = mul(share, row)
      update acc m
    store y = acc
"""
"""Rows of a node's sources, weighted by a softmax of dot products."""
PRODUCTS = tuple(
    GpuSchedule(tile_rows=rows, tile_k=k, warps=warps, stages=stages)
    for rows, k, warps, stages in (
        (64, 16, 4, 2),
        (128, 16, 8, 2),
        (32, 16, 4, 2),
        (64, 32, 4, 2),
        (128, 32, 4, 2),
        (128, 32, 8, 2),
        (128, 64, 8, 2),
    )
)
SUMS = (
    GpuSchedule(),
    GpuSchedule(edges=8, elements=4096),
    GpuSchedule(edges=4, elements=4096),
    GpuSchedule(edges=8),
    GpuSchedule(part_edges=128),
    GpuSchedule(part_edges=32),
)


@dataclass(frozen=True)
class Work:
    """What a kernel has to do.

    Attributes:
        launch: The kernel.
        flop: Operations of its products.
        nbytes: Bytes of what it reads and writes, every row once.
        picks: Ways of picking the rows that it picks.
        schedules: Ways of running it.
    """

    launch: Launch
    flop: float
    nbytes: float
    picks: Mapping[str, Run]
    schedules: Sequence[GpuSchedule]


@dataclass(frozen=True)
class Roofline:
    """Makes the units.

    Attributes:
        device: "cuda", or "cpu" under TRITON_INTERPRET=1.
        rounds: How often a kernel takes its turn.
        product: Side of the square product that tells the rate of operations.
        copied: Bytes of the copy that tells the rate of bytes.
        unit_s: Seconds after which a unit tries no further schedule.
    """

    device: str
    rounds: int = 20
    product: int = 8192
    copied: int = 1 << 30
    unit_s: float = UNIT_S

    def units(self, graph: str, width: int = 64) -> list[Unit]:
        """Sums, softmax sums, and products of `width` in three precisions, on a graph."""
        kinds = {kind: (kind, "ieee") for kind in ("aggregation", "attention")}
        kinds |= {f"gather-gemm {p}": ("gather-gemm", p) for p in ("ieee", "tf32x3", "tf32")}
        return [
            Unit(f"roofline/{name}/{graph}", lambda k=kind, p=p: self.measure(k, graph, p, width))
            for name, (kind, p) in kinds.items()
        ]

    def work(self, kind: str, at: HeteroGraph, width: int) -> Work:
        """What a kernel has to do on a graph: a typed product for each source pair, of `width`; a
        weighted sum over each node's edges; or one that a softmax weights.
        """
        from _gpu_gather import copies, sums

        index, n, e = Domain(at, at.device).index(""), at.num_nodes, at.num_edges
        if kind == "gather-gemm":
            ids, weights = index.src_pair_node, at.num_etypes * width * width
            rows = ids.numel()
            return Work(
                _parsed(PRODUCT.format(d=width)),
                2.0 * rows * width * width,
                _FLOAT * (width * (_distinct(ids) + rows) + rows + weights),
                copies(torch.randn(n, width, device=at.device), ids),
                PRODUCTS,
            )
        rows = _distinct(index.src) + n
        k, v = (sums(torch.randn(n, _AGGREGATED, device=at.device), index.src) for _ in range(2))
        if kind == "aggregation":
            return Work(
                _parsed(AGGREGATION),
                2.0 * e * _AGGREGATED,
                _FLOAT * (_AGGREGATED * rows + 3 * e + n),
                k,
                SUMS,
            )
        return Work(
            fused(_parsed(ATTENTION), "cuda"),
            4.0 * e * _AGGREGATED,
            _FLOAT * (2 * _AGGREGATED * rows + e + n),
            {name: _both(way, v[name]) for name, way in k.items()},
            SUMS,
        )

    def measure(self, kind: str, graph: str, precision: str, width: int) -> dict[str, Any]:
        """A unit's record."""
        at = fresh_graph(graph, self.device)
        work = self.work(kind, at, width)
        domain = Domain(at, at.device)
        values = buffers_of(work.launch, domain, at.device)
        backends = {str(s): TritonBackend(precision, s) for s in work.schedules}
        runs, refused = self.started(work.launch, backends, domain, values)
        return self.record(graph, at, work, runs, refused, precision)

    def started(
        self,
        launch: Launch,
        backends: Mapping[str, TritonBackend],
        domain: Domain,
        values: dict[str, Tensor],
    ) -> tuple[dict[str, Run], dict[str, str]]:
        """A launch by each backend, after its first run; and why others do not run it."""
        began = time.perf_counter()
        runs: dict[str, Run] = {}
        refused: dict[str, str] = {}
        for name, backend in backends.items():
            if time.perf_counter() - began > self.unit_s:
                refused[name] = "no time was left for it in its unit"
                continue
            try:
                run = _bound(launch, domain, backend, values)
                run()
                self._wait()
                runs[name] = run
            except Exception as error:  # a schedule that a card refuses is a result
                if is_out_of_memory(error):
                    gc.collect()
                refused[name] = describe(error)
        return runs, refused

    def record(
        self,
        graph: str,
        at: HeteroGraph,
        work: Work,
        runs: Mapping[str, Run],
        refused: Mapping[str, str],
        precision: str = "ieee",
    ) -> dict[str, Any]:
        """What the runs take beside their limits, the first of them by default."""
        if not runs:
            raise AssertionError(f"no schedule ran: {refused}")
        before = clocks(self.device)
        torch.set_float32_matmul_precision("highest" if precision == "ieee" else "high")
        limits = {**self._limits(), **{f"pick {name}": run for name, run in work.picks.items()}}
        times = in_turns({**limits, **runs}, stopwatch(self.device), self.rounds)
        return {
            "graph": origin(graph),
            "nodes": at.num_nodes,
            "edges": at.num_edges,
            "flop": work.flop,
            "bytes": work.nbytes,
            **self.shares(work, times, list(runs)),
            "times": times,
            "refused": refused,
            "clocks_before": before,
            "clocks_after": clocks(self.device),
        }

    def shares(
        self, work: Work, times: Mapping[str, Mapping[str, Any]], runs: Sequence[str]
    ) -> dict[str, Any]:
        """Rates of the card, the kernel's bounds, and its share of them; medians all."""

        def ms(name: str) -> float:
            value: float = times[name]["median_ms"]
            return max(value, 1e-6)

        flop_rate = 2.0 * self.product**3 / ms("product")
        byte_rate = 2.0 * self.copied / ms("copy")
        best = min(runs, key=ms)
        bounds = {
            "flop": work.flop / flop_rate,
            "bytes": work.nbytes / byte_rate,
            "pick": min(ms(name) for name in times if name.startswith("pick ")),
        }
        share = {name: round(bound / ms(best), 4) for name, bound in bounds.items()}
        return {
            "tflops": round(flop_rate * 1e-9, 3),
            "copy_gb_s": round(byte_rate * 1e-6, 2),
            "best": best,
            "best_ms": ms(best),
            "default_ms": ms(runs[0]),
            "bounds_ms": {name: round(bound, 5) for name, bound in bounds.items()},
            "shares": share,
            "share": max(share.values()),
            "bound": max(share, key=share.__getitem__),
        }

    def _limits(self) -> dict[str, Run]:
        device = torch.device(self.device)
        return {
            "product": gpu_probes.product(self.product, device).run,
            "copy": gpu_probes.copied(self.copied, device).run,
        }

    def _wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


def _both(one: Run, other: Run) -> Run:
    def run() -> None:
        one()
        other()

    return run


def buffers_of(launch: Launch, domain: Domain, device: torch.device) -> dict[str, Tensor]:
    """Random rows for each of a launch's buffers."""
    return {
        buffer.name: torch.randn(domain.buffer_rows(buffer.type), *buffer.type.shape, device=device)
        for buffer in launch.buffers
    }


def _bound(
    launch: Launch, domain: Domain, backend: TritonBackend, values: dict[str, Tensor]
) -> Run:
    run = backend.bind(launch, GpuSchedule(), domain)
    return lambda: run(values)


def _parsed(text: str) -> Launch:
    launch = parse(text)
    verify(launch)
    return launch


def _distinct(ids: Tensor) -> int:
    return torch.unique(ids).numel()

"""The units of `gpu_parts.py`: every candidate checked against float64, and timed beside bounds."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from _gpu_parts_candidates import CANDIDATES, PRODUCTS, Candidate
from _gpu_parts_expected import attended, sums
from _gpu_parts_graphs import Drawing, Edges
from _gpu_parts_index import Parts, levels_of
from _gpu_parts_runs import Kernels, Run, bind_softmax, bind_sum
from _gpu_parts_today import today_softmax, today_sum
from _gpu_timing import in_turns
from _gpu_units import Unit
from _memory import describe
from torch import Tensor

from hetune.profiling.calibrate import gpu_probes
from hetune.profiling.measure.stopwatch import CudaStopwatch, Mark, Sample, WallStopwatch
from hetune.variants.testing.conformance import relative_error

TOLERANCE = 1e-5
_OTHERS_TOLERANCE = 1e-3
"""cuSPARSE adds up a hub's edges one by one: its error is told, but does not rule it out."""
_FLOAT = 4
_QUEUED = 600_000
"""Cycles, about 0.3 ms, that the card is busy with while the host starts what is timed."""


@dataclass(frozen=True)
class QueuedStopwatch:
    """Events around a run whose kernels all wait to begin when the first does, with a cold cache.

    So what it takes to start kernels does not count, unless the host takes longer than 0.3 ms.
    """

    watch: CudaStopwatch

    def time(self, run: Callable[[Mark], Any]) -> tuple[Any, Sample]:
        """What a run gave, and what it took."""
        self.watch.flush()
        torch.cuda._sleep(_QUEUED)
        begin, end = self.watch.event(), self.watch.event()
        begin.record()
        start = time.perf_counter()
        result = run(lambda: None)
        host = time.perf_counter() - start
        end.record()
        end.synchronize()
        return result, Sample(begin.elapsed_time(end) * 1e-3, (), host)


@dataclass(frozen=True)
class Measuring:
    """Makes the units.

    Attributes:
        device: "cuda", or "cpu" under TRITON_INTERPRET=1.
        kernels: What starts them.
        drawing: The graphs.
        rounds: How often each candidate takes its turn.
        copied: Bytes of the copy that tells the rate of bytes.
        product: Side of the square product that tells the rate of operations.
    """

    device: str
    kernels: Kernels
    drawing: Drawing
    rounds: int = 15
    copied: int = 1 << 30
    product: int = 8192

    def rates(self) -> dict[str, Any]:
        """Operations and bytes for each second, and a kernel's time that does nothing."""
        device = torch.device(self.device)
        product = gpu_probes.product(self.product, device)
        copy = gpu_probes.copied(self.copied, device)
        times = self.times({"product": product.run, "copy": copy.run})
        return {
            "tflops": product.units / times["product"]["median_ms"] * 1e-9,
            "copy_gb_s": copy.units / times["copy"]["median_ms"] * 1e-6,
            "times": times,
        }

    def sum(self, graph: str, width: int, wanted: Callable[[Candidate], bool]) -> dict[str, Any]:
        """Sums of rows of sources over each node's edges."""
        from _gpu_gather import sums as picks

        at = self.drawing.graph(graph, self.device)
        x = torch.randn(at.nodes, width, device=self.device)
        nbytes = _FLOAT * (width * (_distinct(at.src) + at.nodes) + at.src.numel() + at.nodes)
        ways = picks(x, at.src)

        def bind(candidate: Candidate, levels: Sequence[Parts], out: Tensor) -> Run:
            return bind_sum(candidate, self.kernels, levels, at.src, x, out)

        others = today_sum(at, x) if width == 64 else {}
        expected = sums(x, at.src, at.dst)
        chosen = [c for c in CANDIDATES["sum", width] if wanted(c)]
        return self._measured(at, chosen, bind, expected, others, ways, nbytes)

    def softmax(self, graph: str) -> dict[str, Any]:
        """Rows of sources weighted by a softmax of dot products."""
        from _gpu_gather import sums as picks

        at = self.drawing.graph(graph, self.device)
        q, k, v = (torch.randn(at.nodes, 64, device=self.device) for _ in range(3))
        qkv = q * 0.25, k, v
        rows = 2 * _distinct(at.src) + 2 * at.nodes
        nbytes = _FLOAT * (64 * rows + at.src.numel() + at.nodes)
        both = [picks(k, at.src), picks(v, at.src)]
        ways = {name: lambda n=name: [way[n]() for way in both] for name in both[0]}

        def bind(candidate: Candidate, levels: Sequence[Parts], out: Tensor) -> Run:
            return bind_softmax(candidate, self.kernels, levels, at.src, qkv, out)

        expected = attended(qkv, at.src, at.dst)
        others = today_softmax(at, qkv)
        chosen = CANDIDATES["softmax", 64]
        return self._measured(at, chosen, bind, expected, others, ways, nbytes)

    def _measured(
        self,
        at: Edges,
        candidates: Sequence[Candidate],
        bind: Callable[[Candidate, Sequence[Parts], Tensor], Run],
        expected: Tensor,
        others: Mapping[str, Callable[[], tuple[Run, Tensor]]],
        picks: Mapping[str, Run],
        nbytes: float,
    ) -> dict[str, Any]:
        """A unit's record: who is right, and how long each takes beside the bounds."""
        levels: dict[int, list[Parts]] = {}
        built: dict[str, Any] = {}
        runs: dict[str, Run] = {}
        errors: dict[str, float] = {}
        refused: dict[str, str] = {}
        for candidate in candidates:
            most, out = candidate.most, torch.empty(expected.shape, device=self.device)
            if most not in levels:
                levels[most], built[str(most)] = self._built(at, most)
            if not self.kernels.has(candidate.kernel):
                refused[candidate.name] = "was not compiled"
                continue

            def make(c: Candidate = candidate, o: Tensor = out) -> tuple[Run, Tensor]:
                return bind(c, levels[c.most], o), o

            self._try(candidate.name, make, expected, runs, errors, refused)
        for name, make in others.items():
            self._try(name, make, expected, runs, errors, refused, _OTHERS_TOLERANCE)
        copy = gpu_probes.copied(self.copied, torch.device(self.device))
        limits = {"copy": copy.run, **{f"pick {name}": run for name, run in picks.items()}}
        times = self.times({**limits, **runs})
        found = {name: {**times[name], "error": errors[name]} for name in runs}
        bounds = {
            "bytes": nbytes / copy.units * times["copy"]["median_ms"],
            "pick": min(times[n]["median_ms"] for n in times if n.startswith("pick ")),
        }
        bound = max(bounds.values())
        for each in found.values():
            each["share"] = round(bound / max(each["median_ms"], 1e-6), 4)
        return {
            "nodes": at.nodes, "edges": at.src.numel(), "bytes": nbytes, "bounds_ms": bounds,
            "limits": {name: times[name] for name in limits}, "index": built,
            "candidates": found, "refused": refused,
        }  # fmt: skip

    def _built(self, at: Edges, most: int) -> tuple[list[Parts], dict[str, Any]]:
        """The parts of a graph's edges, how many there are, and how long that took."""
        pointers, seconds = at.pointers, math.inf
        for _ in range(2):  # the first time allocates
            self._wait()
            start = time.perf_counter()
            levels = levels_of(pointers, most)
            self._wait()
            seconds = min(seconds, time.perf_counter() - start)
        counts = [parts.begin.numel() for parts in levels]
        return levels, {"parts": counts, "build_ms": round(seconds * 1e3, 3)}

    def _try(
        self,
        name: str,
        make: Callable[[], tuple[Run, Tensor]],
        expected: Tensor,
        runs: dict[str, Run],
        errors: dict[str, float],
        refused: dict[str, str],
        tolerance: float = TOLERANCE,
    ) -> None:
        """Keeps a candidate that runs and is right."""
        try:
            run, out = make()
            out.fill_(torch.nan)
            given = run()
            self._wait()
            error = relative_error(given if isinstance(given, Tensor) else out, expected)
            if error <= tolerance:
                runs[name], errors[name] = run, error
            else:
                refused[name] = f"wrong: relative error {error:.3g}"
        except Exception as error:
            refused[name] = describe(error)

    def times(self, runs: Mapping[str, Run]) -> dict[str, dict[str, Any]]:
        """Milliseconds of each, taken in turns."""
        cold = WallStopwatch() if self.device == "cpu" else QueuedStopwatch(CudaStopwatch())
        return in_turns(runs, cold, self.rounds, budget_s=1.0)

    def products(self, graph: str) -> dict[str, Any]:
        """Products of picked rows and their relation's weights, for each pair of both."""
        from _gpu_parts_typed import measured

        return measured(self.drawing.graph(graph, self.device), self.kernels, PRODUCTS, self.times)

    def host(self) -> dict[str, Any]:
        """What starting kernels takes."""
        from _gpu_parts_host import measured

        return measured(self.kernels)

    def _wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def units(self, graphs: Sequence[str]) -> list[Unit]:
        """All of them; kernels that could hang, for they wait for copies, are the last."""
        found = [Unit("rates", self.rates)]
        for g in graphs:
            found += [
                Unit(f"sum/64/{g}", lambda g=g: self.sum(g, 64, lambda c: not _waits(c))),
                Unit(f"softmax/64/{g}", lambda g=g: self.softmax(g)),
            ]
            if g in ("am", "mag"):
                found.append(Unit(f"product/64/{g}", lambda g=g: self.products(g)))
            if g == "mag":
                found += [
                    Unit(f"sum/{w}/{g}", lambda g=g, w=w: self.sum(g, w, lambda c: True))
                    for w in (32, 128)
                ]
        found.insert(5, Unit("host", self.host))

        def beside(c: Candidate) -> bool:
            return _waits(c) or c.name in ("cuda half", "triton u8 p8 w4")

        return found + [
            Unit(f"sum-copies/64/{g}", lambda g=g: self.sum(g, 64, beside)) for g in graphs
        ]


def _waits(candidate: Candidate) -> bool:
    return candidate.kernel.name in ("sum_async_64", "sum_bulk_64")


def _distinct(ids: Tensor) -> int:
    return torch.unique(ids).numel()

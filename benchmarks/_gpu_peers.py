"""hetune against PyG, `torch._grouped_mm` and expert PyTorch on a GPU, cell by cell.

A cell is a layer on a graph at a width. First every plan of hetune runs: checked, timed for a few
rounds. Then the best plan takes turns with each other candidate, one after the other, so that no
more than two candidates have their indexes in memory at once. A candidate's output is checked
against float64 before its time counts; one that is wrong, fails, takes too long or runs out of
memory is recorded as such.
"""

import gc
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from _gpu import clocks, missing
from _gpu_graphs import fresh_graph, origin
from _gpu_timing import (
    OutOfTime,
    Run,
    Stopwatch,
    at_most,
    beside,
    held_bytes,
    in_turns,
    kernel_times,
    peak_bytes,
    stopwatch,
)
from _gpu_units import UNIT_S, Unit, answers
from _memory import describe
from _peers import grouped, pyg, torch_expert
from _peers._torch_ops import WORKSPACE
from _peers.problem import Candidate, Layer, Problem
from _reference import reference, relative_error
from torch import Tensor, nn

from hetune.variants.backends.base import Backend
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.toolkit import interpreting
from hetune.variants.exhaustion import is_out_of_memory
from hetune.variants.frontend.adapt import adapt
from hetune.variants.plan.variants import Variant
from hetune.variants.registry import BuildReport
from hetune.variants.runtime.backends import backend_named
from hetune.variants.runtime.build import build
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.replay import PATIENCE

TOLERANCES = {"ieee": 1e-4, "tf32x3": 1e-4, "tf32": 5e-3, "bf16": 5e-2}
_FEW_ROUNDS, _FASTEST = 3, 2
_EXPECTED_RUNS = 1000.0


@dataclass(frozen=True)
class Cells:
    """Makes the units.

    Attributes:
        device: "cuda", or "cpu" to see that it works.
        rounds: How often a candidate takes its turn.
        precision: Of products, of hetune and of torch's own: "ieee" or "tf32".
        unit_s: Seconds after which a cell begins no further candidate.
        ahead_of_time: Whether hetune's kernels are compiled ahead, many at once.
        fastest: Names of the peers that run, by a cell's key; all where it has none.
    """

    device: str
    rounds: int = 20
    precision: str = "ieee"
    unit_s: float = UNIT_S
    ahead_of_time: bool = True
    fastest: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def units(
        self, graphs: Sequence[str], layers: Sequence[Layer], widths: Sequence[int]
    ) -> list[Unit]:
        """All cells: every variant of hetune, then its plans beside the peers."""
        suffix = "" if self.precision == "ieee" else f"-{self.precision}"
        return [
            Unit(
                f"{kind}{suffix}/{graph}/{layer}/{width}",
                lambda n=layer, g=graph, w=width, k=kind: Cell(self, n, g, w, k).measure(),
            )
            for kind in ("variants", "peers")
            for graph in graphs
            for width in widths
            for layer in layers
        ]

    @property
    def backend(self) -> Backend:
        """What runs hetune's plans; away from a GPU, torch's interpreter does."""
        if self.device == "cpu" and not interpreting():
            return backend_named("torch")
        return TritonBackend(self.precision)


@dataclass
class Cell:
    """One layer on one graph: its "variants" in all schedules, or its plans beside "peers"."""

    cells: Cells
    layer: Layer
    graph: str
    width: int
    kind: str = "peers"
    _began: float = field(default_factory=time.perf_counter)
    _best: str | None = None

    def measure(self) -> dict[str, Any]:
        """The cell's record."""
        if "torch_geometric" in missing():
            return {"skipped": "torch_geometric, whose modules hold the weights, is missing"}
        device = self.cells.device
        fast = "highest" if self.cells.precision == "ieee" else "high"
        torch.set_float32_matmul_precision(fast)
        problem = Problem(self.layer, fresh_graph(self.graph, device), self.width)
        graph = problem.graph
        found: dict[str, Any] = {
            "graph": origin(self.graph),
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "etypes": graph.num_etypes,
            "precision": self.cells.precision,
            "clocks_before": clocks(device),
            "candidates": [],
        }
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peers' own
            if self.cells.ahead_of_time:
                compile_ahead(problem.conv, device, (self.cells.precision,), self._keeps)
            want, found["reference"] = reference(problem)
            settle(device)
            layer = compile_layer(problem.conv, backend=self.cells.backend, cuda_graph=False)
            plans, best = self._plans(layer, problem, want)
            found["plans"], found["best_plan"] = plans, best
            if best is None:
                raise AssertionError(f"no plan of hetune ran: {plans}")
            baseline = _call(layer, problem, best)
            self._best = best
            if self.kind == "variants":
                found["kernels"] = kernel_times(baseline, device)
            for candidate in self.candidates():
                found["candidates"].append(self._candidate(candidate, problem, want, baseline))
        found["clocks_after"] = clocks(device)
        return found

    def candidates(self) -> list[Candidate]:
        """What hetune chooses, its best plan as a CUDA graph, and the peers."""
        chosen = Candidate("hetune/compile", self.layer, self._chosen)
        if self.kind == "variants":
            return [chosen]
        own = [chosen, Candidate("hetune/cuda graph", self.layer, self._recorded)]
        plain = [candidate for candidate in pyg.candidates(self.layer) if not candidate.compiled]
        experts = (*torch_expert.candidates(self.layer), *grouped.candidates(self.layer))
        peers = [*experts, *plain]
        names = self.cells.fastest.get(f"{self.graph}/{self.layer}/{self.width}")
        return [*own, *(peer for peer in peers if names is None or peer.name in names)]

    def _chosen(self, problem: Problem) -> Run:
        from hetune import compile as compile_with_selector

        layer = compile_with_selector(
            problem.conv, backend=self.cells.backend, expected_runs=_EXPECTED_RUNS
        )
        return _repeated(_call(layer, problem))

    def _recorded(self, problem: Problem) -> Run:
        layer = compile_layer(
            problem.conv, backend=self.cells.backend, cuda_graph=self.cells.device != "cpu"
        )
        return _repeated(_call(layer, problem, self._best))

    def _plans(
        self, layer: CompiledLayer, problem: Problem, want: Tensor
    ) -> tuple[dict[str, Any], str | None]:
        """All variants that count by what they take, and the fastest that is right."""
        plans: dict[str, Any] = {}
        watch = stopwatch(self.cells.device)
        for variant in plans_of(layer, self._keeps):
            plans[variant] = self._guarded(
                lambda v=variant: self._plan(_call(layer, problem, v), problem, want, watch)
            )
        right = {name: p["median_ms"] for name, p in plans.items() if p["status"] == "ok"}
        return plans, min(right, key=right.__getitem__, default=None)

    def _keeps(self, variant: Variant) -> bool:
        return self.kind == "variants" or each_plan(variant)

    def _plan(self, run: Run, problem: Problem, want: Tensor, watch: Stopwatch) -> dict[str, Any]:
        wrong = self._wrong(problem, run(), want, self.cells.precision)
        if wrong["status"] != "ok":
            return wrong
        peak = peak_bytes(run, self.cells.device)
        times = in_turns({"plan": run}, watch, _FEW_ROUNDS)["plan"]
        return {**wrong, "peak_bytes": peak, **times}

    def _candidate(
        self, candidate: Candidate, problem: Problem, want: Tensor, baseline: Run
    ) -> dict[str, Any]:
        precision = candidate.precision if candidate.precision != "ieee" else self.cells.precision
        entry = {"name": candidate.name, "precision": precision}
        record = self._guarded(lambda: self._timed(candidate, problem, want, baseline, precision))
        return {**entry, **record}

    def _timed(
        self, candidate: Candidate, problem: Problem, want: Tensor, baseline: Run, precision: str
    ) -> dict[str, Any]:
        device = self.cells.device
        for inputs in ("conv", "x", "edge_index", "edge_type"):
            getattr(problem, inputs)
        before, start = held_bytes(device), time.perf_counter()
        run = candidate.build(problem)
        output = run()
        kept = held_bytes(device) - before - _bytes_of(output)
        seconds = time.perf_counter() - start
        record = self._wrong(problem, output, want, precision)
        del output
        record["preprocess_s"] = round(seconds, 4)
        if record["status"] != "ok":
            return record
        peak = peak_bytes(run, device)
        times = beside(baseline, run, stopwatch(device), self.cells.rounds)
        return {**record, "peak_bytes": peak, "kept_bytes": kept, **times}

    def _wrong(self, problem: Problem, output: Any, want: Tensor, precision: str) -> dict[str, Any]:
        error = relative_error(problem.flatten(output), want, problem.compared_rows)
        record = {"status": "ok", "relative_error": error}
        if not error <= TOLERANCES[precision]:
            record |= {"status": "wrong", "detail": f"more than {TOLERANCES[precision]:.0e}"}
        return record

    def _guarded(self, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        left = self.cells.unit_s - (time.perf_counter() - self._began)
        return guarded(measure, left, self.cells.device)


def guarded(measure: Callable[[], dict[str, Any]], left: float, device: str) -> dict[str, Any]:
    """A record, or what came in between; nothing of it stays in memory.

    Args:
        measure: Makes it.
        left: Seconds that it may take.
        device: What it runs on.

    Raises:
        RuntimeError: The device answers no more.
    """
    if left <= 0:
        return {"status": "not run", "detail": "no time was left for it in its unit"}
    try:
        with at_most(left):
            record = measure()
    except OutOfTime as error:
        record = {"status": "too slow", "detail": str(error)}
    except Exception as error:  # whatever a candidate raises is its result
        lost = is_out_of_memory(error)
        record = {"status": "out of memory" if lost else "failed", "detail": describe(error)}
    settle(device)
    if record["status"] == "failed" and not answers(device):
        raise RuntimeError(f"the card answers no more: {record['detail']}")
    return record


def fastest_peers(units: Mapping[str, Any]) -> dict[str, list[str]]:
    """The fastest peers in float32 of each cell of earlier results, by "graph/layer/width"."""
    found = {}
    for key, unit in units.items():
        right = [each for each in unit.get("candidates", ()) if each.get("status") == "ok"]
        exact = [each for each in right if each["precision"] == "ieee"]
        peers = [each for each in exact if not each["name"].startswith("hetune")]
        if key.startswith("peers/") and peers:
            peers.sort(key=lambda each: each["median_ms"])
            found[key.removeprefix("peers/")] = [each["name"] for each in peers[:_FASTEST]]
    return found


def each_plan(variant: Variant) -> bool:
    """Whether it is its plan's variant in the default schedule."""
    return variant.has_default_schedule


def plans_of(layer: CompiledLayer, keep: Callable[[Variant], bool] | None = None) -> list[str]:
    """Ids of variants; by default those that `each_plan` keeps."""
    return [variant.id for variant in layer._promoted.values() if (keep or each_plan)(variant)]


def _repeated(run: Run) -> Run:
    """A run that has come so often that it is recorded, where it is to be."""
    for _ in range(PATIENCE + 1):
        run()
    return run


def compile_ahead(
    module: nn.Module,
    device: str,
    precisions: Sequence[str] = ("ieee",),
    keep: Callable[[Variant], bool] = each_plan,
) -> list[BuildReport]:
    """Compiles a layer's kernels for this card, many at once, but for those that are there."""
    if device == "cpu":
        return []
    major, minor = torch.cuda.get_device_capability(0)
    target, program = f"cuda:sm_{major}{minor}", adapt(module).program
    return [build([program], device=target, precision=p, keep=keep).report for p in precisions]


def _call(layer: nn.Module, problem: Problem, variant: str | None = None) -> Run:
    """A compiled layer as a user calls it; without a variant, as it chooses."""
    x, graph = problem.rows, problem.graph
    return lambda: layer(x, graph, variant=variant)


def _bytes_of(output: Any) -> int:
    tensors = [output] if isinstance(output, Tensor) else output.values()
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def settle(device: str) -> None:
    """Lets go of memory that nobody uses."""
    WORKSPACE.clear()
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()

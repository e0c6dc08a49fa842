"""hetune against PyG, DGL and expert PyTorch: layer x graph x width, interleaved, checked.

    python benchmarks/peers.py --layers rgcn,rgat,hgt --widths 64 --rounds 7

Every candidate of a cell runs once per round, in random order. Its output is checked against a
float64 reference first; one that is wrong, fails or runs out of memory is recorded as such. Cells
that the output file already holds for this machine and commit are kept.
"""

import argparse
import gc
import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import torch
from _graphs import NAMES, MissingGraphError
from _machine import commit, fingerprint, set_threads
from _measure import as_json, keep_heap, rounds_within
from _memory import Cell, Probe, describe, is_out_of_memory, probe
from _peers._torch_ops import WORKSPACE
from _peers.problem import LAYERS, Candidate, Problem
from _peers.torch_expert import applies
from _reference import TOLERANCE, reference, relative_error
from _registry import candidates, missing
from _results import Results, print_tables
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor

from hetune.profiling.measure.rounds import interleave

_RESULTS = Path(__file__).resolve().parent / "results"


class CellRunner:
    """Measures one cell: probes each candidate, checks its output, times all interleaved."""

    def __init__(self, cell: Cell, options: argparse.Namespace, progress: Progress) -> None:
        self._cell, self._options, self._progress = cell, options, progress
        self._task = progress.add_task(cell.key, total=None)
        self._references: dict[str, tuple[Tensor, str]] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._runs: dict[str, Any] = {}
        self._seconds: dict[str, float] = {}

    def measure(self, chosen: Sequence[Candidate]) -> dict[str, Any]:
        """The cell's record for the results file."""
        problem = self._cell.problem()
        graph = problem.graph
        self._progress.update(self._task, total=2 * len(chosen))
        with torch.inference_mode():
            for candidate in chosen:
                entry = {"name": candidate.name, "model": candidate.model, "status": "ok"}
                self._entries[candidate.name] = entry
                self._prepare(candidate, problem, entry)
            self._time()
        self._progress.remove_task(self._task)
        return {
            "key": self._cell.key,
            "layer": self._cell.layer,
            "graph": self._cell.graph,
            "width": self._cell.width,
            "heads": self._cell.heads,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "etypes": graph.num_etypes,
            "references": {model: author for model, (_, author) in self._references.items()},
            "candidates": list(self._entries.values()),
        }

    def _prepare(self, candidate: Candidate, problem: Problem, entry: dict[str, Any]) -> None:
        self._say(candidate.name, "memory")
        reason = missing(candidate) or applies(candidate, problem)
        if reason is not None:
            entry.update(status="not run", detail=reason)
        else:
            limit = int(psutil.virtual_memory().available * self._options.memory_share)
            found = probe(
                self._cell,
                candidate.name,
                threads=self._options.threads,
                limit_bytes=limit,
                timeout=self._options.timeout,
            )
            entry.update(_probe_record(found))
            if found.status == "ok":
                self._say(candidate.name, "checking")
                try:
                    self._check(candidate, problem, entry, found.seconds)
                except Exception as error:  # whatever a peer raises is its result
                    lost = is_out_of_memory(error)
                    entry.update(status="out of memory" if lost else "failed")
                    entry["detail"] = describe(error)
        self._progress.advance(self._task)

    def _check(
        self, candidate: Candidate, problem: Problem, entry: dict[str, Any], seconds: float
    ) -> None:
        if candidate.model not in self._references:
            self._references[candidate.model] = reference(problem, candidate.model)
            WORKSPACE.clear()
            gc.collect()
        want, _ = self._references[candidate.model]
        # PyG's module and inputs are there for all; making them is nobody's preprocessing.
        for inputs in ("conv", "x", "edge_index", "edge_type"):
            getattr(problem, inputs)
        start = time.perf_counter()
        run = candidate.build(problem)
        built = time.perf_counter()
        output = problem.flatten(run())
        first = time.perf_counter() - built
        # What the first call takes beyond a warm one is preparation, too: compiling, indexing.
        entry["preprocess_s"] = round(built - start + max(0.0, first - seconds), 4)
        error = relative_error(output, want, problem.compared_rows)
        entry["relative_error"] = error
        if not error <= TOLERANCE:
            entry.update(status="wrong", detail=f"relative error {error:.1e} > {TOLERANCE:.0e}")
            return
        self._runs[candidate.name], self._seconds[candidate.name] = run, seconds

    def _time(self) -> None:
        options = self._options
        budget = options.budget / max(1, len(self._runs))
        rounds = {
            name: rounds_within(seconds, options.rounds, budget)
            for name, seconds in self._seconds.items()
        }
        total = self._progress.tasks[-1].completed + sum(rounds.values())
        self._progress.update(self._task, total=total)

        def say(name: str) -> None:
            self._say(name, "timing")
            self._progress.advance(self._task)

        samples = interleave(self._runs, rounds, seed=options.seed, progress=say)
        for name, sample in samples.items():
            self._entries[name].update(as_json(sample))
        self._runs.clear()
        WORKSPACE.clear()

    def _say(self, name: str, what: str) -> None:
        self._progress.update(self._task, description=f"{self._cell.key}  {what} {name}")


def _probe_record(found: Probe) -> dict[str, Any]:
    if found.status != "ok":
        return {"status": found.status, "detail": found.detail}
    return {"peak_bytes": found.peak_bytes, "total_bytes": found.total_bytes}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing in the results file; print the tables."""
    options = parser().parse_args(arguments)
    console = Console()
    if options.allocator == "keep":
        keep_heap()
    set_threads(options.threads)
    warnings.filterwarnings("ignore", category=UserWarning)  # the peers' own
    results = Results.open(
        options.out, fingerprint(options.threads, options.allocator), commit(), options.fresh
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    if not options.table:
        with Progress(*columns, console=console, transient=True) as progress:
            cells = _cells(options)
            overall = progress.add_task("cells", total=len(cells))
            for cell in cells:
                chosen = candidates(cell.layer, compiled=options.compile, only=options.only)
                if not results.has(cell.key, [candidate.name for candidate in chosen]):
                    try:
                        results.put(CellRunner(cell, options, progress).measure(chosen))
                    except MissingGraphError as error:
                        progress.console.print(f"[yellow]skipped {cell.key}: {error}")
                progress.advance(overall)
    print_tables(results.cells, console, options.statistic)
    if options.plot:
        from _plot import plot_peers

        console.print(f"wrote {plot_peers(results.cells, options.out.with_suffix('.png'))}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--layers", type=_names, default=list(LAYERS))
    line.add_argument("--graphs", type=_names, default=list(NAMES))
    line.add_argument("--widths", type=_numbers, default=[64])
    line.add_argument("--heads", type=int, default=1, help="of RGAT and HGT")
    line.add_argument("--rounds", type=int, default=7)
    line.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    line.add_argument("--budget", type=float, default=60.0, help="seconds of timing per cell")
    line.add_argument(
        "--timeout", type=float, default=120.0, help="seconds for a candidate's probe"
    )
    line.add_argument("--memory-share", type=float, default=0.75, help="of what is available")
    line.add_argument("--compile", action="store_true", help="also PyG under torch.compile")
    line.add_argument("--only", type=_names, default=[], help='families or names: "pyg,expert/*"')
    line.add_argument(
        "--allocator",
        choices=("default", "keep"),
        default="default",
        help='"keep" spares every candidate the page faults of large temporaries',
    )
    line.add_argument("--seed", type=int, default=0)
    line.add_argument("--fresh", action="store_true", help="measure all cells again")
    line.add_argument("--table", action="store_true", help="only print what the file holds")
    line.add_argument(
        "--statistic",
        choices=("median_ms", "min_ms"),
        default="median_ms",
        help="for the tables; the least time says more on a machine that others use, too",
    )
    line.add_argument("--plot", action="store_true")
    line.add_argument("--out", type=Path, default=_RESULTS / "peers.json")
    return line


def _cells(options: argparse.Namespace) -> list[Cell]:
    unknown = [layer for layer in options.layers if layer not in LAYERS]
    if unknown:
        raise SystemExit(f"no such layer: {', '.join(unknown)}; there are {', '.join(LAYERS)}")
    return [
        Cell(layer, graph, width, 1 if layer == "rgcn" else options.heads)
        for layer in options.layers
        for width in options.widths
        for graph in options.graphs
    ]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[int]:
    return [int(name) for name in _names(text)]


if __name__ == "__main__":
    raise SystemExit(main())

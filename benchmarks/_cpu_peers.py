"""The benchmark of `peers.py` on a CPU: memory in a process of its own, then turns."""

import argparse
import gc
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import psutil
from _cells import Cell
from _graphs import MissingGraphError
from _machine import commit, fingerprint, set_threads
from _measure import as_json, rounds_within
from _memory import Probe, describe, probe
from _peers._torch_ops import WORKSPACE
from _peers.problem import Candidate, Problem
from _reference import TOLERANCE
from _registry import missing
from _results import Results, held_cells, print_cells
from rich.console import Console
from rich.progress import track

from hetune.profiling.measure.rounds import interleave
from hetune.variants.exhaustion import is_out_of_memory


class CellRunner:
    """Measures one cell: probes each candidate, checks its output, times all interleaved."""

    def __init__(self, cell: Cell, options: argparse.Namespace) -> None:
        self._cell, self._options = cell, options
        self._references: dict[str, tuple[Any, str]] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._runs: dict[str, Any] = {}
        self._seconds: dict[str, float] = {}
        self._first: dict[str, float] = {}

    def measure(self, chosen: Sequence[Candidate]) -> dict[str, Any]:
        """The cell's record for the results file."""
        problem = self._cell.problem()
        graph, threads = problem.graph, self._options.threads
        with self._cell.mode():
            for candidate in chosen:
                entry = {"name": candidate.name, "model": candidate.model, "status": "ok"}
                self._entries[candidate.name] = entry
                self._prepare(candidate, problem, entry)
            self._time()
        return {
            "key": self._cell.key,
            **asdict(self._cell),
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "etypes": graph.num_etypes,
            "roofline_ms": round(1e3 * self._cell.least_seconds(problem, threads), 4),
            "references": {model: author for model, (_, author) in self._references.items()},
            "candidates": list(self._entries.values()),
        }

    def _prepare(self, candidate: Candidate, problem: Problem, entry: dict[str, Any]) -> None:
        reason = missing(candidate)
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
                try:
                    self._check(candidate, problem, entry, found.seconds)
                except Exception as error:  # whatever a peer raises is its result
                    lost = is_out_of_memory(error)
                    entry.update(status="out of memory" if lost else "failed")
                    entry["detail"] = describe(error)

    def _check(
        self, candidate: Candidate, problem: Problem, entry: dict[str, Any], seconds: float
    ) -> None:
        if candidate.model not in self._references:
            self._references[candidate.model] = self._cell.reference(problem, candidate.model)
            WORKSPACE.clear()
            gc.collect()
        want, _ = self._references[candidate.model]
        # PyG's module and inputs are there for all; making them is nobody's preprocessing.
        problem.make_inputs()
        start = time.perf_counter()
        run = candidate.build(problem)
        output = run()
        first = time.perf_counter() - start
        error = self._cell.error(problem, output, want)
        entry.update(relative_error=error, **self._cell.facts(run))
        if not error <= TOLERANCE:
            entry.update(status="wrong", detail=f"relative error {error:.1e} > {TOLERANCE:.0e}")
            return
        self._runs[candidate.name], self._first[candidate.name] = run, first
        self._seconds[candidate.name] = seconds

    def _time(self) -> None:
        options = self._options
        budget = options.budget / max(1, len(self._runs))
        rounds = {
            name: rounds_within(seconds, options.rounds, budget)
            for name, seconds in self._seconds.items()
        }
        samples = interleave(self._runs, rounds)
        for name, sample in samples.items():
            # What the first call takes beyond a warm one is preparation, too: compiling, indexing.
            preprocess = max(0.0, self._first[name] - sample.median)
            self._entries[name].update(as_json(sample), preprocess_s=round(preprocess, 6))
        self._runs.clear()
        WORKSPACE.clear()


def _probe_record(found: Probe) -> dict[str, Any]:
    if found.status != "ok":
        return {"status": found.status, "detail": found.detail}
    return {"peak_bytes": found.peak_bytes, "total_bytes": found.total_bytes}


def run(options: argparse.Namespace, cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Measures what is missing in the results file, and prints all that it holds."""
    console = Console()
    if options.table:
        held = held_cells(options.out)
        print_cells(held, console)
        return held
    set_threads(options.threads)
    warnings.filterwarnings("ignore", category=UserWarning)  # the peers' own
    results = Results.open(options.out, fingerprint(options.threads), commit(), options.fresh)
    end = time.monotonic() + 60 * options.minutes
    for cell in track(list(cells), console=console, transient=True, description="cells"):
        if time.monotonic() > end:
            console.print("[yellow]out of time: the same command goes on from here")
            break
        chosen = cell.candidates(compiled=options.compile, only=options.only)
        if not results.has(cell.key, [candidate.name for candidate in chosen]):
            try:
                results.put(CellRunner(cell, options).measure(chosen))
            except MissingGraphError as error:
                console.print(f"[yellow]skipped {cell.key}: {error}")
    print_cells(results.cells, console)
    return results.cells

"""What serving costs: requests by `hetune.clients.Client` beside the same runs in-process.

    nice -n -10 python benchmarks/service.py [--parts small,large]

A part whose result the file holds for this machine and commit is not measured again. The server
and the process that asks share the cores of one machine, and take turns.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _command_line import command_line, names
from _machine import commit, fingerprint, set_threads
from _results import Results
from rich.console import Console
from torch import Tensor

import hetune
from hetune import nn
from hetune.clients import Client
from hetune.clients.demo import service

_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Case:
    """A graph whose edges are drawn evenly, and two RGCN layers on it: of so wide features, of
    what lies between the layers, and of the result.
    """

    nodes: int
    edges: int
    relations: int
    widths: tuple[int, int, int]

    def graph(self) -> hetune.HeteroGraph:
        """The graph, its edges in the order of their types."""
        draw = torch.Generator().manual_seed(0)
        src, dst = torch.randint(self.nodes, (2, self.edges), generator=draw)
        etype = torch.randint(self.relations, (self.edges,), generator=draw).sort().values
        return hetune.HeteroGraph(src, dst, etype, num_nodes=self.nodes, num_etypes=self.relations)

    def layers(self) -> list[torch.nn.Module]:
        """The model."""
        first, middle, last = self.widths
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return [
                nn.RGCN(first, middle, self.relations),
                torch.nn.ReLU(),
                nn.RGCN(middle, last, self.relations),
            ]

    def features(self) -> Tensor:
        """Rows of all nodes."""
        draw = torch.Generator().manual_seed(1)
        return torch.randn(self.nodes, self.widths[0], generator=draw)


SMALL = Case(1000, 5000, 4, (32, 32, 16))
LARGE = Case(400_000, 4_000_000, 16, (64, 64, 16))
Ask = Callable[[Tensor], Tensor]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, print it, write the JSON."""
    options = parser().parse_args(arguments)
    set_threads(options.threads)
    for name in options.parts:
        if name not in PARTS:
            raise SystemExit(f"no such part: {name}; take some of {', '.join(PARTS)}")
    console = Console()
    results = Results.open(options.out, fingerprint(options.threads), commit(), options.fresh)
    for name in options.parts:
        if not any(cell["key"] == name for cell in results.cells):
            results.put({"key": name, **PARTS[name](options)})
        print_cell(next(cell for cell in results.cells if cell["key"] == name), console)
    console.print(f"wrote {options.out}")
    return 0


def small(options: argparse.Namespace) -> dict[str, Any]:
    """What a request for a small graph takes beyond the run."""
    here, asked = _latencies(SMALL, options.threads, options.rounds, options.block)
    return {
        **_cell(SMALL, here, asked),
        "overhead": {f"p{p}_ms": round(_ms(asked, p) - _ms(here, p), 3) for p in (50, 99)},
        "goal": {"p50_ms": 2.0, "p99_ms": 5.0},
    }


def large(options: argparse.Namespace) -> dict[str, Any]:
    """What a request with many features takes beyond the run."""
    here, asked = _latencies(LARGE, options.threads, options.large_rounds, 1)
    ratio = statistics.median(asked) / statistics.median(here)
    return {
        **_cell(LARGE, here, asked),
        "overhead": {"share": round(ratio - 1, 4)},
        "goal": {"share": 0.15},
    }


PARTS = {"small": small, "large": large}


def _latencies(
    case: Case, threads: int, rounds: int, block: int
) -> tuple[list[float], list[float]]:
    """Seconds of each run and of each request. Outputs are checked before times count."""
    x = case.features()
    with served(case, threads) as (ask, variants):
        run = in_process(case, variants)
        if not torch.equal(run(x), ask(x)):
            raise RuntimeError("the server's output is another one: no time of it counts")
        times = _interleaved({"run": lambda: run(x), "ask": lambda: ask(x)}, rounds, block)
    return times["run"], times["ask"]


def in_process(case: Case, variants: Sequence[str]) -> Ask:
    """The model run here, by given variants."""
    graph, layers = case.graph(), case.layers()
    first, last = hetune.compile(layers[0]), hetune.compile(layers[2])

    def run(x: Tensor) -> Tensor:
        with torch.inference_mode():
            hidden = first(x, graph, variant=variants[0]).relu_()  # as the service does
            found: Tensor = last(hidden, graph, variant=variants[1])
            return found

    return run


@contextmanager
def served(case: Case, threads: int) -> Iterator[tuple[Ask, list[str]]]:
    """A `hetune serve` with a case in it: what asks it, and the variants that ran."""
    with (
        tempfile.TemporaryDirectory() as folder,
        service(Path(folder), "--no-worker", "--threads", str(threads)) as (url, _),
        Client(url) as client,
    ):
        client.put_model("m", case.layers())
        id = client.upload_graph(case.graph())

        def ask(x: Tensor) -> Tensor:
            out = client.infer("m", id, x).out
            assert isinstance(out, Tensor)
            return out

        layers = client.infer("m", id, case.features()).report.layers
        yield ask, [layer.variant for layer in layers]


def _interleaved(
    candidates: Mapping[str, Callable[[], object]], rounds: int, block: int
) -> dict[str, list[float]]:
    """Candidates take turns by blocks, in an order that is drawn for each round.

    Before each block, threads that still look for work of the block before may come to rest, and
    a call that does not count wakes the others.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order, draw = list(candidates), random.Random(0)
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            time.sleep(_PAUSE)
            if block > 1:
                candidates[name]()
            for _ in range(block):
                start = time.perf_counter()
                candidates[name]()
                times[name].append(time.perf_counter() - start)
    return times


def _ms(times: Sequence[float], percentile: float) -> float:
    return float(np.percentile(times, percentile)) * 1e3


def _cell(case: Case, here: Sequence[float], asked: Sequence[float]) -> dict[str, Any]:
    features_mb = round(case.nodes * case.widths[0] * 4 / 1e6, 3)
    return {
        "case": {**asdict(case), "features_mb": features_mb},
        "candidates": {
            name: {
                "calls": len(times),
                **{f"p{p}_ms": round(_ms(times, p), 4) for p in (10, 50, 90, 99)},
                "min_ms": round(min(times) * 1e3, 4),
            }
            for name, times in (("in-process", here), ("hetune, client", asked))
        },
    }


def print_cell(cell: dict[str, Any], console: Console) -> None:
    """What a part found, and whether it meets its goals."""
    console.print(f"[bold]{cell['key']}[/bold]: {cell['case']}")
    for name, found in cell["candidates"].items():
        console.print(f"  {name}: " + ", ".join(f"{key} {found[key]}" for key in found))
    for name, goal in cell["goal"].items():
        found = cell["overhead"][name]
        verdict = "met" if found <= goal else "missed"
        console.print(f"  added, {name}: {found:.3f}; goal: at most {goal:g}: {verdict}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = command_line(__doc__, "service")
    line.add_argument("--parts", type=names, default=list(PARTS))
    line.add_argument("--rounds", type=int, default=30, help="for the small graph")
    line.add_argument("--block", type=int, default=50, help="calls in a turn, for the small graph")
    line.add_argument("--large-rounds", type=int, default=9)
    line.add_argument("--fresh", action="store_true", help="measure all parts again")
    return line


if __name__ == "__main__":
    raise SystemExit(main())

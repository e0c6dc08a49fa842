"""Scores of knowledge-graph embeddings: hetune against PyKEEN, PyG, DGL, plain and expert PyTorch.

    python benchmarks/kge.py --layers transe,transr --graphs fb15k237 --batches 4096 --widths 64

Each call scores a new batch of triples; a step computes gradients of all tables as well. Scores and
gradients are checked against float64 before times count. Otherwise as `peers.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

import _peer_tables as tables
import torch
from _cells import AnyCell
from _command_line import names, numbers
from _graphs import data_folder
from _measure import geometric_mean
from _peers.kge import SCORES, KgeProblem, Score3, candidates
from _peers.problem import Candidate
from _registry import matching
from _results import OWN, times
from peers import parser

from hetune.variants.graph.generate import generate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders import load

GRAPHS = ("fb15k", "fb15k237", "wn18", "biokg")
_LIBRARIES = ("pykeen/", "pyg/", "dgl/")


@dataclass(frozen=True)
class KgeCell(AnyCell):
    """A score on batches of a graph: enough to build the same problem in any process."""

    layer: str
    graph: str
    batch: int
    width: int
    what: str

    @property
    def key(self) -> str:
        """Readable and unique."""
        return f"{self.what}/{self.layer}/{self.graph}/{self.batch}x{self.width}"

    def problem(self) -> KgeProblem:
        """Tables and batches."""
        if self.graph == "biokg":
            graph = generate("biokg", seed=0)
        else:
            graph = load(data_folder() / "graphs" / f"{self.graph}.npz")
        return KgeProblem(self.layer, graph, self.batch, self.width)

    def tiny(self) -> KgeProblem:
        """The same score on eight triples."""
        ids = torch.arange(8)
        return KgeProblem(self.layer, HeteroGraph(ids, ids.flip(0), ids // 4), 8, self.width)

    def candidates(self, *, compiled: bool = False, only: Sequence[str] = ()) -> list[Candidate]:
        """Those that the score has."""
        found = matching(candidates(self.layer), compiled=compiled, only=only)
        return [replace(c, build=partial(self._run, c.build)) for c in found]

    def _run(self, make: Callable[[KgeProblem], Score3], problem: KgeProblem) -> Any:
        torch._dynamo.reset()
        scores, batches = make(problem), cycle(problem.batches)
        if self.what == "scores":
            return lambda: {"scores": scores(*next(batches))}
        up = torch.randn(problem.batch, generator=torch.Generator().manual_seed(2))
        leaves = dict(problem.tables)

        def step() -> dict[str, Any]:
            found = scores(*next(batches))
            given = [up.to(found.dtype)]
            by = torch.autograd.grad([found], [*leaves.values()], given, allow_unused=True)
            return {"scores": found.detach(), **dict(zip(leaves, by, strict=True))}

        return step

    def mode(self) -> AbstractContextManager[Any]:
        """With gradients in steps alone."""
        return torch.no_grad() if self.what == "scores" else nullcontext()

    def reference(self, problem: KgeProblem, model: str) -> tuple[Any, str]:
        """Plain torch in float64, whom the tests hold to PyKEEN, PyG and DGL."""
        double = replace(problem, dtype=torch.float64)
        return self.find("torch/plain").build(double)(), "plain"

    def error(self, problem: KgeProblem, output: Any, want: Any) -> float:
        """Largest difference over the largest value, of scores and each gradient."""
        pairs = [
            (output[n], w) for n, w in want.items() if output.get(n) is not None and w is not None
        ]
        return max(float((got.double() - w).abs().max() / w.abs().max()) for got, w in pairs)

    def least_seconds(self, problem: KgeProblem, threads: int) -> float:
        """Not known."""
        return 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing in the results file; print the tables."""
    line = parser(__doc__, "kge")
    line.add_argument("--what", type=names, default=["scores", "step"])
    line.add_argument("--batches", type=numbers, default=[1024, 4096, 16384])
    line.set_defaults(layers=list(SCORES), widths=[64, 256], budget=10.0)
    options = line.parse_args(arguments)
    from _cpu_peers import run

    print(summary(run(options, cells(options))))
    return 0


def cells(options: Any) -> Iterator[Any]:
    """What the options ask for."""
    for what in options.what:
        for score in options.layers:
            for graph in options.graphs or GRAPHS:
                for batch in options.batches:
                    for width in options.widths:
                        yield KgeCell(score, graph, batch, width, what)


def _over(cell: dict[str, Any], field: str, *families: str) -> float | None:
    """The least of some candidates, over hetune's: of times, or of peak bytes."""
    of = times(cell) if field == "ms" else {c["name"]: c.get(field) for c in cell["candidates"]}
    found = [value for name, value in of.items() if name.startswith(families) and value]
    return min(found) / of[OWN] if found and of.get(OWN) else None


def summary(cells: Sequence[dict[str, Any]]) -> str:
    """How many times as long, and as much memory, others take."""
    columns = {
        "PyKEEN, PyG, DGL": ("ms", *_LIBRARIES),
        "plain PyTorch": ("ms", "torch/plain"),
        "torch.compile": ("ms", "torch/compile"),
        "expert": ("ms", "expert/", "torch/plain"),
        "memory, plain / hetune": ("peak_bytes", "torch/plain"),
    }
    rows = []
    for what, score in dict.fromkeys((cell["what"], cell["layer"]) for cell in cells):
        here = [cell for cell in cells if (cell["what"], cell["layer"]) == (what, score)]
        known = [[r for c in here if (r := _over(c, *of))] for of in columns.values()]
        rows.append(
            [f"{what} {score}", *(tables.shown(geometric_mean(r)) if r else "" for r in known)]
        )
    return tables.table(["", *columns], rows)


if __name__ == "__main__":
    raise SystemExit(main())

"""A cell of a benchmark: what runs where, which candidates there are, and what they must give."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from _graphs import load_graph
from _peers.problem import Candidate, Layer, Problem
from _registry import candidates

from hetune.variants.graph.hetero import HeteroGraph


class AnyCell(ABC):
    """What most cells have in common. Others build another problem, and have other candidates."""

    @abstractmethod
    def candidates(self, *, compiled: bool = False, only: Sequence[str] = ()) -> list[Candidate]:
        """Those that are asked for, as of `_registry.matching`."""

    def find(self, name: str) -> Candidate:
        """The candidate of that name."""
        [found] = self.candidates(compiled=True, only=[name])
        return found

    def mode(self) -> AbstractContextManager[Any]:
        """What candidates are built and run in."""
        return torch.inference_mode()

    def facts(self, run: Any) -> dict[str, Any]:
        """More that is told of a call that ran."""
        return {}


@dataclass(frozen=True)
class Cell(AnyCell):
    """A layer in inference: enough to build the same `Problem` in any process."""

    layer: Layer
    graph: str
    width: int
    heads: int

    @property
    def key(self) -> str:
        """Readable and unique."""
        return f"{self.layer}/{self.graph}/{self.width}x{self.heads}"

    def problem(self) -> Problem:
        """The layer, its weights and its input."""
        graph = load_graph(self.graph, canonical=self.layer == "hgt")
        return self.problem_on(graph)

    def tiny(self) -> Problem:
        """The same layer on a graph of eight edges."""
        ids = torch.arange(8)
        return self.problem_on(HeteroGraph(ids, ids.flip(0), ids // 4))

    def problem_on(self, graph: HeteroGraph) -> Problem:
        return Problem(self.layer, graph, self.width, self.heads)

    def candidates(self, *, compiled: bool = False, only: Sequence[str] = ()) -> list[Candidate]:
        """As of `_registry.candidates`."""
        return candidates(self.layer, compiled=compiled, only=only)

    def reference(self, problem: Problem, model: str) -> tuple[Any, str]:
        """In float64, and who computed it."""
        from _reference import reference

        return reference(problem, model)

    def error(self, problem: Problem, output: Any, want: Any) -> float:
        """Of a candidate's output."""
        from _reference import relative_error

        return relative_error(problem.flatten(output), want, problem.compared_rows)

    def least_seconds(self, problem: Problem, threads: int) -> float:
        """The least time that any variant takes."""
        from _bound import least_seconds, limits

        return least_seconds(problem, limits(threads), threads)

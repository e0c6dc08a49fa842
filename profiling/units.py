"""What a campaign is made of: problems, and their units."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from hetune.profiling.records import PROTOCOLS
from hetune.variants.plan.variants import Device


@dataclass(frozen=True, slots=True)
class GraphRecipe:
    """A graph that can be made again, equal to the last bit, in any process.

    Attributes:
        name: Short and unique in a campaign.
        family: Graphs of one family resemble each other: data is split by family.
        kind: Which maker: see `hetune.profiling.corpus`.
        options: The maker's arguments: sorted pairs of names and JSON scalars.
    """

    name: str
    family: str
    kind: str
    options: tuple[tuple[str, str | int | float | bool], ...]


@dataclass(frozen=True, slots=True)
class ProblemSpec:
    """A layer, or a single kernel, with its widths on a graph, with so many threads.

    Problems of layers are the inputs of the selector.

    Attributes:
        graph: What to run on.
        layer: "rgcn", "rgat" or "hgt", or the kernel "linear", "aggregate" or "attention".
        d_in: Width of the rows that come in.
        d_out: Width of the rows that go out, all heads together.
        heads: Number of heads.
        threads: Number of threads; 1 on a GPU.
        device: What its variants are for: "cpu" or "cuda".
    """

    graph: GraphRecipe
    layer: str
    d_in: int
    d_out: int
    heads: int
    threads: int
    device: Device = "cpu"


@dataclass(frozen=True, slots=True)
class Unit:
    """A variant on a problem: what is measured, and counted as done, on its own.

    Attributes:
        problem: The input.
        variant: Id of the variant.
        plan: Digest of the variant's code (`Variant.key`): other code makes another unit.
    """

    problem: ProblemSpec
    variant: str
    plan: str

    @property
    def key(self) -> str:
        """SHA-256 of everything that decides what is measured, the machine excepted."""
        problem, graph = self.problem, self.problem.graph
        facts: list[object] = [
            PROTOCOLS[problem.device],
            [graph.family, graph.kind, *map(list, graph.options)],
            [problem.layer, problem.d_in, problem.d_out, problem.heads, problem.threads],
            [self.variant, self.plan],
            problem.device,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

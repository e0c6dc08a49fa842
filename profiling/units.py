"""What a campaign is made of: problems, and their units."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hetune.profiling.records import PROTOCOLS
from hetune.variants.kernel.device import Device
from hetune.variants.program.labeled import LabeledProgram


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
    """A program on a graph, with so many threads: an input of the selector.

    Attributes:
        graph: What to run on.
        program: What runs; its label is for readers.
        threads: Number of threads; 1 on a GPU.
        device: What its variants are for: "cpu" or "cuda".
    """

    graph: GraphRecipe
    program: LabeledProgram
    threads: int
    device: Device = "cpu"

    def __str__(self) -> str:
        return f"{self.program.describe()} on {self.graph.name}"

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The problem that `dataclasses.asdict` made this of, also after JSON."""
        graph, program = value["graph"], value["program"]
        options = tuple((name, option) for name, option in graph["options"])
        return cls(
            GraphRecipe(**{**graph, "options": options}),
            LabeledProgram.parse(program["text"], program["label"]),
            value["threads"],
            value["device"],
        )


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
            [problem.program.digest, problem.threads],
            [self.variant, self.plan],
            problem.device,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

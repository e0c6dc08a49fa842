"""Measured inputs, as cost models are fitted to and judged by them.

A *problem* is one input of the selector (a program on a graph, with so many threads); its
*candidates* are the variants that were measured on it; a candidate runs *launches*, each measured
too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.variants.kernel.device import Device
from hetune.variants.program.labeled import LabeledProgram


@dataclass(frozen=True, slots=True)
class LaunchSample:
    """A launch that ran as part of a variant.

    Attributes:
        family: The kernel family that its cost model belongs to.
        columns: `hetune.variants.runtime.launch_columns.COLUMNS` of it: counts, no machine in them.
        seconds: Measured time: a low quantile of several runs'.
    """

    family: str
    columns: tuple[float, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class CandidateSample:
    """A variant that was measured on a problem.

    Attributes:
        variant: Its id.
        seconds: Measured time of a whole run: a low quantile of several runs'.
        iqr: Interquartile range of these runs, in seconds.
        launches: Its launches, in order.
        prepare_seconds: Indexing the graph and binding the variant to it; 0 if not measured.
        preparation: `hetune.variants.runtime.table.PREPARATION` of it; may be empty.
        error: Standard error of `seconds`; 0 if not known.
    """

    variant: str
    seconds: float
    iqr: float
    launches: tuple[LaunchSample, ...]
    prepare_seconds: float = 0.0
    preparation: tuple[float, ...] = ()
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Problem:
    """One input of the selector, with what was measured on it.

    Attributes:
        graph: Name of the graph.
        family: Family of the graph: data is split by it, never by row.
        graph_features: `hetune.costmodel.features.graph.NAMES` of it.
        program: What runs; reports group problems by its label.
        threads: Number of threads.
        machine: Digest of the fingerprint of the machine that it was measured on.
        candidates: What was measured, at least one.
        device: What its variants are for: ``"cpu"`` or ``"cuda"``.
        graph_fingerprint: Digest of the graph's content; empty if it is not known.
    """

    graph: str
    family: str
    graph_features: tuple[float, ...]
    program: LabeledProgram
    threads: int
    machine: str
    candidates: tuple[CandidateSample, ...]
    device: Device = "cpu"
    graph_fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.program.describe()} on {self.graph}"

    @property
    def graph_key(self) -> tuple[str, str]:
        """What tells its graph from others: different graphs of a store may have one name."""
        return self.graph, self.graph_fingerprint

    @property
    def best(self) -> CandidateSample:
        """The candidate that ran fastest."""
        return min(self.candidates, key=lambda c: c.seconds)


@dataclass(frozen=True, slots=True, eq=False)
class LaunchBatch:
    """Launches on one graph, as cost models see them.

    Attributes:
        families: Kernel family of each launch.
        columns: `CandidateTable.columns` of a table for the model's device; float64 [launches,
            `column_names`].
        graph_features: `graph_features` of the graph; float64 [graph features].
        threads: How many share a launch.
    """

    families: tuple[str, ...]
    columns: NDArray[np.float64]
    graph_features: NDArray[np.float64]
    threads: int

    @classmethod
    def of(cls, problem: Problem, launches: Iterable[tuple[str, tuple[float, ...]]]) -> LaunchBatch:
        """Families and columns of launches of a problem."""
        families, columns = zip(*launches, strict=True)
        features = np.array(problem.graph_features)
        return cls(families, np.array(columns), features, problem.threads)


def count_graphs(problems: Iterable[Problem]) -> int:
    """How many graphs problems are of.

    Graphs of one name are told apart by their content, label by label: some programs take a graph
    whose edge types are split by node types, which is another one of the same name.
    """
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for problem in problems:
        found[problem.graph][problem.program.label].add(problem.graph_fingerprint)
    return sum(max(map(len, by_label.values())) for by_label in found.values())

"""What models see of a problem's variants before any of them is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features.devices import Rates, features_of
from hetune.costmodel.features.graph import graph_features
from hetune.profiling.measure.problem import promoted_for
from hetune.profiling.units import ProblemSpec
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.table import CandidateTable


@dataclass(frozen=True, slots=True, eq=False)
class LaunchSums:
    """A problem's variants as sums of launches.

    Attributes:
        variants: How many there are.
        families: Kernel family of each row; str [rows].
        X: `features_of` each row; float32 [rows, features].
        roofline: The roofline model's seconds of each row; float64 [rows].
        rows: The rows of all launches, variant after variant; int64 [launches].
        owners: The variant of each of them; int64 [launches].
    """

    variants: int
    families: NDArray[np.str_]
    X: NDArray[np.float32]
    roofline: NDArray[np.float64]
    rows: NDArray[np.int64]
    owners: NDArray[np.int64]

    @classmethod
    def of(cls, spec: ProblemSpec, graph: HeteroGraph, machine: Rates) -> LaunchSums:
        """Those of a problem on the graph that its recipe makes."""
        variants, domain = promoted_for(spec), Domain(graph)
        table = CandidateTable.of(variants, domain.side)
        rows_on = table.rows_on(domain)
        rows_of = [rows_on[table.place_of[variant.id]] for variant in variants]
        return cls(
            len(variants),
            np.array(table.families),
            *features_of(table.columns(domain), graph_features(graph), machine, spec.threads),
            np.array([row for rows in rows_of for row in rows], np.int64),
            np.repeat(np.arange(len(rows_of)), [len(rows) for rows in rows_of]),
        )

    def rows_of(self, variant: int) -> NDArray[np.int64]:
        """The rows of a variant's launches; int64 [its launches]."""
        found: NDArray[np.int64] = self.rows[self.owners == variant]
        return found

    def share(self, variant: int, among: NDArray[np.bool_]) -> float:
        """What part of a variant's time some rows make by the roofline model, 0 to 1.

        Args:
            variant: Its position.
            among: Those rows; bool [rows].
        """
        rows = self.rows_of(variant)
        seconds = self.roofline[rows]
        return float(seconds[among[rows]].sum() / seconds.sum())

    def totals(self, by_row: NDArray[np.float64], launch_seconds: float) -> NDArray[np.float64]:
        """Seconds of each variant, from those of each row and what starting a launch costs."""
        by_launch = by_row[self.rows] + launch_seconds
        return np.bincount(self.owners, by_launch, self.variants).astype(np.float64)

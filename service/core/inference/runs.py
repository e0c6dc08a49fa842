"""How long runs of a layer took on a graph: remembered with both, for as long as both are held."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.runtime.compiled import CompiledLayer

_KEPT = 9


@dataclass(slots=True)
class Runs:
    """Of one variant.

    Attributes:
        seconds: The last times, without the first run's, which has preparation in it.
    """

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))

    @property
    def median(self) -> float | None:
        """Seconds; None where it has run but once."""
        return statistics.median(self.seconds) if self.seconds else None


_RUNS = GraphSlot[None, dict[str, Runs]]()


def runs_of(layer: CompiledLayer, graph: HeteroGraph) -> dict[str, Runs]:
    """By the ids of the variants that a layer has run by on a graph: they are prepared for it."""
    return graph.state.of(_RUNS, None, dict, owner=layer)


def note(runs: dict[str, Runs], variant: str, seconds: float) -> bool:
    """Notes a run, and says whether it had preparation in it."""
    known = runs.get(variant)
    if known is None:
        runs[variant] = Runs()
        return True
    known.seconds.append(seconds)
    return False

"""What a supervisor and its worker send each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hetune.profiling.measure.candidate import Loss
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.record import GraphFacts, Stamp
from hetune.profiling.records import Measurement
from hetune.profiling.units import ProblemSpec


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to measure.

    Attributes:
        problem: The problem.
        variants: Ids of its variants.
        stamp: For the records.
        limits: Rounds, seconds and bytes.
        seed: Of the inputs and the orders.
    """

    problem: ProblemSpec
    variants: tuple[str, ...]
    stamp: Stamp
    limits: Limits
    seed: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing can be measured here, which is no result: why, and how to mend it."""

    reason: str


Answer: TypeAlias = list[Measurement] | Loss | Refusal
"""To an order: a measurement of each variant, or why none has any."""
Message: TypeAlias = GraphFacts | Answer
"""The facts of an order's graph go ahead of its answer."""

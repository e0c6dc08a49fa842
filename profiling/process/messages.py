"""What a worker process and its parent say to each other, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.record import GraphFacts, Stamp
from hetune.profiling.records import LaunchRecord, Measurement, Status
from hetune.profiling.units import GraphRecipe, ProblemSpec
from hetune.variants.program.labeled import LabeledProgram

Json = dict[str, Any]


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

    def to_json(self) -> Json:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Json) -> Order:
        """What `to_json` gave."""
        return cls(
            problem=problem_from_json(value["problem"]),
            variants=tuple(value["variants"]),
            stamp=Stamp(**value["stamp"]),
            limits=Limits(**value["limits"]),
            seed=value["seed"],
        )


def problem_from_json(value: Json) -> ProblemSpec:
    """A problem, of what `dataclasses.asdict` makes of it."""
    graph = value["graph"]
    options = tuple((name, option) for name, option in graph["options"])
    return ProblemSpec(
        graph=GraphRecipe(**{**graph, "options": options}),
        program=_program(value["program"]),
        threads=value["threads"],
        device=value["device"],
    )


def facts_to_json(facts: GraphFacts) -> Json:
    """A graph's facts."""
    return asdict(facts)


def facts_from_json(value: Json) -> GraphFacts:
    """What `facts_to_json` gave."""
    return GraphFacts(value["fingerprint"], tuple(value["features"]))


def measurement_to_json(measurement: Measurement) -> Json:
    """A measurement; numbers that are not finite are written as Python's `json` does."""
    return {**asdict(measurement), "measured_at": measurement.measured_at.isoformat()}


def measurement_from_json(value: Json) -> Measurement:
    """What `measurement_to_json` gave."""
    return Measurement(
        **{
            **value,
            "program": _program(value["program"]),
            "graph_features": tuple(value["graph_features"]),
            "samples": tuple(value["samples"]),
            "preparation": tuple(value["preparation"]),
            "clocks": tuple(value["clocks"]),
            "launches": tuple(map(_launch, value["launches"])),
            "status": Status(value["status"]),
            "measured_at": datetime.fromisoformat(value["measured_at"]),
        }
    )


def _program(value: Mapping[str, str]) -> LabeledProgram:
    return LabeledProgram.parse(value["text"], value["label"])


def _launch(value: Mapping[str, Any]) -> LaunchRecord:
    columns, samples = tuple(value["columns"]), tuple(value["samples"])
    return LaunchRecord(**{**value, "columns": columns, "samples": samples})

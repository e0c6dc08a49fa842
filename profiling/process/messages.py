"""What a supervisor and its measuring process say, as JSON: nothing read can run code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeAlias

from hetune.profiling.measure.candidate import Loss
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.record import GraphFacts, Stamp
from hetune.profiling.records import LaunchRecord, Measurement, Status
from hetune.profiling.units import ProblemSpec
from hetune.variants.program.labeled import LabeledProgram


@dataclass(frozen=True, slots=True)
class Order:
    """What the process is to measure.

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


def encode(message: Order | Message) -> bytes:
    """A message as JSON; numbers that are not finite are written as Python's `json` does."""
    fields = [asdict(m) for m in message] if isinstance(message, list) else asdict(message)
    return json.dumps([type(message).__name__, fields], default=datetime.isoformat).encode()


def decode_order(data: bytes) -> Order:
    """The order that `encode` made this of."""
    _, fields = json.loads(data)
    return Order(
        ProblemSpec.from_dict(fields["problem"]),
        tuple(fields["variants"]),
        Stamp(**fields["stamp"]),
        Limits(**fields["limits"]),
        fields["seed"],
    )


def decode_message(data: bytes) -> Message:
    """The message that `encode` made this of.

    Raises:
        ValueError, KeyError, TypeError: It made none: the process that sent it is damaged.
    """
    kind, fields = json.loads(data)
    if kind == Refusal.__name__:
        return Refusal(**fields)
    if kind == Loss.__name__:
        return Loss(Status(fields["status"]), fields["error"])
    if kind == GraphFacts.__name__:
        return GraphFacts(fields["fingerprint"], tuple(fields["features"]))
    return [_measurement(value) for value in fields]


def _measurement(value: Mapping[str, Any]) -> Measurement:
    program = value["program"]
    return Measurement(
        **{
            **value,
            "program": LabeledProgram.parse(program["text"], program["label"]),
            "graph_features": tuple(value["graph_features"]),
            "samples": tuple(value["samples"]),
            "preparation": tuple(value["preparation"]),
            "clocks": tuple(value["clocks"]),
            "launches": tuple(map(_launch, value["launches"])),
            "status": Status(value["status"]),
            "measured_at": datetime.fromisoformat(value["measured_at"]),
        }
    )


def _launch(value: Mapping[str, Any]) -> LaunchRecord:
    columns, samples = tuple(value["columns"]), tuple(value["samples"])
    return LaunchRecord(**{**value, "columns": columns, "samples": samples})

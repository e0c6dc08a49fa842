"""Records of units, measured or lost."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from hetune.profiling.measure.candidate import Loss
from hetune.profiling.records import PROTOCOLS, LaunchRecord, Measurement, Status
from hetune.profiling.units import Unit
from hetune.variants.kernel.nodes import Launch, Schedule
from hetune.variants.kernel.text import show, show_schedule


@dataclass(frozen=True, slots=True)
class Stamp:
    """What every record of a run of a campaign says.

    Attributes:
        campaign: Name of the campaign.
        machine: Digest of the machine's fingerprint.
        code_version: hetune's version and commit.
    """

    campaign: str
    machine: str
    code_version: str


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """What records say of a graph.

    Attributes:
        fingerprint: Digest of its content; empty if it never loaded.
        features: `hetune.costmodel.features.graph.NAMES` of it; empty if it never loaded.
    """

    fingerprint: str = ""
    features: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Times:
    """What was measured of a unit; see `Measurement` for the fields."""

    samples: tuple[float, ...] = ()
    launches: tuple[LaunchRecord, ...] = ()
    prepare_seconds: float = 0.0
    preparation: tuple[float, ...] = ()
    relative_error: float = 0.0
    peak_bytes: int = 0
    drift: float = 0.0
    clocks: tuple[float, ...] = ()


def record(
    unit: Unit, stamp: Stamp, graph: GraphFacts, times: Times, loss: Loss | None = None
) -> Measurement:
    """The record of a unit, now.

    Args:
        unit: What was measured.
        stamp: In which campaign, where, by which code.
        graph: Facts of its graph.
        times: What was measured; where there is a loss, as much as is known.
        loss: Why there are no times, if there are none.
    """
    problem = unit.problem
    return Measurement(
        unit=unit.key,
        campaign=stamp.campaign,
        machine=stamp.machine,
        graph=problem.graph.name,
        graph_fingerprint=graph.fingerprint,
        family=problem.graph.family,
        graph_features=graph.features,
        program=problem.program,
        threads=problem.threads,
        variant=unit.variant,
        plan=unit.plan,
        status=loss.status if loss else Status.OK,
        error=loss.error if loss else "",
        samples=() if loss else times.samples,
        launches=() if loss else times.launches,
        prepare_seconds=times.prepare_seconds,
        preparation=times.preparation,
        relative_error=times.relative_error,
        peak_bytes=times.peak_bytes,
        drift=0.0 if loss else times.drift,
        protocol=PROTOCOLS[problem.device],
        code_version=stamp.code_version,
        measured_at=datetime.now(UTC),
        device=problem.device,
        clocks=times.clocks,
    )


@functools.lru_cache(maxsize=4096)
def kernel_digest(launch: Launch, schedule: Schedule) -> str:
    """SHA-256 of a launch's canonical text and schedule, 32 hexadecimal digits."""
    return hashlib.sha256(f"{show(launch)}{show_schedule(schedule)}".encode()).hexdigest()[:32]

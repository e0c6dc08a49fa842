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


def record(
    unit: Unit,
    stamp: Stamp,
    graph: GraphFacts,
    loss: Loss | None = None,
    *,
    samples: tuple[float, ...] = (),
    launches: tuple[LaunchRecord, ...] = (),
    prepare_seconds: float = 0.0,
    preparation: tuple[float, ...] = (),
    relative_error: float = 0.0,
    peak_bytes: int = 0,
    drift: float = 0.0,
    clocks: tuple[float, ...] = (),
) -> Measurement:
    """The record of a unit, now; `Measurement` explains the fields.

    Where there is a loss, which says why, the record has no samples, launches and drift.
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
        samples=() if loss else samples,
        launches=() if loss else launches,
        prepare_seconds=prepare_seconds,
        preparation=preparation,
        relative_error=relative_error,
        peak_bytes=peak_bytes,
        drift=0.0 if loss else drift,
        protocol=PROTOCOLS[problem.device],
        code_version=stamp.code_version,
        measured_at=datetime.now(UTC),
        device=problem.device,
        clocks=clocks,
    )


@functools.lru_cache(maxsize=4096)
def kernel_digest(launch: Launch, schedule: Schedule) -> str:
    """SHA-256 of a launch's canonical text and schedule, 32 hexadecimal digits."""
    return hashlib.sha256(f"{show(launch)}{show_schedule(schedule)}".encode()).hexdigest()[:32]

"""What a profiling run leaves behind: one record for each unit, never changed afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from hetune.variants.kernel.device import Device
from hetune.variants.program.labeled import LabeledProgram

PROTOCOLS: Mapping[Device, int] = MappingProxyType({"cpu": 2, "cuda": 1})
"""Version of how units are measured, by device: times of different protocols are not compared."""


class Status(StrEnum):
    """How the measurement of a unit ended."""

    OK = "ok"
    WRONG = "wrong"
    """The output differs from the interpreter's; there are no times."""
    TIMEOUT = "timeout"
    MEMORY = "memory"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """A launch of a measured variant.

    Attributes:
        kernel: Digest of the launch's canonical text and schedule.
        family: The kernel family that its cost model belongs to.
        columns: `hetune.variants.runtime.launch_columns.COLUMNS` of it.
        samples: Seconds in each round.
    """

    kernel: str
    family: str
    columns: tuple[float, ...]
    samples: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One unit, measured: a variant of a program on a graph, on a machine.

    Attributes:
        unit: The unit's key (`hetune.profiling.units.Unit.key`).
        campaign: Name of the campaign that asked for it first.
        machine: Digest of the machine's fingerprint.
        graph: Name of the graph.
        graph_fingerprint: Digest of its content.
        family: Family of the graph.
        graph_features: `hetune.costmodel.features.graph.NAMES` of it; empty if it never loaded.
        program: What ran; its label is for readers.
        threads: Number of threads.
        variant: Id of the variant.
        plan: Digest of the variant's plan and schedules (`Variant.key`).
        status: How it ended.
        error: What went wrong, for a reader; empty if all went well.
        samples: Seconds of a whole run in each round, in order; empty unless the status is ok.
        launches: The launches, in order; empty unless the status is ok.
        prepare_seconds: Indexing the graph and binding the variant to it, from nothing; 0 if
            that was not measured.
        preparation: `hetune.variants.runtime.table.PREPARATION` of the variant; may be empty.
        relative_error: Largest difference from the interpreter, as a share of the largest output.
        peak_bytes: Of a run's temporaries, scratch and result.
        drift: How far the reference kernel's time moved over the rounds that count, as a share.
        protocol: That of `PROTOCOLS` when it was measured.
        code_version: hetune's version and commit.
        measured_at: When, in UTC.
        device: What the variant is for: ``"cpu"`` or ``"cuda"``.
        clocks: Of a GPU, in MHz: that of its multiprocessors and of its memory before the rounds,
            and both after them; empty where nothing tells.
    """

    unit: str
    campaign: str
    machine: str
    graph: str
    graph_fingerprint: str
    family: str
    graph_features: tuple[float, ...]
    program: LabeledProgram
    threads: int
    variant: str
    plan: str
    status: Status
    error: str
    samples: tuple[float, ...]
    launches: tuple[LaunchRecord, ...]
    prepare_seconds: float
    preparation: tuple[float, ...]
    relative_error: float
    peak_bytes: int
    drift: float
    protocol: int
    code_version: str
    measured_at: datetime
    device: Device = "cpu"
    clocks: tuple[float, ...] = ()

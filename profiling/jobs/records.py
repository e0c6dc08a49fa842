"""What jobs are, and what workers lease of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hetune.profiling.measure.limits import Limits
from hetune.profiling.units import Unit
from hetune.variants.kernel.device import Device


class State(StrEnum):
    """Where a job is, or a task of it."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether it stays so."""
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is.

    Attributes:
        problems: Problems of the job.
        problems_done: Those that are measured.
        problems_failed: Those that were given up.
        variants: Variants on problems, which is what is measured.
        variants_done: Those whose problem is measured.
    """

    problems: int
    problems_done: int
    problems_failed: int
    variants: int
    variants_done: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job, as it was when it was read.

    Attributes:
        id: Its number; later ones are larger.
        campaign: Name of the campaign, as in the records.
        state: Where it is.
        retrain: Whether a cost model is trained when all is measured.
        machine: Digest of the fingerprint that its workers must have; None until the first worker
            has decided it, where the job named none.
        idempotency_key: What it was submitted under, if anything.
        cancel_requested: Whether it was cancelled; it is still running until workers have noticed.
        progress: How far it is.
        model: Id of the cost model that it trained, in the model registry; None if it has none yet.
        error: Why it failed; empty if it did not.
        created: When it was submitted, in UTC.
        started: When its first task was leased; None if none was yet.
        finished: When it became final; None if it is not.
    """

    id: int
    campaign: str
    state: State
    retrain: bool
    machine: str | None
    idempotency_key: str | None
    cancel_requested: bool
    progress: JobProgress
    model: str | None
    error: str
    created: datetime
    started: datetime | None
    finished: datetime | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """Something that happened to a job; numbers grow in the order of what happened to it."""

    number: int
    when: datetime
    text: str


class Trains(StrEnum):
    """Which cost models a worker trains, beside what it measures."""

    NOTHING = "nothing"
    OWN = "own"
    """Those of jobs that were measured on its own machine."""
    ALL = "all"
    """Those of any machine."""
    ONLY = "only"
    """Those of any machine, and it measures nothing."""


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """To be measured: units of one problem, together.

    Attributes:
        units: What the job asks for.
        limits: What measuring may cost.
        known: Keys of those units that the machine has measured before: these need no measuring.
    """

    units: tuple[Unit, ...]
    limits: Limits
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TrainTask:
    """To be trained: a cost model for the lease's machine, of all that was measured on it.

    Attributes:
        device: What the job's variants, and the model, are for.
    """

    device: Device = "cpu"


@dataclass(frozen=True, slots=True)
class Lease:
    """A task that a worker has for a time, and alone.

    Attributes:
        task: Number of the task.
        job: Number of its job.
        campaign: The job's campaign, for the records.
        token: Grows with every lease of the task: who comes with an older one writes nothing.
        owner: Who has it.
        machine: Digest of its machine's fingerprint; to train, of the machine to train for.
        attempt: Which attempt at the task it is, from 1.
        expires: When it ends unless a heartbeat prolongs it, in UTC.
        work: What is to be done.
    """

    task: int
    job: int
    campaign: str
    token: int
    owner: str
    machine: str
    attempt: int
    expires: datetime
    work: MeasureTask | TrainTask

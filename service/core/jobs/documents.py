"""Profiling jobs as documents."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field, JsonValue

from hetune.profiling.jobs.records import JobProgress, State
from hetune.profiling.jobs.results import MeasuredVariant
from hetune.service.core.formats.documents import Document


class JobRequest(Document):
    """What to measure.

    Attributes:
        campaign: A preset's name, or a campaign as its file would hold it; graphs of files are
            refused.
        models: Names of models, or ``name@alias``: their layers' programs join the campaign's.
        retrain: Train a cost model when all is measured.
        machine: Digest of the fingerprint that workers must have; by default the first worker's.
        idempotency_key: Asking for the same under the same key again gives the same job.
    """

    most_entries: ClassVar[int] = 50_000
    campaign: str | dict[str, JsonValue]
    models: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    retrain: bool = False
    machine: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    idempotency_key: str | None = None


class JobDocument(Document):
    """A job; `hetune.profiling.jobs.records.Job` explains each field."""

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


class JobList(Document):
    """Jobs, the latest first.

    Attributes:
        jobs: One page.
        before: What to ask for to get the next page; None if this is the last one.
    """

    jobs: tuple[JobDocument, ...]
    before: int | None


class JobLine(Document):
    """Something that happened to a job; numbers grow."""

    number: int
    when: datetime
    text: str


class JobLog(Document):
    """What happened to a job, in order.

    Attributes:
        lines: One page.
        after: What to ask for to get what comes next.
    """

    lines: tuple[JobLine, ...]
    after: int


class JobResult(Document):
    """A problem of a job, and what is known of its variants, the fastest first.

    Attributes:
        layer: Label of the program.
        program: Its digest.
        task: Number of the job's task that measures it.
    """

    task: int
    layer: str
    program: str
    d_in: int
    d_out: int
    heads: int
    threads: int
    device: str
    graph: str
    family: str
    state: State
    variants: tuple[MeasuredVariant, ...]


class JobResults(Document):
    """Problems of a job, in the order in which they are measured.

    Attributes:
        results: One page.
        after: What to ask for to get the next page; None if this is the last one.
    """

    results: tuple[JobResult, ...]
    after: int | None

"""Profiling jobs as calls like those of `calls`. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import urlencode
from uuid import uuid4

import httpx

from hetune.clients.http.call import EVENTS, ServiceCall
from hetune.clients.http.wire import check, reads
from hetune.profiling.jobs.records import State
from hetune.service.core.formats.documents import parse, parse_value
from hetune.service.core.jobs.documents import (
    JobDocument,
    JobLine,
    JobList,
    JobLog,
    JobRequest,
    JobResults,
)

Event: TypeAlias = JobDocument | JobLine
"""What may happen to a job: a line of its log, or a change of the job."""
_JOBS = "/v1/profiling/jobs"


def submit(
    campaign: str | Mapping[str, object],
    *,
    models: Sequence[str] = (),
    retrain: bool = False,
    machine: str | None = None,
    idempotency_key: str | None = None,
) -> ServiceCall[JobDocument]:
    """Asks for a campaign to be measured.

    Args:
        campaign: A preset's name, or a campaign as its file would hold it, without files.
        models: Names of models of the service, whose layers' programs join the campaign's.
        retrain: Train a cost model when all is measured.
        machine: Digest of the fingerprint that workers must have; by default the first one's.
        idempotency_key: Asking for the same under the same key again gives the same job; by
            default one is drawn, so that a request which is sent again gives one job.

    Raises:
        CampaignError: The campaign is none, or wants graphs of files.
        TooLargeError: It is over a limit of the service.
        ConflictError: Something else was submitted under the key.
    """
    asked = parse_value(
        JobRequest,
        {
            "campaign": campaign if isinstance(campaign, str) else dict(campaign),
            "models": tuple(models),
            "retrain": retrain,
            "machine": machine,
            "idempotency_key": uuid4().hex if idempotency_key is None else idempotency_key,
        },
    )
    return ServiceCall("POST", _JOBS, reads(JobDocument), asked.model_dump_json().encode())


def list(
    *, state: State | str | None = None, before: int | None = None, limit: int = 100
) -> ServiceCall[JobList]:
    """Jobs, the latest first; `before` of one page asks for the next.

    Args:
        state: Only those that are there.
        before: Only those with smaller numbers.
        limit: Most that are given.
    """
    path = _asking(_JOBS, state=state, before=before, limit=limit)
    return ServiceCall("GET", path, reads(JobList))


def get(id: int) -> ServiceCall[JobDocument]:
    """A job, and how far it is.

    Raises:
        NotFoundError: There is none of that number.
    """
    return ServiceCall("GET", _path(id), reads(JobDocument))


def cancel(id: int) -> ServiceCall[JobDocument]:
    """Cancels a job: what was measured stays.

    Raises:
        NotFoundError: There is none of that number.
    """
    return ServiceCall("DELETE", _path(id), _cancelled)


def log(id: int, *, after: int = 0, limit: int = 1000) -> ServiceCall[JobLog]:
    """What happened to a job, in order; `after` of one page asks for the next.

    Raises:
        NotFoundError: There is none of that number.
    """
    path = _asking(_path(id, "log"), after=after, limit=limit)
    return ServiceCall("GET", path, reads(JobLog))


def results(id: int, *, after: int = 0, limit: int = 20) -> ServiceCall[JobResults]:
    """Times of variants, problem by problem; `after` of one page asks for the next.

    Raises:
        NotFoundError: There is none of that number.
    """
    path = _asking(_path(id, "results"), after=after, limit=limit)
    return ServiceCall("GET", path, reads(JobResults))


def events(id: int, after: int) -> ServiceCall[None]:
    """Asks for a stream of events, which is to be read as it comes; `JobWatch` does."""
    path = _asking(_path(id, "events"), after=after)
    return ServiceCall("GET", path, _no_stream, accept=EVENTS)


def _cancelled(response: httpx.Response) -> JobDocument:
    check(response)  # A cancelled job stays: if it is not found, no earlier try has cancelled it.
    return parse(JobDocument, response.content)


def _no_stream(response: httpx.Response) -> None:
    raise ValueError(f"it is no stream of events: {response.headers.get('Content-Type', '')!r}")


def _path(id: int, *names: str) -> str:
    return "/".join((_JOBS, str(id), *names))


def _asking(path: str, **wanted: str | int | None) -> str:
    given = {name: value for name, value in wanted.items() if value is not None}
    return f"{path}?{urlencode(given)}"

"""Routes of profiling jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from hetune.profiling.jobs.database import LARGEST_ID
from hetune.profiling.jobs.queue import MOST_LISTED
from hetune.profiling.jobs.records import State
from hetune.profiling.jobs.results import MOST_RESULTS
from hetune.service.core.formats.documents import parse
from hetune.service.core.jobs.documents import (
    JobDocument,
    JobList,
    JobLog,
    JobRequest,
    JobResults,
)
from hetune.service.http.body import Media, media_of
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.routes.events import MEDIA_TYPE, EventStream, job_events
from hetune.service.http.schema import takes
from hetune.variants.errors import InputError, MalformedError

After = Annotated[int, Query(ge=0, le=LARGEST_ID)]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/profiling/jobs", tags=["profiling"])
    jobs, limits = work.service.jobs, work.service.limits

    @routes.post("", status_code=201, openapi_extra=takes(JobRequest))
    async def submit_job(
        request: Request,
        response: Response,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> JobDocument:
        """Asks for a campaign to be measured."""
        media_of(request, Media.JSON)
        work.changing.check()
        async with work.body(request, limits.json_bytes) as body, work.changing.turn():
            job = await work.change_in_database(
                lambda: jobs.submit(_under(parse(JobRequest, bytes(body)), idempotency_key))
            )
        response.headers["Location"] = f"/v1/profiling/jobs/{job.id}"
        return job

    @routes.get("")
    async def list_jobs(
        state: State | None = None,
        before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
    ) -> JobList:
        """Jobs, the latest first, page by page."""
        return await work.in_database(lambda: jobs.list(state=state, before=before, limit=limit))

    @routes.get("/{id}")
    async def get_job(id: int) -> JobDocument:
        """A job, and how far it is."""
        return await work.in_database(lambda: jobs.get(id))

    @routes.delete("/{id}")
    async def cancel_job(id: int) -> JobDocument:
        """Cancels a job: what was measured stays, and what is being measured is finished."""
        return await work.in_database(lambda: jobs.cancel(id))

    @routes.get("/{id}/log")
    async def job_log(
        id: int, after: After = 0, limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED
    ) -> JobLog:
        """What happened to a job, in order, page by page."""
        return await work.in_database(lambda: jobs.log(id, after=after, limit=limit))

    @routes.get("/{id}/results")
    async def job_results(
        id: int, after: After = 0, limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = 20
    ) -> JobResults:
        """What is known of a job's problems, page by page."""
        return await work.in_database(lambda: jobs.results(id, after=after, limit=limit))

    @routes.get(
        "/{id}/events",
        response_class=Response,
        responses={
            200: {"content": {MEDIA_TYPE: {}}},
            204: {"description": "All was told already: ask no more."},
        },
    )
    async def watch_job(
        id: int,
        request: Request,
        after: After = 0,
        last_event_id: Annotated[str, Header(json_schema_extra={"pattern": "^[0-9]{0,18}$"})] = "",
    ) -> Response:
        """A job's log and state as they change, until the job ends (server-sent events)."""
        seen = _last_line(last_event_id)
        after = after if seen is None else seen
        job = await work.in_database(lambda: jobs.get(id))
        news = await work.in_database(lambda: jobs.log(id, after=after, limit=1))
        if seen is not None and job.state.is_final and not news.lines:
            return Response(status_code=204)
        return EventStream(job_events(work, id, after, request.is_disconnected), work.watching)

    return routes


def _under(asked: JobRequest, key: str | None) -> JobRequest:
    """With the key that stands in the header, if one does."""
    if key is None:
        return asked
    if asked.idempotency_key not in (None, key):
        raise InputError("there are two idempotency keys: give the header or the field")
    return asked.model_copy(update={"idempotency_key": key})


def _last_line(last_event_id: str) -> int | None:
    """The last line of the log that a client has, where it says so."""
    if not last_event_id:
        return None
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 19):
        raise MalformedError("Last-Event-ID is none of this stream's: send the last event's id")
    return int(last_event_id)

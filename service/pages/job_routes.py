"""Pages of profiling jobs, and the events that keep one up to date."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import RedirectResponse

from hetune.profiling.campaign import PRESETS
from hetune.profiling.jobs.database import LARGEST_ID
from hetune.profiling.jobs.records import State
from hetune.service.core.formats.documents import parse_value
from hetune.service.core.jobs.documents import JobRequest
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.routes.events import EventStream, job_events
from hetune.service.pages.forms import read_form
from hetune.service.pages.render import page
from hetune.variants.errors import MalformedError

_SEE_OTHER = 303
_LISTED = 25
_LINES = 200
_RESULTS = 10
_KEY_BYTES = 16
Number = Annotated[int, Query(ge=0, le=LARGEST_ID)]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/ui/jobs", include_in_schema=False)
    jobs, limits, models = work.service.jobs, work.service.limits, work.service.cost_models

    @routes.get("")
    async def list_jobs(
        request: Request,
        state: str = "",
        before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
    ) -> Response:
        """Jobs, the latest first, and a form to submit one."""
        if state not in ("", *State):
            raise MalformedError(f"state: take one of {', '.join(State)}")
        wanted = State(state) if state else None

        def look() -> Response:
            return page(
                request,
                "jobs",
                found=jobs.list(state=wanted, before=before, limit=_LISTED),
                state=state,
                states=tuple(State),
                presets=PRESETS,
                models=models.ids(),
                key=secrets.token_hex(_KEY_BYTES),
            )

        return await work.in_database(look)

    @routes.post("")
    async def submit_job(request: Request) -> Response:
        """Asks for a preset to be measured; a form that is sent twice asks once."""
        form = await read_form(request, limits)
        asked = {
            "campaign": form.one_of("preset", PRESETS),
            "retrain": form.is_set("retrain"),
            "machine": form.text("machine") or None,
            "idempotency_key": form.text("idempotency_key") or None,
        }
        with work.changing.entered():
            job = await work.change_in_database(lambda: jobs.submit(parse_value(JobRequest, asked)))
        return RedirectResponse(f"/ui/jobs/{job.id}", _SEE_OTHER)

    @routes.get("/{id}")
    async def show_job(id: int, request: Request, results_after: Number = 0) -> Response:
        """A job: how far it is, what happened to it, and what came of it."""

        def look() -> Response:
            job = jobs.get(id)
            log, left_out = jobs.log_end(id, limit=_LINES)
            return page(
                request,
                "job",
                job=job,
                models=models.ids(),
                lines=log.lines,
                left_out=left_out,
                told=log.after,
                results=jobs.results(id, after=results_after, limit=_RESULTS),
                is_first=results_after == 0,
            )

        return await work.in_database(look)

    @routes.post("/{id}/cancel")
    async def cancel_job(id: int) -> Response:
        """Ends a job; what was measured stays."""
        await work.in_database(lambda: jobs.cancel(id))
        return RedirectResponse(f"/ui/jobs/{id}", _SEE_OTHER)

    @routes.get("/{id}/events")
    async def watch_job(
        id: int,
        request: Request,
        after: Number = 0,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """What the page of a job listens to: the stream of the API, for who has a session.

        A page that comes again has not seen how the job ended, or it would not: it is told.
        """
        if last_event_id and last_event_id.isascii() and last_event_id.isdecimal():
            after = min(int(last_event_id[:18]), LARGEST_ID)
        await work.in_database(lambda: jobs.get(id))  # or there is no such job
        return EventStream(job_events(work, id, after, request.is_disconnected), work.watching)

    return routes

"""A job's log and state as they change, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from fastapi.responses import StreamingResponse

from hetune.service.core.formats.documents import Document
from hetune.service.core.jobs.documents import JobDocument
from hetune.service.http.asgi import Receive, Scope, Send
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.gate import Gate
from hetune.variants.errors import HetuneError, StoreError

MEDIA_TYPE = "text/event-stream"
LOG_EVENT, JOB_EVENT = "log", "job"
MOST_SECONDS = 3600.0
"""A stream ends after so long, whatever its job does; who asks again gets what follows."""
_LOOK_SECONDS = 0.5
_QUIET_SECONDS = 15.0
_PAGE = 1000
_COMMENT = b": still here\n\n"
_log = logging.getLogger(__name__)


class EventStream(StreamingResponse):
    """A stream of events, within a gate.

    Args:
        events: As bytes.
        gate: Entered while the stream lasts; a `BusyError` where it is full.
    """

    def __init__(self, events: AsyncIterator[bytes], gate: Gate) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type=MEDIA_TYPE)
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        with self._gate.entered():
            await super().__call__(scope, receive, send)


async def job_events(
    work: Dispatcher, id: int, after: int, left: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """What happens to a job: `log` for each line, `job` for each change of its state and progress.

    Ends with the job: the last event is the `job` that says how it ended.

    Args:
        work: Of the service that has the job.
        id: Its number.
        after: Only lines of the log with larger numbers, which are the events' ids.
        left: Whether the client has.
    """
    jobs, stopping = work.service.jobs, work.stopping
    until = time.monotonic() + MOST_SECONDS
    said: JobDocument | None = None
    last = time.monotonic()
    try:
        while time.monotonic() < until and not stopping.is_set() and not await left():
            # First the state: what is in the log when a job has ended is all that there will be.
            job = await work.in_database(partial(jobs.get, id))
            page = await work.in_database(partial(jobs.log, id, after=after, limit=_PAGE))
            for line in page.lines:
                yield _event(LOG_EVENT, line, line.number)
            after = page.after
            has_more = len(page.lines) == _PAGE
            if job != said and not has_more:
                yield _event(JOB_EVENT, job)
            if page.lines or job != said:
                last = time.monotonic()
            elif time.monotonic() - last > _QUIET_SECONDS:
                yield _COMMENT
                last = time.monotonic()
            if has_more:
                continue
            if job.state.is_final:
                return
            said = job
            await asyncio.sleep(_LOOK_SECONDS)
    except StoreError:  # the log has it already
        return
    except HetuneError as error:
        _log.warning("the events of job %d end early: %s", id, error)


def _event(kind: str, document: Document, number: int | None = None) -> bytes:
    # In ASCII: some readers end a line at U+2028, too.
    lines = [f"event: {kind}", f"data: {json.dumps(document.model_dump(mode='json'))}"]
    if number is not None:
        lines.insert(0, f"id: {number}")
    return ("\n".join(lines) + "\n\n").encode()

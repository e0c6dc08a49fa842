"""A job that is watched over streams that break and end."""

from datetime import UTC, datetime

import httpx
import pytest
from tests.clients._both import KINDS, Script, connected

from hetune.profiling.jobs.records import State
from hetune.service.core.jobs.documents import JobDocument, JobLine, JobProgress
from hetune.variants import errors

URL = "http://service"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
COMMENT = ": still here\n\n"


class Stream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A text, and how it ends."""

    def __init__(self, text, error):
        self._text, self._error = text, error

    def __iter__(self):
        yield self._text.encode()
        if self._error is not None:
            raise self._error

    async def __aiter__(self):
        for piece in self:
            yield piece


def said(*events, error=None):
    text = "".join(event if isinstance(event, str) else written(event) for event in events)
    headers = {"Content-Type": "text/event-stream; charset=utf-8"}
    return httpx.Response(200, headers=headers, stream=Stream(text, error))


def written(event):
    kind = f"id: {event.number}\nevent: log" if isinstance(event, JobLine) else "event: job"
    return f"{kind}\ndata: {event.model_dump_json()}\n\n"


def job(done, state=State.RUNNING):
    counts = {"problems_failed": 0, "variants": 6, "variants_done": 3 * done}
    return JobDocument(
        id=7,
        campaign="mine",
        state=state,
        retrain=False,
        machine=None,
        idempotency_key=None,
        cancel_requested=False,
        progress=JobProgress(problems=2, problems_done=done, **counts),
        model=None,
        error="",
        created=NOW,
        started=NOW,
        finished=None,
    )


def line(number):
    return JobLine(number=number, when=NOW, text="measured")


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_where_it_was(kind, clock):
    lost, done = httpx.ReadError("reset"), job(2, State.SUCCEEDED)
    script = Script(
        said(line(1), job(0), error=lost),
        httpx.ConnectError("refused"),
        said(line(2), job(0), job(1), written(line(3))[:-9]),
        said(COMMENT, job(1)),
        said(job(1), COMMENT, error=lost),
        said(line(3), done, error=lost),
    )
    with connected(kind, URL, transport=script.transport, retries=2) as client:
        events = list(client.jobs.watch(7))
    assert events == [line(1), job(0), line(2), job(1), line(3), done]
    assert [request.url.params["after"] for request in script.requests] == list("011222")
    assert clock.waits == [0.25, 0.5, 0, 0, 0.25, 0]


PROBLEM = {"type": "urn:hetune:error:NotFoundError", "detail": "there is no job 7"}


@pytest.mark.parametrize(
    ("outcome", "error", "says", "tries"),
    [
        (said(job(0)), errors.UnreachableError, "ended at once; tried 2 times", 3),
        (said(error=httpx.ReadError("reset")), errors.UnreachableError, "reset; tried 2 times", 2),
        (said(error=httpx.ReadTimeout("slow")), errors.UnreachableError, "slow", 1),
        (httpx.Response(404, json=PROBLEM), errors.NotFoundError, "no job 7", 1),
        (httpx.Response(200, text="a page"), errors.UnreachableError, "no stream of events", 1),
        (said("event: job\ndata: {}\n\n"), errors.MalformedError, "campaign", 1),
    ],
    ids=["silent", "lost", "slow", "refused", "foreign", "malformed"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_ends_it(kind, clock, outcome, error, says, tries):
    script = Script(outcome)
    with (
        connected(kind, URL, transport=script.transport, retries=1) as client,
        pytest.raises(error, match=says),
    ):
        list(client.jobs.watch(7))
    assert len(script.requests) == tries

"""A job that is watched: what to ask for, what is heard, and when to ask again. No IO."""

from __future__ import annotations

import httpx

from hetune.clients.http import job_calls
from hetune.clients.http.call import EVENTS, ServiceCall
from hetune.clients.http.job_calls import Event
from hetune.clients.http.retries import CallAttempts, Outcome
from hetune.service.core.formats.documents import parse
from hetune.service.core.jobs.documents import JobDocument, JobLine

_OK = 200


class JobWatch:
    """What a client has heard of a job, over as many streams of events as it takes.

    Args:
        id: The job's number.
        after: Only lines of its log with larger numbers.
        url: Of the service.
        retries: How often a stream is asked for again while there is no news.
    """

    def __init__(self, id: int, after: int, url: httpx.URL, retries: int) -> None:
        self._id, self._after, self._url, self._retries = id, after, url, retries
        self._job: JobDocument | None = None
        self._kind = self._data = ""
        self._is_silent = True
        self._attempts: CallAttempts[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and all was heard of it."""
        return self._job is not None and self._job.state.is_final

    def ask(self) -> ServiceCall[None]:
        """Asks for a stream of what was not heard yet."""
        self._kind = self._data = ""
        self._is_silent = True
        return self._call

    def takes(self, response: httpx.Response) -> bool:
        """Whether an answer, of which the head is read, is a stream of events."""
        kind = response.headers.get("Content-Type", "")
        return response.status_code == _OK and kind.startswith(EVENTS)

    def event(self, line: str) -> Event | None:
        """The event that ends with a line of a stream, if one does and it is news.

        Raises:
            MalformedError: It is none.
        """
        name, _, value = line.partition(": ")
        found = None
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data = value
        elif not line and self._data:
            found, self._data = self._news(self._data), ""
        if found is not None or line.startswith(":"):  # a comment says that there is no news yet
            self._is_silent, self._attempts = False, None
        return found

    def pause(self, outcome: Outcome | None) -> float:
        """Seconds until a stream is asked for again, if one is.

        Args:
            outcome: What became of the last one; None where it ended by itself, as every stream
                does after a while.

        Raises:
            HetuneError: The service answered with it, and it lasts.
            UnreachableError: There was no answer, or one of something else.
        """
        if self.is_over or (outcome is None and not self._is_silent):
            return 0.0
        if outcome is None:
            outcome = httpx.RemoteProtocolError("a stream of events ended at once")
        self._attempts = self._attempts or CallAttempts(self._call, self._url, self._retries)
        pause = self._attempts.pause(outcome)
        if pause is None:
            self._attempts.result(outcome)
        return pause or 0.0

    @property
    def _call(self) -> ServiceCall[None]:
        return job_calls.events(self._id, self._after)

    def _news(self, data: str) -> Event | None:
        if self._kind == "log":
            line = parse(JobLine, data)
            self._after = line.number
            return line
        job = parse(JobDocument, data)
        if job == self._job:  # as every stream begins
            return None
        self._job = job
        return job

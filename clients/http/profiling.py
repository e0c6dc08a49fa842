"""Profiling jobs and cost models of a service, as the client shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import quote

import httpx

from hetune.clients.http.wire import check, unreachable
from hetune.profiling.jobs.records import State
from hetune.service.core.cost_model_documents import (
    CostModelDocument,
    CostModelList,
    PromotedModel,
    RolledBack,
)
from hetune.service.core.documents import Document, parse, parse_value
from hetune.service.core.job_documents import (
    JobDocument,
    JobLine,
    JobList,
    JobLog,
    JobRequest,
    JobResults,
)

D = TypeVar("D", bound=Document)
_JOBS = "/v1/profiling/jobs"
_MODELS = "/v1/cost-models"
_JSON = {"Content-Type": "application/json"}


class JobsClient:
    """Profiling jobs. Every method also raises `UnreachableError` where no service answers.

    Args:
        http: The client's connections.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def submit(
        self,
        campaign: str | Mapping[str, object],
        *,
        retrain: bool = False,
        machine: str | None = None,
        idempotency_key: str | None = None,
    ) -> JobDocument:
        """Asks for a campaign to be measured.

        Args:
            campaign: A preset's name, or a campaign as its file would hold it, without files.
            retrain: Train a cost model when all is measured.
            machine: Digest of the fingerprint that workers must have; by default the first one's.
            idempotency_key: Asking for the same under the same key again gives the same job.

        Raises:
            CampaignError: The campaign is none, or wants graphs of files.
            TooLargeError: It is over a limit of the service.
            ConflictError: Something else was submitted under the key.
        """
        asked = parse_value(
            JobRequest,
            {
                "campaign": campaign if isinstance(campaign, str) else dict(campaign),
                "retrain": retrain,
                "machine": machine,
                "idempotency_key": idempotency_key,
            },
        )
        body = asked.model_dump_json().encode()
        with _answers(self._http):
            found = self._http.post(_JOBS, content=body, headers=_JSON)
        return _read(JobDocument, found)

    def list(
        self, *, state: State | str | None = None, before: int | None = None, limit: int = 100
    ) -> JobList:
        """Jobs, the latest first; `before` of one page asks for the next.

        Args:
            state: Only those that are there.
            before: Only those with smaller numbers.
            limit: Most that are given.
        """
        wanted: dict[str, str | int | None] = {"state": state, "before": before, "limit": limit}
        return _get(self._http, JobList, _JOBS, wanted)

    def get(self, id: int) -> JobDocument:
        """A job, and how far it is.

        Raises:
            NotFoundError: There is none of that number.
        """
        return _get(self._http, JobDocument, f"{_JOBS}/{id}")

    def cancel(self, id: int) -> JobDocument:
        """Cancels a job: what was measured stays.

        Raises:
            NotFoundError: There is none of that number.
        """
        with _answers(self._http):
            found = self._http.delete(f"{_JOBS}/{id}")
        return _read(JobDocument, found)

    def log(self, id: int, *, after: int = 0, limit: int = 1000) -> JobLog:
        """What happened to a job, in order; `after` of one page asks for the next.

        Raises:
            NotFoundError: There is none of that number.
        """
        return _get(self._http, JobLog, f"{_JOBS}/{id}/log", {"after": after, "limit": limit})

    def results(self, id: int, *, after: int = 0, limit: int = 20) -> JobResults:
        """Times of variants, problem by problem; `after` of one page asks for the next.

        Raises:
            NotFoundError: There is none of that number.
        """
        wanted = {"after": after, "limit": limit}
        return _get(self._http, JobResults, f"{_JOBS}/{id}/results", wanted)

    def watch(self, id: int, *, after: int = 0) -> Iterator[JobDocument | JobLine]:
        """What happens to a job, as it happens: lines of its log, and the job when it changes.

        Ends with the job; what comes last is the job as it ended.

        Args:
            id: Its number.
            after: Only lines with larger numbers.

        Raises:
            NotFoundError: There is none of that number.
            BusyError: Too many watch.
        """
        while True:
            for event in self._events(id, after):
                yield event
                if isinstance(event, JobLine):
                    after = event.number
                elif event.state.is_final:
                    return

    def _events(self, id: int, after: int) -> Iterator[JobDocument | JobLine]:
        """Those of one stream, which the service ends after a while."""
        with (
            _answers(self._http),
            self._http.stream("GET", f"{_JOBS}/{id}/events", params={"after": after}) as stream,
        ):
            if stream.is_error:
                stream.read()
            check(stream)
            kind = ""
            for line in stream.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield parse(JobLine, value) if kind == "log" else parse(JobDocument, value)


class CostModelsClient:
    """Cost models, by id or alias. Every method also raises `UnreachableError`.

    Args:
        http: The client's connections.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def list(self) -> CostModelList:
        """All of them, which are candidate and champion, and the history of that."""
        return _get(self._http, CostModelList, _MODELS)

    def get(self, name: str) -> CostModelDocument:
        """One of them.

        Raises:
            NotFoundError: There is none of that name.
        """
        return _get(self._http, CostModelDocument, f"{_MODELS}/{quote(name, safe='')}")

    def card(self, name: str) -> str:
        """The page about it, as HTML.

        Raises:
            NotFoundError: There is no such model, or no page about it.
        """
        with _answers(self._http):
            found = self._http.get(f"{_MODELS}/{quote(name, safe='')}/card")
        check(found)
        return found.text

    def promote(self, name: str = "candidate", *, machine: str | None = None) -> PromotedModel:
        """Makes it the champion, unless it loses.

        Args:
            name: Id or alias.
            machine: Digest of the machine whose measurements it is judged on; by default that
                which it was trained on.

        Raises:
            NotFoundError: There is no such model.
            PromotionError: It loses, or there is nothing to judge it on.
        """
        path = f"{_MODELS}/{quote(name, safe='')}/promote"
        with _answers(self._http):
            found = self._http.post(path, params={} if machine is None else {"machine": machine})
        return _read(PromotedModel, found)

    def rollback(self) -> str | None:
        """Makes the champion before the present one the champion again; its id.

        Returns:
            None where it is the model in the package.

        Raises:
            PromotionError: There is no champion.
        """
        with _answers(self._http):
            found = self._http.post(f"{_MODELS}/rollback")
        return _read(RolledBack, found).champion


@contextmanager
def _answers(http: httpx.Client) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise unreachable(error, http.base_url, tries=1) from error


def _get(
    http: httpx.Client,
    kind: type[D],
    path: str,
    wanted: Mapping[str, str | int | None] | None = None,
) -> D:
    given = {name: value for name, value in (wanted or {}).items() if value is not None}
    with _answers(http):
        found = http.get(path, params=given)
    return _read(kind, found)


def _read(kind: type[D], response: httpx.Response) -> D:
    check(response)
    return parse(kind, response.content)

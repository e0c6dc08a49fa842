"""Profiling jobs: submitted, watched, cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetune.costmodel.fingerprint import is_digest
from hetune.profiling.jobs.queue import MOST_LISTED
from hetune.profiling.jobs.records import Job, LogLine, State
from hetune.profiling.jobs.results import MOST_RESULTS, Result, results
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.jobs.campaigns import campaign_of
from hetune.service.core.jobs.documents import (
    JobDocument,
    JobLine,
    JobList,
    JobLog,
    JobRequest,
    JobResult,
    JobResults,
)
from hetune.service.core.jobs.measurements import Measurements
from hetune.service.core.models.models import ModelStore
from hetune.variants.errors import CampaignError, InputError
from hetune.variants.program.text import show


class Jobs:
    """The jobs of the service's store.

    Every method also raises `StoreError` where the database cannot be used.

    Args:
        measurements: Where they are.
        limits: What campaigns may ask for.
        models: Whose programs may be measured.
    """

    def __init__(
        self, measurements: Measurements, limits: ServiceLimits, models: ModelStore
    ) -> None:
        self._measurements, self._limits, self._models = measurements, limits, models

    def submit(self, request: JobRequest) -> JobDocument:
        """Asks for a campaign to be measured.

        Raises:
            CampaignError: It is none, has nothing to measure, or wants graphs of files; or the key
                is none.
            TooLargeError: It is over a limit.
            InputError: The machine is no digest, or a name holds a control character.
            ConflictError: Something else was submitted under the key.
            NotFoundError: There is no such model.
        """
        if request.machine is not None and not is_digest(request.machine):
            raise InputError(
                f"the machine {request.machine[:64]!r} is no digest of a fingerprint, which has 16 "
                "digits, 0-9 and a-f: `hetune models` shows them"
            )
        campaign = campaign_of(self._asked(request), self._limits)
        job = self._measurements.queue.submit(
            campaign,
            retrain=request.retrain,
            machine=request.machine,
            idempotency_key=request.idempotency_key,
        )
        return _document(job)

    def _asked(self, request: JobRequest) -> str | Mapping[str, object]:
        """The campaign, with the programs of models."""
        asked = request.campaign
        if not request.models:
            return asked
        if isinstance(asked, str):
            raise CampaignError(
                f"models are measured on graphs of a campaign of their own, not of {asked[:64]!r}: "
                "give a campaign with graphs"
            )
        own = asked.get("programs", [])
        if not isinstance(own, Sequence) or isinstance(own, str):
            raise CampaignError("the campaign's programs are no list: give one")
        programs = [
            {"name": f"{name}/{number}", "text": show(module.program())}
            for name in request.models
            for number, module in enumerate(self._models.get(name).modules)
        ]
        return {**asked, "programs": [*own, *programs]}

    def list(
        self, *, state: State | None = None, before: int | None = None, limit: int = 100
    ) -> JobList:
        """Jobs, the latest first.

        Args:
            state: Only those that are there.
            before: Only those with smaller numbers.
            limit: Most that are given.
        """
        limit = min(limit, MOST_LISTED)
        found = self._measurements.queue.list(state=state, before=before, limit=limit)
        return JobList(
            jobs=tuple(map(_document, found)),
            before=found[-1].id if len(found) == limit else None,
        )

    def get(self, id: int) -> JobDocument:
        """A job.

        Raises:
            NotFoundError: There is none of that number.
        """
        return _document(self._measurements.queue.get(id))

    def cancel(self, id: int) -> JobDocument:
        """Ends a job; what was measured stays. What is final does not change.

        Raises:
            NotFoundError: There is none of that number.
        """
        return _document(self._measurements.queue.cancel(id))

    def log(self, id: int, *, after: int = 0, limit: int = MOST_LISTED) -> JobLog:
        """What happened to a job.

        Args:
            id: Its number.
            after: Only lines with larger numbers.
            limit: Most that are given.

        Raises:
            NotFoundError: There is none of that number.
        """
        return _log(self._measurements.queue.log(id, after=after, limit=limit), after)

    def log_end(self, id: int, *, limit: int = MOST_LISTED) -> tuple[JobLog, int]:
        """The last of what happened to a job, and how many lines came before.

        Args:
            id: Its number.
            limit: Most lines that are given.

        Raises:
            NotFoundError: There is none of that number.
        """
        found, before = self._measurements.queue.log_end(id, limit=limit)
        return _log(found, after=0), before

    def results(self, id: int, *, after: int = 0, limit: int = 20) -> JobResults:
        """What is known of a job's problems.

        Args:
            id: Its number.
            after: Only tasks with larger numbers.
            limit: Most that are given.

        Raises:
            NotFoundError: There is none of that number.
        """
        limit = min(limit, MOST_RESULTS)
        found = results(self._measurements.store, id, after=after, limit=limit)
        return JobResults(
            results=tuple(map(_result, found)),
            after=found[-1].task if len(found) == limit else None,
        )


def _document(job: Job) -> JobDocument:
    return JobDocument.model_validate(job, from_attributes=True)


def _log(found: Sequence[LogLine], after: int) -> JobLog:
    lines = tuple(JobLine(number=line.number, when=line.when, text=line.text) for line in found)
    return JobLog(lines=lines, after=lines[-1].number if lines else after)


def _result(found: Result) -> JobResult:
    problem = found.problem
    return JobResult(
        task=found.task,
        layer=problem.program.label,
        program=problem.program.digest,
        d_in=problem.program.d_in,
        d_out=problem.program.d_out,
        heads=problem.program.heads,
        threads=problem.threads,
        device=problem.device,
        graph=problem.graph.name,
        family=problem.graph.family,
        state=found.state,
        variants=found.variants,
    )

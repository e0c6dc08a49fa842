"""The queue of jobs, for those who want something measured."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, func, select

from hetune.profiling.campaign import Campaign, each_unit
from hetune.profiling.jobs.database import Database, add_log_line, one_job, update_state
from hetune.profiling.jobs.records import Job, JobProgress, LogLine, State
from hetune.profiling.measure.limits import Limits
from hetune.profiling.store.job_tables import jobs, log, tasks
from hetune.profiling.store.rows import clean
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.errors import CampaignError, ConflictError

MOST_LISTED = 1000
_Members: TypeAlias = dict[ProblemSpec, list[tuple[str, str]]]
"""Variants of problems, by id, and the digests of their code."""
_KEY = re.compile(r"[!-~]{1,200}")


class JobQueue:
    """Submits, shows and cancels jobs. Safe with many threads and processes at once.

    Args:
        store: Where measurements are; jobs are in the same database. It stays the caller's.
        clock: Tells the time in UTC; by default the database's.

    Every method also raises `StoreError` where the database fails.
    """

    def __init__(self, store: Store, *, clock: Callable[[], datetime] | None = None) -> None:
        self._database = Database(store, clock)

    def submit(
        self,
        campaign: Campaign,
        *,
        retrain: bool = False,
        machine: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Asks for a campaign to be measured.

        Args:
            campaign: What to measure. What is known of a machine already is not measured again.
            retrain: Train a cost model when all is measured.
            machine: Digest of the fingerprint that workers must have; by default whatever the
                first worker has. A job is never measured on machines that differ.
            idempotency_key: Submitting the same under the same key again gives the same job.

        Raises:
            CampaignError: The campaign has nothing to measure, the key is no such key, or a text
                is none that databases keep.
            ConflictError: Something else was submitted under the key.
        """
        return self.submit_units(
            campaign.name,
            each_unit(campaign),
            limits=campaign.limits,
            retrain=retrain,
            machine=machine,
            idempotency_key=idempotency_key,
        )

    def submit_units(
        self,
        campaign: str,
        wanted: Iterable[Unit],
        *,
        limits: Limits | None = None,
        retrain: bool = False,
        machine: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """As `submit`, for units that are known already.

        Args:
            campaign: A name, for the records.
            wanted: What to measure; one that comes twice is measured once.
            limits: What measuring may cost.
            retrain: As in `submit`.
            machine: Likewise.
            idempotency_key: Likewise.
        """
        limits, campaign = limits or Limits(), clean(campaign)
        keys: set[str] = set()
        members: _Members = {}
        for problem, group in groupby(wanted, attrgetter("problem")):
            given = {unit.key: (unit.variant, unit.plan) for unit in group}
            new = {key: member for key, member in given.items() if key not in keys}
            keys.update(new)
            if new:
                members.setdefault(problem, []).extend(new.values())
        if not members:
            raise CampaignError(f"the campaign {campaign!r} has nothing to measure: no job is made")
        for graph in dict.fromkeys(problem.graph for problem in members):
            texts = (graph.name, graph.family, *(value for _, value in graph.options))
            _check_texts(f"the graph {graph.name!r}", texts)
        _check_texts("the job's machine", [machine])
        if retrain and len({problem.device for problem in members}) > 1:
            raise CampaignError(
                f"the campaign {campaign!r} has units for several devices, and a cost model is for "
                "one: submit a job for each"
            )
        if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
            raise CampaignError("take an idempotency key of 1 to 200 visible ASCII characters")
        digest = _digest([campaign, asdict(limits), retrain, machine], keys)
        rows: list[dict[str, Any]] = [
            {"is_training": False, "problem": asdict(p), "variants": found, "size": len(found)}
            for p, found in members.items()
        ]
        if retrain:
            rows.append({"is_training": True, "problem": None, "variants": [], "size": 0})
        with self._database.transaction(exclusive=True) as connection:
            known = None
            if idempotency_key is not None:
                same_key = select(jobs).where(jobs.c.idempotency_key == idempotency_key)
                known = connection.execute(same_key).first()
            if known is not None:
                if known.digest != digest:
                    raise ConflictError(
                        f"job {known.id} was submitted under this idempotency key, and asks for "
                        "something else: take another key"
                    )
                return _job(connection, known)
            now = self._database.now(connection)
            job: int = connection.execute(
                jobs.insert().returning(jobs.c.id),
                {
                    "campaign": campaign,
                    "digest": digest,
                    "limits": asdict(limits),
                    "retrain": retrain,
                    "machine": machine,
                    "idempotency_key": idempotency_key,
                    "created": now,
                },
            ).scalar_one()
            connection.execute(tasks.insert(), [{**row, "job": job} for row in rows])
            what = f"{_counted(len(keys), 'variant')} of {_counted(len(members), 'problem')}"
            add_log_line(connection, job, now, f"submitted: {what}")
            return _job(connection, one_job(connection, job))

    def get(self, job: int) -> Job:
        """A job.

        Raises:
            NotFoundError: There is none of that number.
        """
        with self._database.store.reading() as connection:
            return _job(connection, one_job(connection, job))

    def list(
        self, *, state: State | None = None, before: int | None = None, limit: int = 100
    ) -> tuple[Job, ...]:
        """Jobs, the latest first.

        Args:
            state: Only those that are there.
            before: Only those with smaller numbers: the last one of the page before.
            limit: Most that are given.
        """
        wanted = select(jobs).order_by(jobs.c.id.desc()).limit(min(limit, MOST_LISTED))
        if state is not None:
            wanted = wanted.where(jobs.c.state == state.value)
        if before is not None:
            wanted = wanted.where(jobs.c.id < before)
        with self._database.store.reading() as connection:
            return tuple(_job(connection, row) for row in connection.execute(wanted).all())

    def counts(self) -> dict[State, int]:
        """How many jobs there are in each state; in one query."""
        wanted = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        with self._database.store.reading() as connection:
            found = {State(state): count for state, count in connection.execute(wanted)}
        return {state: found.get(state, 0) for state in State}

    def log(self, job: int, *, after: int = 0, limit: int = MOST_LISTED) -> tuple[LogLine, ...]:
        """What happened to a job, in order.

        Args:
            job: Its number.
            after: Only lines with larger numbers.
            limit: Most that are given.

        Raises:
            NotFoundError: There is no such job.
        """
        wanted = select(log).where(log.c.job == job, log.c.id > after).order_by(log.c.id)
        with self._database.store.reading() as connection:
            one_job(connection, job)
            rows = connection.execute(wanted.limit(min(limit, MOST_LISTED))).all()
        return tuple(LogLine(row.id, row.moment, row.line) for row in rows)

    def log_end(self, job: int, *, limit: int = MOST_LISTED) -> tuple[tuple[LogLine, ...], int]:
        """The last of what happened to a job, in order, and how many lines came before.

        Args:
            job: Its number.
            limit: Most lines that are given.

        Raises:
            NotFoundError: There is no such job.
        """
        columns = (log, func.count().over().label("total"))
        wanted = select(*columns).where(log.c.job == job).order_by(log.c.id.desc())
        with self._database.store.reading() as connection:
            one_job(connection, job)
            rows = connection.execute(wanted.limit(min(limit, MOST_LISTED))).all()
        lines = tuple(LogLine(row.id, row.moment, row.line) for row in reversed(rows))
        return lines, rows[0].total - len(lines) if rows else 0

    def cancel(self, job: int) -> Job:
        """Ends a job: at once if nothing of it is being measured, else when its workers notice.

        What was measured stays. Cancelling what is final changes nothing.

        Raises:
            NotFoundError: There is no such job.
        """
        with self._database.transaction() as connection:
            row = one_job(connection, job, locked=True)
            if not State(row.state).is_final and not row.cancel_requested:
                now = self._database.now(connection)
                change = jobs.update().where(jobs.c.id == job)
                connection.execute(change.values(cancel_requested=True))
                add_log_line(connection, job, now, "asked to be cancelled")
                update_state(connection, one_job(connection, job), now)
            return _job(connection, one_job(connection, job))


def _check_texts(what: str, texts: Iterable[object]) -> None:
    """PostgreSQL, asked for work, fails at rows with other texts, whichever it then takes."""
    if any(isinstance(text, str) and clean(text) != text for text in texts):
        raise CampaignError(
            f"{what} has a text that databases refuse: leave out zeros and halves of characters"
        )


def _digest(facts: list[Any], keys: Iterable[str]) -> str:
    """SHA-256 of the JSON of facts and, as the last of them, all keys in order.

    Part by part: other threads wait while a hundred thousand keys are sorted at once.
    """
    parts: dict[str, list[str]] = {}
    for key in keys:
        parts.setdefault(key[:2], []).append(key)
    found, separator = hashlib.sha256(json.dumps(facts)[:-1].encode() + b", ["), ""
    for start in sorted(parts):
        found.update((separator + json.dumps(sorted(parts[start]))[1:-1]).encode())
        separator = ", "
    found.update(b"]]")
    return found.hexdigest()


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _job(connection: Connection, row: Row[Any]) -> Job:
    columns = (tasks.c.state, func.count(), func.sum(tasks.c.size))
    counted = select(*columns).where(tasks.c.job == row.id, tasks.c.is_training.is_(False))
    found = {
        state: (n, size) for state, n, size in connection.execute(counted.group_by(columns[0]))
    }
    done, failed = (found.get(s.value, (0, 0)) for s in (State.SUCCEEDED, State.FAILED))
    progress = JobProgress(
        problems=sum(count for count, _ in found.values()),
        problems_done=done[0],
        problems_failed=failed[0],
        variants=int(sum(size for _, size in found.values())),
        variants_done=int(done[1]),
    )
    return Job(
        id=row.id,
        campaign=row.campaign,
        state=State(row.state),
        retrain=row.retrain,
        machine=row.machine,
        idempotency_key=row.idempotency_key,
        cancel_requested=row.cancel_requested,
        progress=progress,
        model=row.model,
        error=row.error,
        created=row.created,
        started=row.started,
        finished=row.finished,
    )

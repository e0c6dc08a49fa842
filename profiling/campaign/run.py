"""Runs campaigns: what is not done yet, problem by problem, each stored before the next begins."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hetune.costmodel.fingerprint import Fingerprint, this_machine
from hetune.costmodel.version import code_version
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.record import Stamp
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.records import Measurement, Status
from hetune.profiling.units import ProblemSpec, Unit


class Records(Protocol):
    """Where measurements are kept: `hetune.profiling.store.Store`."""

    def done(self, machine: str) -> Set[str]:
        """Keys of the units that a machine has measured."""
        ...

    def add(self, measurements: Iterable[Measurement], fingerprint: Fingerprint) -> object:
        """Stores a batch, all of it or nothing."""
        ...


@dataclass(frozen=True, slots=True)
class CampaignProgress:
    """How far a campaign is.

    Attributes:
        done: Units that need no measuring any more.
        total: Units of the campaign.
        seconds_left: What the rest should take, at the pace so far; None before anything is
            measured.
        problem: What was measured last; None at the start.
    """

    done: int
    total: int
    seconds_left: float | None
    problem: ProblemSpec | None


def run_units(
    units: Iterable[Unit],
    name: str,
    store: Records,
    *,
    limits: Limits | None = None,
    seed: int = 0,
    progress: Callable[[CampaignProgress], None] = lambda progress: None,
    supervisor: Supervisor | None = None,
    lock: Path | None = None,
) -> Counter[Status]:
    """Measures the units that the store does not have of this machine.

    Units of a problem are measured together, and stored together: whoever is interrupted loses at
    most one problem, and goes on with it. Problems of several campaigns and of jobs on one machine
    are measured one at a time, and what one has measured meanwhile the others leave out.

    Args:
        units: What to measure; one that comes twice is measured once.
        name: The campaign, for the records.
        store: What is done, and where records go.
        limits: Rounds, seconds and bytes; not given along with a supervisor.
        seed: Of the inputs and the orders; not given along with a supervisor.
        progress: Called at the start and after each problem.
        supervisor: Keeps a worker for several calls; one of its own if None.
        lock: A file that is locked while a problem is measured; by default one of the user's.

    Returns:
        How many units were measured now, by how that ended.

    Raises:
        StoreError: The store fails; what was stored before stays.
        WorkerError: The lock cannot be taken, no process starts, or nothing can be compiled.
    """
    if supervisor is None:
        with Supervisor(limits, seed=seed) as own:
            return run_units(units, name, store, progress=progress, supervisor=own, lock=lock)
    start = time.monotonic()
    fingerprint = this_machine()
    stamp = Stamp(name, fingerprint.digest, code_version())
    wanted = {unit.key: unit for unit in units}
    known = wanted.keys() & store.done(fingerprint.digest)
    total = len(wanted)
    progress(CampaignProgress(len(known), total, None, None))
    endings: Counter[Status] = Counter()
    for problem, members in by_problem(u for key, u in wanted.items() if key not in known):
        with measuring_lock(lock):
            stored = store.done(fingerprint.digest)
            left = [unit for unit in members if unit.key not in stored]
            found = supervisor.measure(left, stamp) if left else []
            if found:
                store.add(found, fingerprint)
        done = len(wanted.keys() & stored) + len(found)  # others measure, too
        endings.update(measurement.status for measurement in found)
        measured = endings.total()
        pace = (time.monotonic() - start) / measured if measured else None
        progress(
            CampaignProgress(done, total, None if pace is None else pace * (total - done), problem)
        )
    return endings


def by_problem(units: Iterable[Unit]) -> list[tuple[ProblemSpec, list[Unit]]]:
    """Problems in the order in which they come, each with its units."""
    found: dict[ProblemSpec, list[Unit]] = {}
    for unit in units:
        found.setdefault(unit.problem, []).append(unit)
    return list(found.items())

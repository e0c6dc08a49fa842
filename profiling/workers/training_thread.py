"""Trains the cost models that jobs ask for, beside a service, whoever has measured."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from hetune.profiling.jobs.leases import LEASE_SECONDS, Leases
from hetune.profiling.jobs.records import Trains
from hetune.profiling.store.store import Store
from hetune.profiling.workers.background_thread import BackgroundThread
from hetune.profiling.workers.training_process import TRAIN_COMMAND, TrainingProcess
from hetune.profiling.workers.worker import JobWorker
from hetune.variants.errors import HetuneError

_MOST_PAUSE_SECONDS = 60.0
_log = logging.getLogger(__name__)


class _Stopped(BaseException):
    """A training is under way, and nobody waits for it any more."""


class TrainingThread(BackgroundThread):
    """A thread that looks for trainings; each is one of `TrainingProcess`, in a process of its own.

    A context manager. A training that is under way in the end is given back, as a measurement is;
    what else may happen to it is what may happen to any lease. A database that is away is tried
    again after a second, and then after twice as long each time, up to a minute.

    Args:
        store: Of the jobs, as `Store.open` takes it; by default HETUNE_STORE, or the user's.
        poll_seconds: How often it looks.
        lease_seconds: How long a lease lasts from the last heartbeat.
        lock: As a `JobWorker`'s: no worker of this machine measures while it trains.
        command: Starts a training.
        rest_seconds: As a `JobWorker`'s.
    """

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        poll_seconds: float = 2.0,
        lease_seconds: float = LEASE_SECONDS,
        lock: Path | None = None,
        command: Sequence[str] = TRAIN_COMMAND,
        rest_seconds: float = 30.0,
    ) -> None:
        super().__init__("hetune-trainer")
        self._store, self._lock = store, lock
        self._poll_seconds, self._lease_seconds = poll_seconds, lease_seconds
        self._rest_seconds = rest_seconds
        self._train = TrainingProcess(store, look=self._look, command=command)

    def _keep(self) -> None:
        pause = 1.0
        while not self._over.is_set():
            try:
                self._work()
            except _Stopped:
                return
            except (HetuneError, OSError) as error:  # such as a folder that cannot be written
                _log.warning("cost models cannot be trained: %s; it is tried in %g s", error, pause)
                self._over.wait(pause)
                pause = min(2 * pause, _MOST_PAUSE_SECONDS)

    def _work(self) -> None:
        with Store.open(self._store) as store:
            leases = Leases(store, seconds=self._lease_seconds, trains=Trains.ONLY)
            worker = JobWorker(
                leases,
                train=self._train,
                lock=self._lock,
                heartbeat_seconds=self._lease_seconds / 4,
                rest_seconds=self._rest_seconds,
            )
            worker.run(self._over.wait, poll_seconds=self._poll_seconds)

    def _look(self) -> None:
        if self._over.is_set():
            raise _Stopped

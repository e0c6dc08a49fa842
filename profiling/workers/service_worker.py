"""The workers of a service: threads, whose measuring and training is done by other processes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from hetune.profiling.closeable import Closeable
from hetune.profiling.jobs.leases import LEASE_SECONDS, Leases
from hetune.profiling.jobs.records import Trains
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.store import Store
from hetune.profiling.workers.activity import Activity, IdleGate
from hetune.profiling.workers.job_worker import JobWorker
from hetune.profiling.workers.training_process import TRAIN_COMMAND, TrainingProcess
from hetune.variants.errors import HetuneError

_MOST_PAUSE_SECONDS = 60.0
_CLOSE_SECONDS = 15.0
_log = logging.getLogger(__name__)


class _Stopped(BaseException):
    """Something is under way, and nobody waits for it any more."""


class ServiceWorker(Closeable):
    """A thread that works on jobs for as long as a `with` block lasts.

    What is under way in the end is given back; what else may happen to it is what may happen to any
    lease. A database that is away is tried again after a second, and then after twice as long each
    time, up to a minute. The end is waited for, but for no longer than 15 seconds: what hangs then,
    such as a database that does not answer, is left to the end of the process.

    Args:
        store: Of the jobs, as `Store.open` takes it; by default HETUNE_STORE, or the user's.
        activity: The service's: it measures, too, but only while the service is idle. Without one
            it only trains cost models, those of any machine.
        poll_seconds: How often it looks for work.
        lease_seconds: How long a lease lasts from the last heartbeat.
        lock: As a `JobWorker`'s: nobody else on this machine measures while it works.
        train_command: Starts a training.
        supervisor: Makes what measures.
        rest_seconds: As a `JobWorker`'s.
    """

    def __init__(
        self,
        store: str | Path | None = None,
        activity: Activity | None = None,
        *,
        poll_seconds: float = 2.0,
        lease_seconds: float = LEASE_SECONDS,
        lock: Path | None = None,
        train_command: Sequence[str] = TRAIN_COMMAND,
        supervisor: Callable[[], Supervisor] = Supervisor,
        rest_seconds: float = 30.0,
    ) -> None:
        self._store, self._lock = store, lock
        self._idle = None if activity is None else IdleGate(activity)
        self._poll_seconds, self._lease_seconds = poll_seconds, lease_seconds
        self._rest_seconds = rest_seconds
        self._supervisor = supervisor
        self._train = TrainingProcess(store, look=self._look, command=train_command)
        self._over = threading.Event()
        name = "hetune-trainer" if activity is None else "hetune-worker"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def end(self) -> None:
        """Tells it to end, and does not wait."""
        self._over.set()

    def close(self) -> None:
        """Ends it."""
        self.end()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            _log.warning("%s has not ended within %g s", self._thread.name, _CLOSE_SECONDS)

    def _run(self) -> None:
        pause = 1.0
        while not self._over.is_set():
            try:
                self._work()
            except _Stopped:
                return
            except Exception as error:
                if not isinstance(error, HetuneError | OSError):
                    _log.exception("%s", self._thread.name)
                _log.warning("jobs cannot be worked on: %s; it is tried in %g s", error, pause)
                self._over.wait(pause)
                pause = min(2 * pause, _MOST_PAUSE_SECONDS)

    def _work(self) -> None:
        with ExitStack() as stack:
            store = stack.enter_context(Store.open(self._store))
            supervisor = None if self._idle is None else stack.enter_context(self._supervisor())
            # Also for machines of a Ray cluster, which see neither store nor models.
            trains = Trains.ONLY if self._idle is None else Trains.ALL
            worker = JobWorker(
                Leases(store, seconds=self._lease_seconds, trains=trains),
                supervisor,
                train=self._train,
                lock=self._lock,
                heartbeat_seconds=self._lease_seconds / 4,
                look=self._look,
                idle=self._idle,
                rest_seconds=self._rest_seconds,
            )
            worker.run(self._over.wait, poll_seconds=self._poll_seconds)

    def _look(self) -> None:
        if self._over.is_set():
            raise _Stopped

"""A worker: claims tasks of jobs, measures or trains, and gives back what came of it."""

from __future__ import annotations

import logging
import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from hetune.costmodel.fingerprint import Fingerprint, this_machine
from hetune.costmodel.version import code_version
from hetune.profiling.jobs.leases import LEASE_SECONDS, Leases
from hetune.profiling.jobs.records import Lease, MeasureTask, TrainTask
from hetune.profiling.measure.bench import devices_here
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.measure.record import Stamp
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.records import Measurement
from hetune.profiling.units import Unit
from hetune.profiling.workers.activity import IdleGate, InterferenceError
from hetune.profiling.workers.failures import (
    LONGEST_PAUSE_SECONDS,
    ProcessLostError,
    Retry,
    is_machine_fault,
    may_pass,
    message_of,
)
from hetune.variants.errors import HetuneError, InputError, LeaseError, StoreError, WorkerError
from hetune.variants.kernel.device import Device

_log = logging.getLogger(__name__)
_DISTURBED = "the service computed meanwhile; it is measured again"


class Measures(Protocol):
    """As `hetune.profiling.process.supervisor.Supervisor`."""

    limits: Limits
    look: Callable[[], None]

    def measure(self, units: Sequence[Unit], stamp: Stamp) -> list[Measurement]:
        """Measures units of one problem together."""
        ...


class JobWorker:
    """Works on jobs, one task at a time, and alone on its machine.

    While it works, a thread says so to the database. Cancelled jobs end with the problem that is
    being measured: its measurements are kept.

    Args:
        leases: Of the jobs' tasks; stay the caller's.
        supervisor: Measures; stays the caller's. Not needed where trainings only are leased.
        train: Trains a cost model for a machine, by the digest of its fingerprint, and a device;
            gives the model's id. Not needed where none are leased.
        owner: Its name; by default the machine's, and the process's number.
        lock: A file that is locked while a task is worked on; by default one of the user's.
        machine: What is measured on; by default this machine.
        devices: Of that machine, if it is another one: who measures there keeps it for itself, and
            no file is locked here.
        heartbeat_seconds: How often it says that it lives.
        look: Called a few times a second while something is measured; what it raises ends that.
        idle: Of the service whose machine it shares: it measures only while that is idle.
        rest_seconds: How long it waits after a process that trains was lost, for each attempt.
    """

    def __init__(
        self,
        leases: Leases,
        supervisor: Measures | None = None,
        *,
        train: Callable[[str, Device], str] | None = None,
        owner: str | None = None,
        lock: Path | None = None,
        machine: Fingerprint | None = None,
        devices: Sequence[Device] | None = None,
        heartbeat_seconds: float = LEASE_SECONDS / 4,
        look: Callable[[], None] = lambda: None,
        idle: IdleGate | None = None,
        rest_seconds: float = 30.0,
    ) -> None:
        self._leases, self._supervisor, self._train = leases, supervisor, train
        self._owner = owner or f"{platform.node()}:{os.getpid()}"
        self._lock = lock
        self._machine, self._devices = machine or this_machine(), devices
        self._heartbeat_seconds = heartbeat_seconds
        self._caller_looks, self._idle = look, idle
        self._rest_seconds = rest_seconds
        self._retry = Retry(threading.Event().wait)
        self._trouble: HetuneError | None = None
        self._rest = 0.0
        if supervisor is not None:
            supervisor.look = self._look

    def step(self, *, wait: bool = False) -> bool:
        """Works on one task, if there is one and nobody else on this machine measures or asks.

        What a problem of the task raises is the task's failure, and not raised here. Where the
        machine is at fault, or Ctrl-C ends it, the task is given back, which is no attempt. What
        was measured is kept while the database is away, and given to it later.

        Args:
            wait: Wait until nobody else does.

        Returns:
            Whether there was one.

        Raises:
            HetuneError: The database cannot be asked, for long if it was to take a result; or the
                lock cannot be taken.
        """
        is_here = self._devices is None
        with measuring_lock(self._lock, wait=wait) if is_here else nullcontext(True) as is_free:
            if not is_free:
                return False
            devices = self._devices or devices_here()
            lease = self._leases.claim(self._owner, self._machine.digest, devices=devices)
            if lease is None:
                return False
            self._work_on(lease)
            return True

    def run(
        self,
        stopped: Callable[[float], bool],
        *,
        until_idle: bool = False,
        poll_seconds: float = 1.0,
    ) -> bool:
        """Works until it is told to stop; a database that is away is waited for.

        After a fault of the machine, such as a full disk, it waits, too, up to a minute.

        Args:
            stopped: Waits so many seconds, or less; whether to stop (`threading.Event.wait`).
            until_idle: Stop, too, when there is nothing to do; then a database that is away is an
                error, and so is a fault of the machine.
            poll_seconds: How long to wait when there is nothing to do.

        Returns:
            Whether there was anything to do.

        Raises:
            HetuneError: The database is away, or the machine cannot do the work, and the worker
                works until idle.
        """
        self._retry.stopped = stopped
        troubles, has_worked = 0, False
        while not stopped(0):
            if self._idle is not None and not self._idle.wait(stopped):
                break
            pause, self._trouble = poll_seconds, None
            try:
                if self.step(wait=until_idle):
                    pause, has_worked = self._rest, True
                elif until_idle:
                    break
            except StoreError as error:
                self._trouble = error
            if self._trouble is None:
                troubles = 0
            elif until_idle:
                raise self._trouble
            else:
                pause = min(poll_seconds * 2.0**troubles, LONGEST_PAUSE_SECONDS)
                _log.warning("%s; work goes on in %g s", self._trouble, pause)
                troubles += 1
            if pause and stopped(pause):
                break
        return has_worked

    def _work_on(self, lease: Lease) -> None:
        self._trouble, self._rest = None, 0.0
        try:
            with self._alive(lease):
                if isinstance(lease.work, MeasureTask):
                    found = self._measured(lease, lease.work)
                    self._give(
                        lease,
                        f"{len(found)} measurements",
                        lambda: self._leases.complete(lease, found, self._machine),
                    )
                else:
                    model = self._trained(lease, lease.work)
                    self._give(
                        lease,
                        f"the cost model {model}",
                        lambda: self._leases.complete_training(lease, model),
                    )
        except LeaseError as error:
            _log.warning("%s", error)
        except InterferenceError:
            self._release(lease, _DISTURBED)
        except Exception as error:
            self._went_wrong(lease, error)
        except BaseException:
            try:
                self._leases.release(lease)
            except (LeaseError, StoreError) as error:
                _log.warning("%s: leased again when its lease is over (%s)", _of(lease), error)
            raise

    def _went_wrong(self, lease: Lease, error: Exception) -> None:
        """Gives a task back; only a fault of its own is an attempt."""
        if may_pass(error):
            raise error  # nobody is there to be told
        text = message_of(error)
        if isinstance(error, StoreError):
            self._fail(lease, text, final=False)  # it refuses what was measured
        elif is_machine_fault(error):
            self._trouble = WorkerError(text)
            self._release(lease, text)
        elif isinstance(error, HetuneError):
            self._fail(lease, text, final=True)
        elif isinstance(error, ProcessLostError):
            self._rest = self._rest_seconds * lease.attempt
            self._fail(lease, str(error), final=False)
        else:
            _log.exception("%s", _of(lease))
            self._fail(lease, text, final=False)

    def _give(self, lease: Lease, what: str, do: Callable[[], object]) -> None:
        """Gives the database what came of a task, however long that is away.

        Raises:
            LeaseError: The lease has ended.
        """
        try:
            self._retry(do, f"{what} of {_of(lease)} are kept")
        except LeaseError:
            raise
        except BaseException as error:
            if may_pass(error) or not isinstance(error, Exception):
                _log.warning("%s of %s are lost: nobody was there to take them", what, _of(lease))
            raise

    def _measured(self, lease: Lease, work: MeasureTask) -> list[Measurement]:
        if self._supervisor is None:
            raise InputError("this worker measures nothing: run `hetune worker`")
        wanted = [unit for unit in work.units if unit.key not in work.known]
        if not wanted:
            return []
        if not {unit.key for unit in wanted} <= {u.key for u in units_of(wanted[0].problem)}:
            raise InputError(
                "hetune has changed since the job was submitted, and its variants with it: submit "
                "it again"
            )
        self._supervisor.limits = work.limits
        stamp = Stamp(lease.campaign, lease.machine, code_version())
        with self._idle.measuring() if self._idle else nullcontext():
            return self._supervisor.measure(wanted, stamp)

    def _look(self) -> None:
        self._caller_looks()
        if self._idle is not None:
            self._idle.check()

    def _trained(self, lease: Lease, work: TrainTask) -> str:
        if self._train is None:
            raise InputError("this worker trains no cost models: run one at the database")
        return self._train(lease.machine, work.device)

    def _fail(self, lease: Lease, error: str, *, final: bool) -> None:
        with suppress(LeaseError):
            self._retry(
                lambda: self._leases.fail(lease, error, final=final), f"{_of(lease)} has failed"
            )

    def _release(self, lease: Lease, why: str) -> None:
        with suppress(LeaseError):
            self._retry(lambda: self._leases.release(lease, why), f"{_of(lease)} is given back")

    @contextmanager
    def _alive(self, lease: Lease) -> Iterator[None]:
        """Heartbeats, as long as it lasts and the lease holds."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(self._heartbeat_seconds):
                try:
                    self._leases.heartbeat(lease)
                except LeaseError:
                    return
                except HetuneError as error:
                    _log.warning("%s", error)

        thread = threading.Thread(target=beat, name="hetune-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _of(lease: Lease) -> str:
    return f"task {lease.task} of job {lease.job}"

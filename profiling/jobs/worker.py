"""A worker: claims units of jobs, measures or trains, and gives back what came of it."""

from __future__ import annotations

import logging
import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from hetune.costmodel.fingerprint import Fingerprint, this_machine
from hetune.costmodel.version import code_version
from hetune.profiling.alone import alone
from hetune.profiling.jobs.leases import LEASE_SECONDS
from hetune.profiling.jobs.lender import AWAY, Lender
from hetune.profiling.jobs.quiet import DisturbedError, Quiet
from hetune.profiling.jobs.records import Lease, Measure, Train
from hetune.profiling.measure.bench import devices_here
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.measure.record import Stamp
from hetune.profiling.records import Measurement
from hetune.profiling.units import Unit
from hetune.variants.errors import HetuneError, InputError, LeaseError, WorkerError
from hetune.variants.plan.variants import Device

_log = logging.getLogger(__name__)
_DISTURBED = "the service computed meanwhile; it is measured again"


class Measures(Protocol):
    """As `hetune.profiling.supervisor.Supervisor`."""

    limits: Limits
    look: Callable[[], None]

    def measure(self, units: Sequence[Unit], stamp: Stamp) -> list[Measurement]:
        """Measures units of one problem together."""
        ...


class JobWorker:
    """Works on jobs, one unit at a time, and alone on its machine.

    While it works, a thread says so to the lender. Cancelled jobs end with the problem that is
    being measured: its measurements are kept.

    Args:
        lender: Whom to ask for work; stays the caller's.
        supervisor: Measures; stays the caller's. Not needed where the lender lends trainings only.
        train: Trains a cost model for a machine, by the digest of its fingerprint, and a device;
            gives the model's id. Not needed where the lender lends no trainings.
        owner: Its name; by default the machine's, and the process's number.
        lock: A file that is locked while a unit is worked on; by default one of the user's.
        machine: What is measured on; by default this machine.
        heartbeat_seconds: How often it says that it lives.
        quiet: Of the service whose machine it shares: it measures only while that does nothing.
    """

    def __init__(
        self,
        lender: Lender,
        supervisor: Measures | None = None,
        *,
        train: Callable[[str, Device], str] | None = None,
        owner: str | None = None,
        lock: Path | None = None,
        machine: Fingerprint | None = None,
        heartbeat_seconds: float = LEASE_SECONDS / 4,
        quiet: Quiet | None = None,
    ) -> None:
        self._lender, self._supervisor, self._train = lender, supervisor, train
        self._owner = owner or f"{platform.node()}:{os.getpid()}"
        self._lock = lock
        self._machine = machine or this_machine()
        self._heartbeat_seconds = heartbeat_seconds
        self._quiet = quiet
        if quiet is not None and supervisor is not None:
            supervisor.look = quiet.check

    def step(self, *, wait: bool = False) -> bool:
        """Works on one unit, if there is one and nobody else on this machine measures or asks.

        What a problem of the unit raises is the unit's failure, and not raised here. Whatever ends
        it otherwise, as Ctrl-C does, gives the unit back first.

        Args:
            wait: Wait until nobody else does.

        Returns:
            Whether there was one.

        Raises:
            HetuneError: The lender cannot be asked (`AWAY`), and the unit is lent again once the
                lease has ended; or it does not lend to this worker; or the lock cannot be taken.
        """
        with alone(self._lock, wait=wait) as is_alone:
            if not is_alone:
                return False
            devices = devices_here()
            lease = self._lender.claim(self._owner, self._machine.digest, devices=devices)
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
    ) -> None:
        """Works until it is told to stop; a lender that is away is waited for.

        Args:
            stopped: Waits so many seconds, or less; whether to stop (`threading.Event.wait`).
            until_idle: Stop, too, when there is nothing to do; then a lender that is away is an
                error.
            poll_seconds: How long to wait when there is nothing to do.

        Raises:
            HetuneError: The lender does not lend to this worker, or it is away, and the worker
                works until idle.
        """
        while not stopped(0):
            if self._quiet is not None and not self._quiet.wait(stopped):
                return
            try:
                if self.step(wait=until_idle):
                    continue
            except AWAY as error:
                if until_idle:
                    raise
                _log.warning("%s", error)
            if until_idle or stopped(poll_seconds):
                return

    def _work_on(self, lease: Lease) -> None:
        try:
            with self._alive(lease):
                if isinstance(lease.work, Measure):
                    found = self._measured(lease, lease.work)
                    self._lender.complete(lease, found, self._machine)
                else:
                    self._lender.complete_training(lease, self._trained(lease, lease.work))
        except LeaseError as error:
            _log.warning("%s", error)
        except DisturbedError:
            with suppress(LeaseError):
                self._lender.release(lease, _DISTURBED)
        except AWAY:
            raise
        except HetuneError as error:
            # What the system refused may go well next time.
            is_passing = isinstance(error, OSError | WorkerError)
            self._fail(lease, str(error), final=not is_passing)
        except Exception as error:
            _log.exception("unit %d of job %d", lease.unit, lease.job)
            self._fail(lease, f"{type(error).__name__}: {error}", final=False)
        except BaseException:
            with suppress(LeaseError, *AWAY):
                self._lender.release(lease)
            raise

    def _measured(self, lease: Lease, work: Measure) -> list[Measurement]:
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
        if self._quiet is None:
            return self._supervisor.measure(wanted, stamp)
        try:
            found = self._supervisor.measure(wanted, stamp)
            self._quiet.check()
        except DisturbedError:
            self._quiet.ended(disturbed=True)
            raise
        self._quiet.ended(disturbed=False)
        return found

    def _trained(self, lease: Lease, work: Train) -> str:
        if self._train is None:
            raise InputError("this worker trains no cost models: run one at the database")
        return self._train(lease.machine, work.device)

    def _fail(self, lease: Lease, error: str, *, final: bool) -> None:
        with suppress(LeaseError):
            self._lender.fail(lease, error, final=final)

    @contextmanager
    def _alive(self, lease: Lease) -> Iterator[None]:
        """Heartbeats, as long as it lasts and the lease holds."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(self._heartbeat_seconds):
                try:
                    self._lender.heartbeat(lease)
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

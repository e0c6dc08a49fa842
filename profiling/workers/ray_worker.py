"""A worker whose tasks are measured on the machines of a Ray cluster."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container
from functools import partial
from typing import Any

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import Trains
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.store import Store
from hetune.profiling.workers.failures import LONGEST_PAUSE_SECONDS, message_of
from hetune.profiling.workers.job_worker import JobWorker, Measures
from hetune.profiling.workers.ray_machine import RayMachine, RayNode
from hetune.variants.errors import InputError

_CLOSE_SECONDS = 15.0
_NO_MACHINES = (
    "no machine of the Ray cluster measures: start nodes with "
    '`ray start --resources="$(hetune worker --ray-resources)"`'
)
_log = logging.getLogger(__name__)


class RayWorker:
    """Works on jobs with the machines of a cluster: tasks are leased here, and measured there.

    Only this process uses the store. Machines may come and go. A task whose machine is lost is
    leased again, which counts as another attempt. Cost models are not trained.

    Args:
        ray: The module, connected to the cluster.
        store: Of the jobs; stays the caller's.
        supervisor: Makes what measures, on each machine.
        rest_seconds: As a `JobWorker`'s.
    """

    def __init__(
        self,
        ray: Any,
        store: Store,
        *,
        supervisor: Callable[[], Measures] = Supervisor,
        rest_seconds: float = 30.0,
    ) -> None:
        self._ray, self._store, self._supervisor = ray, store, supervisor
        self._rest_seconds = rest_seconds
        self._threads: dict[str, _MachineThread] = {}
        self._has_machines = True

    def run(
        self,
        stopped: Callable[[float], bool],
        *,
        until_idle: bool = False,
        poll_seconds: float = 1.0,
    ) -> None:
        """Works until it is told to stop; what is under way then is given back.

        Args:
            stopped: Waits so many seconds, or less; whether to stop.
            until_idle: Stop, too, when there is nothing to do for any machine.
            poll_seconds: How often it looks for work, and for machines.

        Raises:
            HetuneError: It works until idle, and no machine measures, or one cannot.
        """
        work = self._round if until_idle else self._watch
        try:
            while work(stopped, poll_seconds):
                pass
        finally:
            for thread in self._threads.values():
                thread.end(wanted=False)
            for thread in self._threads.values():
                thread.join(_CLOSE_SECONDS)

    def _watch(self, stopped: Callable[[float], bool], poll_seconds: float) -> bool:
        """Begins with machines that are new, ends with those that are lost; whether to go on."""
        nodes = RayNode.listed(self._ray.nodes())
        if self._has_machines and not nodes:
            _log.warning("%s", _NO_MACHINES)
        self._has_machines = bool(nodes)
        self._end_lost(nodes)
        self._threads = {id: each for id, each in self._threads.items() if each.is_alive()}
        for id in nodes.keys() - self._threads.keys():
            self._begin(nodes[id], until_idle=False, poll_seconds=poll_seconds)
        return not stopped(poll_seconds)

    def _round(self, stopped: Callable[[float], bool], poll_seconds: float) -> bool:
        """Lets every machine work until it finds nothing; whether to go on.

        One that found nothing may find what another one has given back since.
        """
        nodes = RayNode.listed(self._ray.nodes())
        if not nodes:
            raise InputError(_NO_MACHINES)
        for node in nodes.values():
            self._begin(node, until_idle=True, poll_seconds=poll_seconds)
        while any(thread.is_alive() for thread in self._threads.values()):
            if stopped(poll_seconds):
                return False
            self._end_lost(RayNode.listed(self._ray.nodes()))
        threads = [self._threads.pop(id) for id in [*self._threads]]
        has_worked = any(thread.has_worked for thread in threads)
        for error in [thread.error for thread in threads if not has_worked]:
            if error is not None:
                raise error
        return has_worked

    def _begin(self, node: RayNode, *, until_idle: bool, poll_seconds: float) -> None:
        work = partial(self._work, until_idle=until_idle, poll_seconds=poll_seconds)
        self._threads[node.id] = _MachineThread(
            node, work, 0.0 if until_idle else LONGEST_PAUSE_SECONDS
        )
        self._threads[node.id].start()

    def _end_lost(self, nodes: Container[str]) -> None:
        for id, thread in self._threads.items():
            if id not in nodes:
                thread.end(wanted=True)  # Ray tells it what is lost

    def _work(self, thread: _MachineThread, *, until_idle: bool, poll_seconds: float) -> bool:
        """Works with one machine; whether there was anything to do."""
        with RayMachine(self._ray, thread.node, thread.look, self._supervisor) as machine:
            fingerprint, devices = machine.describe()
            worker = JobWorker(
                Leases(self._store, trains=Trains.NOTHING),
                machine,
                owner=thread.node.host,
                machine=fingerprint,
                devices=devices,
                look=thread.look,
                rest_seconds=self._rest_seconds,
            )

            def stopped(seconds: float) -> bool:
                if seconds:
                    machine.close()  # others may use it while there is nothing to do
                return thread.wait(seconds)

            return worker.run(stopped, until_idle=until_idle, poll_seconds=poll_seconds)


class _StoppedError(BaseException):
    """What is under way is not wanted any more."""


class _MachineThread(threading.Thread):
    """Works with a machine until it is told to end.

    Attributes:
        node: Which machine.
        has_worked: Whether there was anything to do; once it has ended.
        error: What kept it from working, if anything; once it has ended.
    """

    def __init__(self, node: RayNode, work: Callable[[_MachineThread], bool], pause: float) -> None:
        super().__init__(name=f"hetune-{node.host}", daemon=True)
        self.node, self.has_worked = node, False
        self.error: Exception | None = None
        self._work, self._pause = work, pause
        self._over, self._wanted = threading.Event(), True

    def run(self) -> None:
        try:
            self.has_worked = self._work(self)
        except _StoppedError:
            self.has_worked = True  # and has given something back
        except Exception as error:
            self.error = error
            _log.warning("%s: %s", self.node.host, message_of(error))
            self.wait(self._pause)  # before it is tried again

    def wait(self, seconds: float) -> bool:
        """Waits so many seconds, or less; whether to stop."""
        return self._over.wait(seconds)

    def look(self) -> None:
        """Ends what is under way, if that is not wanted any more."""
        if not self._wanted:
            raise _StoppedError

    def end(self, *, wanted: bool) -> None:
        """Tells it to end, and does not wait.

        Args:
            wanted: What is under way may end, if it can.
        """
        self._wanted = wanted
        self._over.set()

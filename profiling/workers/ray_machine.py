"""A machine of a Ray cluster that measures: what runs there, and what asks for it here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetune.costmodel.fingerprint import Fingerprint, this_machine
from hetune.costmodel.version import code_version, release
from hetune.profiling.closeable import Closeable
from hetune.profiling.measure.bench import devices_here
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.record import Stamp
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.records import Measurement
from hetune.profiling.units import Unit
from hetune.profiling.workers.failures import ProcessLostError
from hetune.profiling.workers.job_worker import Measures
from hetune.variants.errors import WorkerError
from hetune.variants.kernel.device import Device

_RESOURCE = "hetune:"
_LOOK_SECONDS = 0.2


def ray_resources(machine: Fingerprint) -> dict[str, int]:
    """What ``ray start --resources`` takes so that a machine measures: one task at a time."""
    return {f"{_RESOURCE}{machine.digest}": 1}


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node of a cluster that has the resource of a machine.

    Attributes:
        id: Ray's.
        host: Its name, for readers.
        resource: Named after the fingerprint of its machine.
        cpus: What Ray may give away of it; whoever measures takes all.
        gpus: Likewise.
    """

    id: str
    host: str
    resource: str
    cpus: float
    gpus: float

    @classmethod
    def listed(cls, nodes: Iterable[Mapping[str, Any]]) -> dict[str, RayNode]:
        """Those that are alive and measure, by id, of what `ray.nodes` gives."""
        found = {}
        for node in nodes:
            has = node["Resources"]
            names = sorted(name for name in has if name.startswith(_RESOURCE))
            if node["Alive"] and names:
                id, host = node["NodeID"], node["NodeManagerHostname"]
                amounts = has.get("CPU", 0.0), has.get("GPU", 0.0)
                found[id] = cls(id, host, names[0], *amounts)
        return found


class RayMachine(Closeable):
    """Measures on a node (`Measures`), alone there, from the first task until it is closed.

    Args:
        ray: The module, connected.
        node: The node.
        look: Called a few times a second meanwhile; what it raises ends what runs there.
        supervisor: Makes what measures, on the node.
    """

    def __init__(
        self, ray: Any, node: RayNode, look: Callable[[], None], supervisor: Callable[[], Measures]
    ) -> None:
        self.limits, self.look = Limits(), look
        self._ray, self._node, self._supervisor = ray, node, supervisor
        self._actor: Any = None

    def describe(self) -> tuple[Fingerprint, tuple[Device, ...]]:
        """The machine, and what it measures on.

        Raises:
            WorkerError: It was lost, nothing can run there, it is another machine than its resource
                says, or has another hetune.
        """
        try:
            self._actor = self._actor or self._start()
            theirs, machine, devices = self._ask("describe")
        except ProcessLostError as error:
            raise WorkerError(str(error)) from None
        if theirs != (ours := release()):
            raise WorkerError(
                f"{self._node.host} has hetune {theirs}, whose variants are others than those of "
                f"{ours} here: install the same release on both"
            )
        if self._node.resource not in ray_resources(machine):
            raise WorkerError(
                f"{self._node.host} has the resource {self._node.resource}, but is the machine "
                f"{machine.digest}: start its node with what `hetune worker --ray-resources` says "
                "there"
            )
        return machine, devices

    def measure(self, units: Sequence[Unit], stamp: Stamp) -> list[Measurement]:
        """As `Supervisor.measure`.

        Raises:
            ProcessLostError: The node was lost, or the process on it.
            WorkerError: As of `describe`, or something else measures; or as there.
        """
        if self._actor is None:
            self.describe()  # a node that is lost before it begins is not the task's fault
        found: list[Measurement] = self._ask("measure", tuple(units), stamp, self.limits)
        return found

    def close(self) -> None:
        """Ends the process on the node; others may use that then."""
        if self._actor is not None:
            self._ray.kill(self._actor)
            self._actor = None

    def _ask(self, what: str, *arguments: object) -> Any:
        errors = self._ray.exceptions
        try:
            task = getattr(self._actor, what).remote(*arguments)
            while not self._ray.wait([task], timeout=_LOOK_SECONDS)[0]:
                self.look()
            return self._ray.get(task)
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            self.close()
            raise ProcessLostError(f"{self._node.host} was lost: {error}") from None
        except BaseException:
            self.close()
            raise

    def _start(self) -> Any:
        """A process that waits until it has the machine for itself.

        Ray does not retry: tasks that are lost again and again are counted by the job.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        on_node = NodeAffinitySchedulingStrategy(self._node.id, soft=False)
        actor = self._ray.remote(_Measuring).options(
            num_cpus=self._node.cpus,
            num_gpus=self._node.gpus,
            resources={self._node.resource: 1},
            scheduling_strategy=on_node,
        )
        return actor.remote(self._supervisor)


class _Measuring:
    """Runs on the node."""

    def __init__(self, supervisor: Callable[[], Measures] = Supervisor) -> None:
        self._supervisor = supervisor()

    def describe(self) -> tuple[str, Fingerprint, tuple[Device, ...]]:
        return release(), this_machine(), devices_here()

    def measure(self, units: Sequence[Unit], stamp: Stamp, limits: Limits) -> list[Measurement]:
        with measuring_lock(wait=False) as is_alone:
            if not is_alone:
                raise WorkerError(f"something else measures on {stamp.machine}")
            self._supervisor.limits = limits
            return self._supervisor.measure(units, replace(stamp, code_version=code_version()))

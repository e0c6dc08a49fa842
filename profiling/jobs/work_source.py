"""Where a worker gets its tasks: a database, or a service that has one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.jobs.records import Lease
from hetune.profiling.records import Measurement
from hetune.profiling.store.store import AddedCounts
from hetune.variants.errors import BusyError, StoreError, UnreachableError
from hetune.variants.kernel.device import Device

UNAVAILABLE = (StoreError, UnreachableError, BusyError)
"""Errors of a source that may be there again later; until then its leases may run out."""


class WorkSource(Protocol):
    """Leases units of jobs, and takes their results.

    `hetune.profiling.jobs.leases.Leases` explains each method. All of them also raise an error of
    `UNAVAILABLE` where the source cannot be asked; then nothing was written, or it was and no
    answer came.
    """

    def claim(
        self, owner: str, machine: str, *, devices: Sequence[Device] = ("cpu",)
    ) -> Lease | None:
        """Takes a unit; None if there is nothing to do now."""
        ...

    def heartbeat(self, lease: Lease) -> bool:
        """Prolongs a lease; whether the work is still wanted."""
        ...

    def complete(
        self, lease: Lease, measurements: Iterable[Measurement], fingerprint: Fingerprint
    ) -> AddedCounts:
        """Stores what was measured, and that the unit is done: both or neither."""
        ...

    def complete_training(self, lease: Lease, model: str) -> None:
        """Says that a cost model was trained."""
        ...

    def fail(self, lease: Lease, error: str, *, final: bool = False) -> None:
        """Gives a unit back that could not be done."""
        ...

    def release(self, lease: Lease, why: str = "") -> None:
        """Gives a unit back that was not done."""
        ...

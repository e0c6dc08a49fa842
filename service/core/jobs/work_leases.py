"""Lending units of jobs to workers on other machines."""

from __future__ import annotations

from collections.abc import Callable

import hetune
from hetune.profiling.corpus import whole
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import Lease, MeasureTask
from hetune.profiling.store.rows import check_row
from hetune.service.core.formats.safe_names import check_plain
from hetune.service.core.jobs.work_documents import (
    AddedDocument,
    ClaimRequest,
    FailureRequest,
    LeaseDocument,
    MeasuredRequest,
    ReleaseRequest,
    WantedDocument,
)
from hetune.variants.errors import InputError, StoreError

MOST_BYTES = 64 << 20
"""Of measurements together: of hundreds of variants, in every round, launch by launch."""
MOST_UNIT_BYTES = 1 << 20
"""Of those of a variant."""
_FILE = (
    "the graph is a file, and this worker came over HTTP: name the machine of a worker that has "
    "the file and the database"
)


class WorkLeases:
    """What `Leases` does, for who knows a lease by its unit and its token.

    Trainings are not leased: they need all measurements, and the model registry. Every method also
    raises `StoreError` where the database cannot be used, and those with a lease `LeaseError`
    where that has ended.

    Args:
        leases: Gives those of the service's store.
    """

    def __init__(self, leases: Callable[[], Leases]) -> None:
        self._leases = leases

    def claim(self, request: ClaimRequest) -> LeaseDocument | None:
        """Takes a unit; None if there is nothing to do now.

        Raises:
            InputError: The worker's release of hetune is another one, or its name holds a control
                character.
        """
        if request.version != hetune.__version__:
            raise InputError(
                f"the worker is hetune {request.version}, and the service {hetune.__version__}, "
                "whose variants are others: install the same release on both"
            )
        check_plain("worker", (request.owner,))
        leases, asks = self._leases(), (request.owner, request.machine, request.idempotency_key)
        while lease := leases.claim(*asks, devices=request.devices):
            if not reads_a_file(lease):
                return LeaseDocument.of(lease)
            leases.fail(lease, _FILE, final=True)
        return None

    def heartbeat(self, unit: int, token: int) -> WantedDocument:
        """Prolongs a lease; says whether the work is still wanted."""
        leases = self._leases()
        return WantedDocument(wanted=leases.heartbeat(leases.find(unit, token)))

    def most_bytes(self, unit: int, token: int) -> int:
        """Bytes that measurements of a lease's units take, at most."""
        lease = self._leases().find(unit, token)
        units = lease.work.units if isinstance(lease.work, MeasureTask) else ()
        return min(MOST_BYTES, (len(units) + 1) * MOST_UNIT_BYTES)

    def complete(self, unit: int, token: int, request: MeasuredRequest) -> AddedDocument:
        """Stores what was measured, and that the unit is done: both or neither.

        Raises:
            MalformedError: There is no such machine.
            InputError: Measurements are of something else, contradict themselves, or some are
                missing.
        """
        leases, fingerprint = self._leases(), request.facts()
        lease = leases.find(unit, token)
        found = request.of(lease)
        for measurement in found:
            try:
                check_row(measurement, lease.machine)
            except StoreError as error:
                raise InputError(str(error)) from None
        added = leases.complete(lease, found, fingerprint)
        return AddedDocument(new=added.new, known=added.known)

    def fail(self, unit: int, token: int, request: FailureRequest) -> None:
        """Takes a unit back that could not be done."""
        leases = self._leases()
        leases.fail(leases.find(unit, token), request.error, final=request.final)

    def release(self, unit: int, token: int, request: ReleaseRequest) -> None:
        """Takes a unit back that was not done; this does not count as an attempt."""
        leases = self._leases()
        leases.release(leases.find(unit, token), request.why)


def reads_a_file(lease: Lease) -> bool:
    """Whether a lease's graph, or what it is a part of, is a file."""
    work = lease.work
    return isinstance(work, MeasureTask) and whole(work.units[0].problem.graph).kind == "file"

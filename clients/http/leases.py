"""Leases of a service's profiling jobs, for a worker that cannot see the service's database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, TypeVar
from uuid import uuid4

import httpx

import hetune
from hetune.clients.http.call import ServiceCall
from hetune.clients.http.sender import Sender
from hetune.clients.http.wire import nothing, reads
from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.closeable import Closeable
from hetune.profiling.jobs.leases import ended
from hetune.profiling.jobs.records import Lease
from hetune.profiling.records import Measurement
from hetune.profiling.store.rows import check_row
from hetune.profiling.store.store import AddedCounts
from hetune.service.core.formats.documents import Document, parse
from hetune.service.core.jobs.work_documents import (
    MOST_TEXT,
    AddedDocument,
    ClaimRequest,
    FailureRequest,
    LeaseDocument,
    MeasuredRequest,
    MeasuredUnit,
    ReleaseRequest,
    WantedDocument,
)
from hetune.service.core.jobs.work_leases import reads_a_file
from hetune.variants.errors import HetuneError, InputError, LeaseError, UnreachableError
from hetune.variants.kernel.device import Device

T = TypeVar("T")
_LEASES = "/v1/leases"
_NOTHING = 204
_FAILED = 500
_TIMEOUT_SECONDS = 60.0
_HEARTBEAT_SECONDS = 15.0
"""A heartbeat that hangs must not keep the next one from being heard in time."""
_RETRIES = 2
_RETRIES_OF_RESULTS = 1000
"""Within a minute, which is as long as a lease lasts without a heartbeat."""


class _LeaseCall(ServiceCall[T]):
    """A call of a service that counts as away while it cannot serve."""

    def result(self, response: httpx.Response) -> T:
        try:
            return super().result(response)
        except HetuneError as error:
            if response.status_code >= _FAILED:
                raise UnreachableError(f"{response.url} cannot serve now: {error}") from error
            raise


class HttpLeases(Closeable):
    """A service's leases (`hetune.profiling.workers.work_source.WorkSource`); a context manager.

    A request that fails on the way is sent again, after waits that are drawn and grow: giving back
    what was measured for a minute, all else a few times. Claiming or completing twice is once; who
    failed or released something, and heard no answer, is told that the lease has ended.

    Args:
        url: Of the service.
        key: Its key; `HETUNE_API_KEY` by default, or none.
        transport: What sends requests, in place of the network.

    Raises:
        InputError: The URL is none of a service.
        AccessError: No header can hold the key.
    """

    def __init__(
        self, url: str, *, key: str | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._sender = Sender(url, key, _TIMEOUT_SECONDS, _RETRIES, transport)

    @property
    def place(self) -> str:
        """The URL."""
        return str(self._sender.url)

    def claim(
        self, owner: str, machine: str, *, devices: Sequence[Device] = ("cpu",)
    ) -> Lease | None:
        """As `Leases.claim`.

        Raises:
            InputError: The service is another release of hetune.
            AccessError: The key is missing, wrong, or not one of a worker.
            UnreachableError: The service does not answer, or cannot.
        """
        request = ClaimRequest(
            owner=owner[:200] or "?",
            machine=machine,
            version=hetune.__version__,
            idempotency_key=uuid4().hex,
            devices=tuple(devices),
        )
        lease = self._send(_LEASES, request, _lease)
        if lease is not None and reads_a_file(lease):
            self.fail(lease, "no file is read because a service says so", final=True)
            raise InputError(f"{self.place} lends graphs of files, which no service should")
        return lease

    def heartbeat(self, lease: Lease) -> bool:
        """As `Leases.heartbeat`."""
        found = self._about(lease, "heartbeat", None, reads(WantedDocument))
        return found.wanted

    def complete(
        self, lease: Lease, measurements: Iterable[Measurement], fingerprint: Fingerprint
    ) -> AddedCounts:
        """As `Leases.complete`."""
        batch = list(measurements)
        for measurement in batch:
            check_row(measurement, lease.machine)
        request = MeasuredRequest(
            fingerprint=fingerprint.as_dict(), measurements=tuple(map(MeasuredUnit.of, batch))
        )
        found = self._about(
            lease, "measurements", request, reads(AddedDocument), retries=_RETRIES_OF_RESULTS
        )
        return AddedCounts(found.new, found.known)

    def complete_training(self, lease: Lease, model: str) -> NoReturn:
        """Not over HTTP, where no training is leased.

        Raises:
            InputError: Always.
        """
        raise InputError("the lease is not one to train a cost model")

    def fail(self, lease: Lease, error: str, *, final: bool = False) -> None:
        """As `Leases.fail`."""
        request = FailureRequest(error=error[:MOST_TEXT], final=final)
        self._about(lease, "failure", request, nothing)

    def release(self, lease: Lease, why: str = "") -> None:
        """As `Leases.release`."""
        self._about(lease, "release", ReleaseRequest(why=why[:MOST_TEXT]), nothing)

    def close(self) -> None:
        """Ends the connections."""
        self._sender.close()

    def _about(
        self,
        lease: Lease,
        what: str,
        document: Document | None,
        read: Callable[[httpx.Response], T],
        retries: int = _RETRIES,
    ) -> T:
        path = f"{_LEASES}/{lease.unit}/{lease.token}/{what}"
        try:
            return self._send(path, document, read, retries)
        except LeaseError as error:
            raise ended(lease) from error

    def _send(
        self,
        path: str,
        document: Document | None,
        read: Callable[[httpx.Response], T],
        retries: int = _RETRIES,
    ) -> T:
        body = None if document is None else document.model_dump_json().encode()
        timeout = _HEARTBEAT_SECONDS if body is None else None
        return self._sender.send(_LeaseCall("POST", path, read, body, timeout=timeout), retries)


def _lease(response: httpx.Response) -> Lease | None:
    if response.status_code == _NOTHING:
        return None
    return parse(LeaseDocument, response.content).lease()

"""Routes for workers on other machines: leases on units of profiling jobs.

None of them counts as a computation but taking measurements in: workers ask every few seconds, and
the service's own would never find a quiet moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Request, Response

from hetune.profiling.jobs.database import LARGEST_ID
from hetune.service.core.formats.documents import Document, parse
from hetune.service.core.jobs.work_documents import (
    AddedDocument,
    ClaimRequest,
    FailureRequest,
    LeaseDocument,
    MeasuredRequest,
    ReleaseRequest,
    WantedDocument,
)
from hetune.service.http.body import SMALL_BYTES, Media, media_of
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.gate import Gate
from hetune.service.http.schema import takes

D = TypeVar("D", bound=Document)
T = TypeVar("T")
_MOST_ASKING = 64
_MOST_GIVING = 2
Number = Annotated[int, Path(ge=1, le=LARGEST_ID)]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/leases", tags=["profiling"])
    leases = work.service.work_leases
    length = work.service.metrics.queue_length
    asking = Gate("requests of workers", _MOST_ASKING, length)
    giving = Gate("measurements of workers", _MOST_GIVING, length)

    async def asked(kind: type[D], request: Request, do: Callable[[D], T]) -> T:
        """Does what a small document asks for."""
        media_of(request, Media.JSON)
        asking.check()
        async with work.body(request, SMALL_BYTES) as body, asking.turn():
            return await work.ask(lambda: do(parse(kind, bytes(body))))

    @routes.post(
        "",
        status_code=201,
        response_model=LeaseDocument,
        responses={204: {"description": "There is nothing to do now."}},
        openapi_extra=takes(ClaimRequest),
    )
    async def claim_work(request: Request) -> LeaseDocument | Response:
        """Lends a problem of a job to a worker, for 60 seconds from its last heartbeat."""
        lease = await asked(ClaimRequest, request, leases.claim)
        return Response(status_code=204) if lease is None else lease

    @routes.post("/{unit}/{token}/heartbeat")
    async def prolong_work(unit: Number, token: Number) -> WantedDocument:
        """Prolongs a lease, and says whether the work is still wanted."""
        with asking.entered():
            return await work.ask(lambda: leases.heartbeat(unit, token))

    @routes.post("/{unit}/{token}/measurements", openapi_extra=takes(MeasuredRequest))
    async def complete_work(unit: Number, token: Number, request: Request) -> AddedDocument:
        """Stores what was measured, and that it is done; asking again changes nothing."""
        media_of(request, Media.JSON)
        giving.check()
        # Who holds no lease is told so before anything is received.
        most = await work.ask(lambda: leases.most_bytes(unit, token))
        async with work.body(request, most) as body, giving.turn():
            return await work.change(
                lambda: leases.complete(unit, token, parse(MeasuredRequest, bytes(body)))
            )

    @routes.post("/{unit}/{token}/failure", status_code=204, openapi_extra=takes(FailureRequest))
    async def fail_work(unit: Number, token: Number, request: Request) -> None:
        """Takes back what could not be done; it is leased again unless it was too often."""
        await asked(FailureRequest, request, lambda said: leases.fail(unit, token, said))

    @routes.post("/{unit}/{token}/release", status_code=204, openapi_extra=takes(ReleaseRequest))
    async def release_work(unit: Number, token: Number, request: Request) -> None:
        """Takes back what was not done; this does not count as an attempt."""
        await asked(ReleaseRequest, request, lambda said: leases.release(unit, token, said))

    return routes

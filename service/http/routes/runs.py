"""Routes of runs that are performed part by part, between requests."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from hetune.service.core.formats.documents import parse
from hetune.service.core.runs.documents import RunDocument, RunList, RunRequest
from hetune.service.http.body import SMALL_BYTES, Media, media_of
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.parameters import RunId
from hetune.service.http.schema import BYTES, takes

NPY_TYPE = "application/octet-stream"


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/runs", tags=["runs"])
    runs = work.service.runs

    @routes.post(
        "",
        status_code=201,
        openapi_extra=takes(RunRequest),
        responses={200: {"model": RunDocument, "description": "The same was asked for before."}},
    )
    async def submit_run(request: Request, response: Response) -> RunDocument:
        """Asks for a model to be run on a kept graph, part by part."""
        media_of(request, Media.JSON)
        work.changing.check()
        async with work.body(request, SMALL_BYTES) as body, work.changing.turn():
            asked = parse(RunRequest, bytes(body))
            run, is_new = await work.in_thread(lambda: runs.submit(asked))
        response.status_code = 201 if is_new else 200
        response.headers["Location"] = f"/v1/runs/{run.id}"
        return run

    @routes.get("")
    def list_runs() -> RunList:
        """Runs, the latest first."""
        return runs.all()

    @routes.get("/{id}")
    def get_run(id: RunId) -> RunDocument:
        """A run, and how far it is."""
        return runs.get(id)

    @routes.delete("/{id}", status_code=204)
    def delete_run(id: RunId) -> None:
        """Ends a run, and deletes its rows."""
        runs.remove(id)

    @routes.get(
        "/{id}/rows", response_class=Response, responses={200: {"content": {NPY_TYPE: BYTES}}}
    )
    def run_rows(id: RunId) -> FileResponse:
        """Rows of a run that is done: an .npy file, float32 [N, width], in the graph's order."""
        return FileResponse(runs.rows(id), media_type=NPY_TYPE, filename=f"{id}.npy")

    return routes

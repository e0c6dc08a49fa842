"""Routes that run models, or say what would run."""

from __future__ import annotations

from fastapi import APIRouter, Request
from torch import Tensor

from hetune.service.core.formats.container import Content
from hetune.service.core.formats.limits import check_limit
from hetune.service.core.formats.message import Pieces, grouped
from hetune.service.core.graphs.rows import Rows
from hetune.service.core.inference.answers import Answer, RunReport
from hetune.service.core.service import Service
from hetune.service.http.body import Media, limit_of, media_of
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.parameters import ModelReference
from hetune.service.http.routes.computations import (
    BODIES,
    ModelRequest,
    add_computation,
    as_json,
)
from hetune.service.http.routes.requests import (
    InferDocument,
    SelectDocument,
    read_infer,
    read_select,
)
from hetune.service.http.schema import takes


class InferAnswer(RunReport):
    """What ran, and rows of its outputs: by the layer's number; of nodes, or by node type."""

    outputs: dict[str, list[list[float]] | dict[str, list[list[float]]]]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["inference"])
    service = work.service

    def infer(asked: ModelRequest) -> bytes | Pieces:
        request = read_infer(asked.media, asked.body, service.limits)
        return _written(request.run(service, asked.model, asked.arrived), asked.answer, service)

    add_computation(
        routes,
        work,
        "infer",
        infer,
        takes_in=InferDocument,
        gives_out=InferAnswer,
        description="Runs a model on a graph, by the variants that suit it.",
    )

    @routes.post(
        "/v1/models/{name}/select",
        openapi_extra=takes(SelectDocument, safetensors=True),
    )
    async def select(name: ModelReference, request: Request) -> RunReport:
        """What would be chosen for a model on a graph, and why; nothing is run."""
        media = media_of(request, *BODIES)
        async with work.received(request, limit_of(media, service.limits)) as body:
            return await work.compute(lambda: _select(service, name, media, body))

    return routes


def _written(answer: Answer, wanted: Media, service: Service) -> bytes | Pieces:
    if wanted is Media.JSON:
        return _as_json(answer, service.limits.json_elements)
    tensors: dict[str, Tensor] = {}
    for number, rows in answer.outputs.items():
        tensors |= grouped(f"out/{number}", rows)
    return Pieces(answer.report.model_dump_json(), tensors)


def _select(service: Service, name: str, media: Media, body: Content) -> RunReport:
    header, graph = read_select(media, body, service.limits)
    return service.selection.select(
        name,
        graph,
        version=header.version,
        memory_limit=header.memory_limit,
        explain=header.explain,
    )


def _as_json(answer: Answer, most: int) -> bytes:
    parts = [t for rows in answer.outputs.values() for t in grouped("out", rows).values()]
    check_limit("numbers in JSON", sum(t.numel() for t in parts), most)
    outputs = {str(number): _lists(rows) for number, rows in answer.outputs.items()}
    document = answer.report.model_dump(mode="json") | {"outputs": outputs}
    return as_json(document)


def _lists(rows: Rows) -> object:
    if isinstance(rows, Tensor):
        return rows.tolist()
    return {name: tensor.tolist() for name, tensor in rows.items()}

"""The route that runs models."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import Request, Response

from hetune.service.core.models.graph_check import check_fits
from hetune.service.core.service import Service
from hetune.service.http.body import JSON_TYPE
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.oip import statistics
from hetune.service.http.oip.body import json_length, read_body
from hetune.service.http.oip.compression import accepted, compress
from hetune.service.http.oip.documents import InferenceRequest, InferenceResponse
from hetune.service.http.oip.inputs import ADVICE, inputs_of, nodes_of
from hetune.service.http.oip.outputs import write_answer
from hetune.service.http.oip.request import ProtocolRequest, read_request
from hetune.service.http.oip.statistics import Laps, Statistics
from hetune.service.http.schema import BYTES, Responses, holds
from hetune.service.http.streaming_response import PiecesResponse
from hetune.variants.graph.hetero import HeteroGraph

BINARY_TYPE = "application/octet-stream"
REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {JSON_TYPE: holds(InferenceRequest), BINARY_TYPE: BYTES},
    }
}
"""What OpenAPI says of the body, which the route reads itself."""
ANSWERS: Responses = {
    200: {
        "description": "Outputs",
        "content": {JSON_TYPE: holds(InferenceResponse), BINARY_TYPE: BYTES},
    }
}


async def infer(
    work: Dispatcher, counters: Statistics, name: str, version: int, request: Request
) -> Response:
    """Runs a version of a model on the graph and the features of a request."""
    service, arrived = work.service, time.monotonic()
    work.computing.check()
    with work.bodies.held() as held:
        body = await read_body(request, held, service.limits)
        with work.computing.entered(), counters.counted(name, version) as laps:
            header = json_length(request)
            asked = await asyncio.to_thread(read_request, body, header, service.limits)
            deadline = None if asked.seconds is None else arrived + asked.seconds
            laps.lap(statistics.INPUT)
            content, length = await work.compute(
                lambda: _answer(service, name, version, asked, deadline, laps), deadline
            )
            headers = {} if length is None else {"Inference-Header-Content-Length": str(length)}
            coding = accepted(request.headers.get("accept-encoding", ""))
            if coding is not None:
                headers["Content-Encoding"] = coding
                content = await asyncio.to_thread(compress, content, coding)
            laps.lap(statistics.OUTPUT)
    headers["Vary"] = "Accept-Encoding"
    kind = BINARY_TYPE if length else JSON_TYPE
    return PiecesResponse(content, kind, work.computing, headers)


def _answer(
    service: Service,
    name: str,
    version: int,
    asked: ProtocolRequest,
    deadline: float | None,
    laps: Laps,
) -> tuple[bytes, int | None]:
    laps.lap(statistics.QUEUE)
    model = service.models.get(name, version)
    graph, features = inputs_of(asked, model.description, service.limits, service.features)
    if isinstance(graph, HeteroGraph):
        check_fits(model, graph, ADVICE)
    nodes = nodes_of(asked, features)
    laps.lap(statistics.INPUT)
    answer = service.inference.run(
        model, graph, features, nodes=nodes, subset=asked.subset, deadline=deadline
    )
    laps.lap(statistics.INFER)
    written = write_answer(answer, asked, service.limits.json_elements)
    laps.lap(statistics.OUTPUT)
    return written

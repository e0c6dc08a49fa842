"""Long answers go out piece by piece, and are known of until they are sent."""

import asyncio
import json
from dataclasses import replace

import pytest
from fastapi import Request

from hetune.service.core.formats.message import MEDIA_TYPE, Pieces
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.routes import inference
from hetune.service.http.routes.requests import InferRequest
from hetune.variants.errors import BusyError

from ._serving import LIMITS, make_service, tiny_features

RUN = {"graph": {"src": [0], "dst": [1]}, "x": [[0.0] * 4] * 2}
TEXT = b"0" * (5 << 19)
TENSORS = Pieces("{}", {"x": tiny_features().repeat(1 << 14, 2)})


@pytest.mark.parametrize(
    ("content", "wanted"), [(TEXT, "application/json"), (TENSORS, MEDIA_TYPE)], ids=["json", "st"]
)
def test_answers_of_runs_are_sent_in_pieces(tmp_path, monkeypatch, content, wanted):
    work = Dispatcher.of(make_service(tmp_path, limits=replace(LIMITS, run_bytes=1 << 20)))
    monkeypatch.setattr(inference, "_written", lambda *_: content)
    monkeypatch.setattr(InferRequest, "run", lambda *_: None)
    headers = [(b"content-type", b"application/json"), (b"accept", wanted.encode())]
    path = {"name": "m"}
    scope = {"type": "http", "method": "POST", "headers": headers, "path_params": path}
    sizes = []

    async def receive():
        return {"type": "http.request", "body": json.dumps(RUN).encode()}

    async def send(event):
        if event["type"] == "http.response.body":
            sizes.append(len(event["body"]))
            with pytest.raises(BusyError, match="being read"), work.computing.entered():
                pass

    [infer] = [route.endpoint for route in inference.router(work).routes if route.name == "infer"]

    async def answer():
        await (await infer(Request(scope, receive)))(scope, receive, send)

    asyncio.run(answer())
    assert sum(sizes) == len(content)
    assert max(sizes) <= 1 << 20
    assert sizes[-1] == 0  # servers take it when the client has taken all that was before
    with work.computing.entered():
        pass
    work.close()

"""What a client for asyncio does in the event loop's own thread, and what beside it."""

import asyncio

import httpx
import numpy as np
import pytest
import torch
from tests.clients._both import Script
from tests.service._serving import tiny_graph, tiny_layers

from hetune.clients import AsyncClient
from hetune.clients.http import aio_sender
from hetune.clients.http.light import LIGHT_BYTES, is_light

MANY = LIGHT_BYTES // 4 + 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("m", "0" * 32, torch.zeros(10, 4), None, 1, 0.5, True), True),
        ({"nodes": [1, 2], "features": {"author": np.zeros(3)}}, True),
        (torch.zeros(MANY - 1), True),
        (torch.zeros(MANY), False),
        (np.zeros(MANY, np.float32), False),
        ([torch.zeros(MANY // 2), {"x": torch.zeros(MANY // 2 + 1)}], False),
        (torch.zeros(MANY, 1).to_sparse(), False),
        (torch.zeros(1, device="meta"), False),
        (list(range(1000)), False),
        ({str(n): n for n in range(1000)}, False),
        (b"x" * LIGHT_BYTES, True),
        (b"x" * (LIGHT_BYTES + 1), False),
        (tiny_graph(), False),
        ({("a", "to", "b"): torch.zeros(2, 1)}, False),
        (tiny_layers(), False),
        (print, False),
    ],
    ids=range(16),
)
def test_what_is_light(given, expected):
    assert is_light(given) is expected


@pytest.mark.parametrize(
    ("call", "beside"),
    [
        (lambda client: client.models(), 0),
        (lambda client: client.upload_graph(tiny_graph()), 1),
    ],
    ids=range(2),
)
def test_threads_are_for_what_is_not(monkeypatch, call, beside):
    moved = []

    async def to_thread(do, *args, **kwargs):
        moved.append(do)
        return do(*args, **kwargs)

    async def ask():
        answer = httpx.Response(201, json={"id": "f" * 32, "models": []})
        async with AsyncClient("http://service", transport=Script(answer).transport) as client:
            await call(client)

    monkeypatch.setattr(aio_sender, "to_thread", to_thread)
    asyncio.run(ask())
    assert len(moved) == beside

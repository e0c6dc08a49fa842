"""The short way to a run answers as the documented route does."""

import asyncio

import httpx
import pytest

from hetune.service.core.message import MEDIA_TYPE
from hetune.service.http.app import routes
from hetune.service.http.direct import Direct
from hetune.service.http.inference import INFER, endpoint
from hetune.service.http.work import Work

GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
RUN = {"graph": GRAPH, "features": [[0.0, 1.0, 2.0, 3.0]] * 3}
PATH = "/v1/models/m/infer"


@pytest.fixture
def ask(service):
    """Sends the same to both, without a network: the status, the interesting headers, the body."""
    work = Work.of(service)
    documented = routes(work)

    def way(app):
        async def send(method, path, options):
            async def with_state(scope, receive, send):
                scope["state"] = {"request_id": "id"}
                await app(scope, receive, send)

            transport = httpx.ASGITransport(with_state, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                answer = await client.request(method, path, **options)
            headers = {k: v for k, v in answer.headers.items() if k != "content-length"}
            return answer.status_code, headers, answer

        return lambda *args: asyncio.run(send(*args))

    yield way(documented), way(Direct(documented, "POST", INFER, endpoint(work)))
    work.close()


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("POST", PATH, {"json": RUN}, 200),
        ("POST", PATH, {"json": RUN, "headers": {"Accept": MEDIA_TYPE}}, 200),
        ("POST", f"{PATH}?more=1", {"json": RUN}, 200),
        ("POST", PATH, {"json": RUN | {"features": []}}, 422),
        ("POST", PATH, {"json": RUN | {"graph": "0" * 32}}, 404),
        ("POST", PATH, {"json": []}, 400),
        ("POST", PATH, {"content": b"{}"}, 415),
        ("POST", "/v1/models/a%2Fb/infer", {"json": RUN}, 404),
        ("POST", "/v1/models/-/infer", {"json": RUN}, 400),
        ("POST", "/v1/models/none/infer", {"json": RUN}, 404),
        ("POST", "/v1/models//infer", {"json": RUN}, 404),
        ("POST", f"{PATH}/", {"json": RUN}, 307),
        ("GET", PATH, {}, 405),
    ],
)
def test_both_ways_answer_alike(ask, method, path, options, status):
    (code, headers, answer), (short_code, short_headers, short) = (
        way(method, path, options) for way in ask
    )
    assert code == short_code == status
    assert headers == short_headers
    if "outputs" in answer.text:
        assert answer.json()["outputs"] == short.json()["outputs"]
    elif status != 200:
        assert answer.content == short.content


def test_failures_are_told_alike(ask, service, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(type(service.inference), "run", fail)
    answers = [way("POST", PATH, {"json": RUN})[2] for way in ask]
    assert [answer.status_code for answer in answers] == [500, 500]
    assert answers[0].content == answers[1].content
    assert "secret" not in answers[0].text

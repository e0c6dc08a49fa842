"""Paths that would lead elsewhere: every parameter of every route, with everything in it."""

import hashlib
import re
from types import SimpleNamespace

import httpx
import pytest

from hetune.service.http.dispatcher import Dispatcher
from hetune.service.server.app import application, routes

from ._serving import asking, make_service, tiny_graph

PARTS = [
    "%2e%2e",
    "%2e",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2fetc%2fpasswd",
    "..%5c..%5cetc%5cpasswd",
    "%252e%252e%252fetc",
    "%c0%ae%c0%ae%c0%af",
    "%00",
    "m%00.safetensors",
    "m%0d%0aX-Injected:%201",
    "%ff%fe",
    "%ed%a0%80",
    "%e2%80%ae",
    "~",
    "*",
    ".staging",
    "lock",
    "a" * 3000,
    "0",
    "-1",
    "9" * 30,
    "%d9%a1",
    "1;drop",
]
EXPECTED = {400, 404, 405, 415, 422}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with a model and a graph, its routes with parameters, and a client."""
    folder = tmp_path_factory.mktemp("data")
    service = make_service(folder)
    service.graphs.add(tiny_graph())
    paths = [
        (method.upper(), path)
        for path, methods in routes(Dispatcher.of(service)).openapi()["paths"].items()
        for method in methods
        if "{" in path
    ]
    with asking(application(service)) as http:
        yield SimpleNamespace(folder=folder, http=http, paths=paths)


def contents(folder):
    """Digests of all that is kept."""
    kept = (path for path in folder.rglob("*.safetensors") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}


@pytest.mark.parametrize("part", PARTS, ids=[part[:20] for part in PARTS])
def test_no_parameter_leads_elsewhere(served, part):
    before = contents(served.folder)
    assert len(served.paths) > 15
    for method, path in served.paths:
        raw = re.sub(r"{\w+}", lambda _: part, path).encode()
        url = httpx.URL(served.http.base_url, raw_path=raw)
        found = served.http.request(method, url, json={})
        where = f"{method} {raw[:80]!r}: {found.status_code} {found.text[:200]}"
        assert found.status_code in EXPECTED, where
        assert "x-injected" not in found.headers
        assert str(served.folder) not in found.text, where
        assert "root:" not in found.text
        document = found.json()
        assert set(document) == {"error"} or document["status"] == found.status_code, where
    assert contents(served.folder) == before

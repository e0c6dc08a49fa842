"""The service over HTTP: what every route answers, to the well-behaved and to the hostile."""

import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import torch

from hetune.service.core.formats.documents import parse
from hetune.service.core.formats.message import MEDIA_TYPE, pack, unpack
from hetune.service.core.models.description import ModelDescription
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.problems import status_of
from hetune.service.http.routes.examples import EXAMPLES
from hetune.service.server.app import application, routes
from hetune.variants import errors
from hetune.variants.errors import InputError

from ._serving import LIMITS, asking, make_service, serving

GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
ROWS = [[0.0, 1.0, 2.0, 3.0]] * 3
INFER = {"graph": GRAPH, "x": ROWS}
JSON = {"Content-Type": "application/json"}
BINARY = {"Content-Type": MEDIA_TYPE}
X = torch.tensor(ROWS)
NO_GRAPH = "0" * 32


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    """A client of a service for tests that leave it as it is."""
    app = application(make_service(tmp_path_factory.mktemp("data")), hosts={"127.0.0.1"})
    with asking(app) as client:
        yield client


def is_problem(response, status, name):
    """Checks problem details, and gives what they say."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found = response.json()
    assert set(found) == {"type", "title", "status", "detail", "request_id"}
    assert found["type"] == (f"urn:hetune:error:{name}" if name else "about:blank")
    assert found["status"] == status
    assert found["request_id"] == response.headers["x-request-id"]
    return found["detail"]


# The well-behaved.


def test_a_graph_s_life(http):
    created = http.post("/v1/graphs", json=GRAPH)
    assert created.status_code == 201
    id = created.json()["id"]
    assert created.json() == {"id": id, "num_nodes": 3, "num_edges": 2}
    assert created.headers["location"] == f"/v1/graphs/{id}"
    tensors = {name: torch.tensor(GRAPH[name]) for name in ("src", "dst", "etype")}
    again = http.post("/v1/graphs", content=pack('{"num_nodes": 3}', tensors), headers=BINARY)
    assert again.json()["id"] == id
    assert id in [graph["id"] for graph in http.get("/v1/graphs").json()["graphs"]]
    statistics = http.get(f"/v1/graphs/{id}").json()
    assert (statistics["id"], statistics["num_edges"]) == (id, 2)
    inline = http.post("/v1/models/m/infer", json=INFER).json()
    assert inline["graph"] == id
    assert http.post("/v1/models/m/infer", json=INFER | {"graph": id}).json()["outputs"]
    assert http.delete(f"/v1/graphs/{id}").status_code == 204
    is_problem(http.get(f"/v1/graphs/{id}"), 404, "NotFoundError")
    is_problem(http.delete(f"/v1/graphs/{id}"), 404, "NotFoundError")


EDIT = {"add": {"1": [[0, 3], [0, 2]]}, "remove": {"0": [[0], [1]]}, "add_nodes": {"node": 1}}
EDITED = {"src": [1, 0, 3], "dst": [2, 0, 2], "etype": [1, 1, 1], "num_nodes": 4, "num_etypes": 2}


def test_an_edited_graph_is_one_of_its_own(http):
    id = http.post("/v1/graphs", json=GRAPH).json()["id"]
    created = http.patch(f"/v1/graphs/{id}", json=EDIT)
    assert created.status_code == 201, created.text
    new = created.json()["id"]
    assert created.json() == {"id": new, "num_nodes": 4, "num_edges": 3}
    assert created.headers["location"] == f"/v1/graphs/{new}"
    assert http.post("/v1/graphs", json=EDITED).json()["id"] == new
    tensors = {
        f"{change}/{name}": torch.tensor(ends)
        for change in ("add", "remove")
        for name, ends in EDIT[change].items()
    }
    content = pack('{"add_nodes": {"node": 1}}', tensors)
    again = http.patch(f"/v1/graphs/{id}", content=content, headers=BINARY)
    assert again.json()["id"] == new
    assert {id, new} <= {graph["id"] for graph in http.get("/v1/graphs").json()["graphs"]}
    assert http.patch(f"/v1/graphs/{id}", json={}).json()["id"] == id


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        ({"add": {"2": [[0], [1]]}}, 422, "GraphError"),
        ({"add": {"0": [[0], [3]]}}, 422, "GraphError"),
        ({"remove": {"0": [[1], [0]]}}, 422, "GraphError"),
        ({"add_nodes": {"venue": 1}}, 422, "GraphError"),
        ({"add_nodes": {"node": 998}}, 413, "TooLargeError"),
        ({"add_nodes": {"node": -1}}, 400, "MalformedError"),
        ({"add": {"0": [[0] * 2500, [0] * 2500]}}, 201, None),
        ({"add": {"0": [[0], [1, 2]]}}, 422, "GraphError"),
        ({"add": {"0": [[0]]}}, 400, "MalformedError"),
        ({"add": [[0], [1]]}, 400, "MalformedError"),
        ({"parallel": "some"}, 400, "MalformedError"),
        ({"unknown": 1}, 400, "MalformedError"),
    ],
    ids=range(12),
)
def test_edits_are_checked(http, body, status, name):
    id = http.post("/v1/graphs", json=GRAPH).json()["id"]
    found = http.patch(f"/v1/graphs/{id}", json=body)
    if name is None:
        assert found.status_code == status
    else:
        is_problem(found, status, name)


@pytest.mark.parametrize(
    ("tensors", "status", "name"),
    [
        ({"add": torch.zeros(2, 1).long()}, 400, "MalformedError"),
        ({"x": torch.zeros(2, 1).long()}, 400, "MalformedError"),
        ({"add/0": torch.zeros(2, 1)}, 422, "GraphError"),
        ({"add/0": torch.zeros(1, 2).long()}, 422, "GraphError"),
        ({"add/0": torch.tensor(1)}, 422, "GraphError"),
        ({"add/0": torch.zeros(2, 4999).long()}, 413, "TooLargeError"),
    ],
    ids=range(6),
)
def test_tensors_of_edits_are_checked(http, tensors, status, name):
    id = http.post("/v1/graphs", json=GRAPH).json()["id"]
    content = pack("{}", tensors)
    is_problem(http.patch(f"/v1/graphs/{id}", content=content, headers=BINARY), status, name)
    is_problem(http.patch(f"/v1/graphs/{NO_GRAPH}", json=EDIT), 404, "NotFoundError")


def test_a_model_s_life(http):
    weight = {"0.weight": torch.ones(2, 4, 3), "0.bias": torch.zeros(3), "0.root": torch.ones(4, 3)}
    layer = {"layer": "rgcn", "out_channels": 3}
    text = json.dumps({"in_channels": 4, "num_relations": 2, "layers": [layer]})
    path, body = "/v1/models/mine/versions/1", pack(text, weight)
    assert http.put(path, content=body, headers=BINARY).status_code == 201
    assert http.put(path, content=body, headers=BINARY).status_code == 200
    other = pack(text, weight | {"0.bias": torch.ones(3)})
    is_problem(http.put(path, content=other, headers=BINARY), 409, "ConflictError")
    short = pack(text, {})
    is_problem(http.put(path, content=short, headers=BINARY), 422, "InputError")
    assert {"name": "mine", "versions": [1], "aliases": {}} in http.get("/v1/models").json()[
        "models"
    ]
    assert http.get("/v1/models/mine").json() == {"name": "mine", "versions": [1], "aliases": {}}
    described = http.get(path).json()["description"]
    assert described["layers"][0]["out_channels"] == 3
    assert http.post("/v1/models/mine/infer", json=INFER).json()["outputs"]["0"][0] == [6.0] * 3
    assert http.delete(path).status_code == 204
    for gone in (http.get(path), http.get("/v1/models/mine"), http.delete(path)):
        is_problem(gone, 404, "NotFoundError")


def test_json_and_safetensors_say_the_same(http):
    path = "/v1/models/m/infer"
    plain = http.post(path, json=INFER).json()
    tensors = {f"graph/{n}": torch.tensor(GRAPH[n]) for n in ("src", "dst", "etype")} | {"x": X}
    body = pack('{"graph": {"num_nodes": 3}}', tensors)
    binary = http.post(path, content=body, headers=BINARY)
    assert binary.headers["content-type"] == MEDIA_TYPE
    message = unpack(binary.content)
    assert message.tensors["out/1"].tolist() == plain["outputs"]["1"]
    report = json.loads(message.document)
    assert [layer["variant"] for layer in report["layers"]] == [
        layer["variant"] for layer in plain["layers"]
    ]
    mixed = http.post(path, content=body, headers=BINARY | {"Accept": "application/json"})
    assert mixed.json()["outputs"] == plain["outputs"]
    mixed = http.post(path, json=INFER, headers={"Accept": MEDIA_TYPE})
    assert torch.equal(unpack(mixed.content).tensors["out/1"], message.tensors["out/1"])


def test_some_nodes_layers_and_reasons(http):
    typed = GRAPH | {"ntype": [0, 0, 1], "ntype_names": ["author", "paper"]}
    asked = {
        "graph": typed,
        "x": {"author": ROWS[:2], "paper": ROWS[2:]},
        "nodes": {"paper": [0]},
        "outputs": [0, 1],
        "explain": True,
        "version": 1,
    }
    found = http.post("/v1/models/m/infer", json=asked).json()
    assert {n: len(rows["paper"][0]) for n, rows in found["outputs"].items()} == {"0": 6, "1": 4}
    assert all(layer["explanation"]["launches"] for layer in found["layers"])
    chosen = http.post("/v1/models/m/select", json={"graph": typed}).json()
    assert [layer["variant"] for layer in chosen["layers"]] == [
        layer["variant"] for layer in found["layers"]
    ]
    assert all(layer["measured_seconds"] is None for layer in chosen["layers"])


def test_select_takes_tensors_too(http):
    tensors = {f"graph/{n}": torch.tensor(GRAPH[n]) for n in ("src", "dst", "etype")}
    found = http.post("/v1/models/m/select", content=pack('{"graph": {}}', tensors), headers=BINARY)
    assert len(found.json()["layers"]) == 2


def test_health(http):
    assert http.get("/v1/health/live").json() == {"status": "live"}
    assert http.get("/v1/health/ready").json() == {"status": "ready"}


@pytest.mark.parametrize(
    ("given", "kept"), [("my-id.1", True), ("a" * 65, False), ("a b", False), ("<script>", False)]
)
def test_request_ids(http, given, kept):
    found = http.get("/v1/health/live", headers={"X-Request-ID": given})
    assert (found.headers["x-request-id"] == given) == kept


# Errors.


def without(document, name):
    return {key: value for key, value in document.items() if key != name}


@pytest.mark.parametrize(
    ("change", "status", "name"),
    [
        ({"graph": NO_GRAPH}, 404, "NotFoundError"),
        ({"graph": "../../etc/passwd"}, 404, "NotFoundError"),
        ({"graph": "http://127.0.0.1/"}, 404, "NotFoundError"),
        ({"graph": None}, 400, "MalformedError"),
        ({"graph": GRAPH | {"src": [0, -1]}}, 422, "GraphError"),
        ({"graph": GRAPH | {"src": [0, 3]}}, 422, "GraphError"),
        ({"graph": GRAPH | {"src": [0, 2**70]}}, 400, "MalformedError"),
        ({"graph": GRAPH | {"src": [0, 0.5]}}, 400, "MalformedError"),
        ({"graph": GRAPH | {"src": [0]}}, 422, "GraphError"),
        ({"graph": GRAPH | {"num_nodes": 2**31 - 1}}, 413, "TooLargeError"),
        ({"graph": without(GRAPH, "num_nodes") | {"src": [0, 2**40]}}, 413, "TooLargeError"),
        ({"graph": GRAPH | {"etype": [0, 2**40]}}, 413, "TooLargeError"),
        ({"graph": GRAPH | {"num_etypes": 2**31 - 1}}, 413, "TooLargeError"),
        ({"graph": GRAPH | {"etype": [0, 2]}}, 422, "InputError"),
        ({"graph": GRAPH | {"url": "http://127.0.0.1/"}}, 400, "MalformedError"),
        ({"x": []}, 422, "InputError"),
        ({"x": [[1.0], [1.0, 2.0]]}, 422, "InputError"),
        ({"x": [["x"]]}, 400, "MalformedError"),
        ({"x": [[1e39] * 4] * 3}, 422, "InputError"),
        ({"x": {"node": ROWS, "cat": ROWS}}, 422, "InputError"),
        ({"nodes": [3]}, 422, "InputError"),
        ({"nodes": [-1]}, 422, "InputError"),
        ({"nodes": {"venue": None}}, 422, "InputError"),
        ({"nodes": {"paper": [None]}}, 400, "MalformedError"),
        ({"outputs": [7]}, 422, "InputError"),
        ({"variants": ["vanilla/none", None]}, 422, "VariantError"),
        ({"memory_limit": 1}, 413, "MemoryLimitError"),
        ({"memory_limit": -1}, 400, "MalformedError"),
        ({"deadline_seconds": 1e-9}, 504, "DeadlineError"),
        ({"deadline_seconds": 0}, 400, "MalformedError"),
        ({"deadline_seconds": 1e6}, 400, "MalformedError"),
        ({"version": 9}, 404, "NotFoundError"),
        ({"version": "1"}, 400, "MalformedError"),
        ({"unknown": 1}, 400, "MalformedError"),
    ],
    ids=range(34),
)
def test_bad_requests_to_infer(http, change, status, name):
    assert is_problem(http.post("/v1/models/m/infer", json=INFER | change), status, name)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[" * 15_000,
        b'{"graph":' * 1000,
        b'{"graph": NaN}',
        b"\xff\xfe",
        json.dumps(INFER).replace("3.0", "NaN").encode(),
        json.dumps(INFER).replace("3.0", "1e999").encode(),
        json.dumps(INFER).replace("3.0", "1" * 5000).encode(),
    ],
    ids=range(10),
)
def test_json_that_is_none(http, body):
    found = http.post("/v1/models/m/infer", content=body, headers=JSON)
    assert is_problem(found, 400, "MalformedError")


WHOLE = pack(json.dumps({"graph": NO_GRAPH}), {"x": X})


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        (WHOLE, 404, "NotFoundError"),
        (WHOLE[:-1], 400, "MalformedError"),
        (WHOLE[:9], 400, "MalformedError"),
        (b"\xff" * 64, 400, "MalformedError"),
        (WHOLE.replace(b"[3,4]", b"[9,9]"), 400, "MalformedError"),
        (pack("{", {"x": X}), 400, "MalformedError"),
        (pack("{}", {"x": X}), 400, "MalformedError"),
        (pack('{"graph": {}}', {"x": X}), 400, "MalformedError"),
        (pack('{"graph": {}}', {"x": X, "graph": X}), 400, "MalformedError"),
        (pack('{"graph": "0"}', {"x": X, "graph/src": X}), 400, "MalformedError"),
        (pack('{"graph": "0"}', {"nodes": X}), 404, "NotFoundError"),
        (pack('{"graph": "0"}', {"x": X, "x/a": X}), 400, "MalformedError"),
        (pack('{"graph": "0"}', {"x": X, "y": X}), 400, "MalformedError"),
        (pack('{"graph": "0", "nodes": {"a": [1]}}', {"x": X}), 400, "MalformedError"),
        (pack('{"graph": "0", "nodes": {"a": null}}', {"x": X, "nodes": X}), 400, "MalformedError"),
        (
            pack('{"graph": "0", "nodes": {"a": null}}', {"x": X, "nodes/a": X}),
            400,
            "MalformedError",
        ),
        (pack('{"graph": "' + "[" * 9000 + '"}', {"x": X}), 404, "NotFoundError"),
    ],
    ids=range(17),
)
def test_safetensors_that_are_none(http, body, status, name):
    found = http.post("/v1/models/m/infer", content=body, headers=BINARY)
    assert is_problem(found, status, name)


@pytest.mark.parametrize("path", ["/v1/graphs", "/v1/models/m/infer", "/v1/models/m/select"])
@pytest.mark.parametrize("given", [None, "text/plain", "application/x-www-form-urlencoded", "json"])
def test_content_types_are_strict(http, path, given):
    headers = {"Content-Type": given} if given else {}
    found = http.post(path, content=json.dumps(GRAPH).encode(), headers=headers)
    assert "Content-Type" in is_problem(found, 415, None)


def test_compressed_bodies_are_refused(http):
    headers = JSON | {"Content-Encoding": "gzip"}
    is_problem(http.post("/v1/graphs", content=b"\x1f\x8b", headers=headers), 415, None)


def test_models_are_not_taken_as_json(http):
    is_problem(http.put("/v1/models/n/versions/1", json={}), 415, None)


@pytest.mark.parametrize("path", ["/v1/graphs", "/v1/models/m/infer"])
@pytest.mark.parametrize("headers", [JSON, BINARY], ids=["json", "safetensors"])
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_over_the_limit(http, path, headers, chunked):
    size = 1 + (LIMITS.json_bytes if headers is JSON else LIMITS.body_bytes)
    body = (b"x" * 1000 for _ in range(size // 1000 + 1)) if chunked else b"x" * size
    is_problem(http.post(path, content=body, headers=headers), 413, "TooLargeError")


def test_an_announced_length_is_refused_before_the_body_is_sent(http):
    head = (
        "POST /v1/graphs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Content-Length: 99999999999\r\n\r\n"
    )
    with socket.create_connection((http.base_url.host, http.base_url.port), 30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("path", "status", "name"),
    [
        ("/v1/models/..%2f..%2fm/versions/1", 404, None),
        ("/v1/models/%2e%2e/versions/1", 400, "MalformedError"),
        ("/v1/models/.m/versions/1", 400, "MalformedError"),
        ("/v1/models/m%00/versions/1", 400, "MalformedError"),
        ("/v1/models/m%0a/versions/1", 400, "MalformedError"),
        ("/v1/models/m/versions/0", 400, "MalformedError"),
        ("/v1/models/m/versions/-1", 400, "MalformedError"),
        ("/v1/models/m/versions/one", 400, "MalformedError"),
        ("/v1/models/m/versions/99999999999999999999", 400, "MalformedError"),
        ("/v1/graphs/..%2f..%2fetc%2fpasswd", 404, None),
        ("/v1/graphs/%2e%2e", 404, "NotFoundError"),
        ("/v1/graphs/" + "A" * 32, 404, "NotFoundError"),
        ("/v1/nothing", 404, None),
        ("/docs", 404, None),
        ("/uis", 404, None),
    ],
    ids=range(15),
)
def test_paths_that_lead_nowhere(http, path, status, name):
    url = httpx.URL(http.base_url, raw_path=path.encode())
    is_problem(http.get(url), status, name)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/health/live", "GET, HEAD"),
        ("/v1/graphs", "GET, HEAD, POST"),
        ("/v1/models/m/versions/1", "DELETE, GET, HEAD, PUT"),
    ],
)
def test_methods_that_a_path_has_not(http, path, methods):
    found = http.patch(path)
    is_problem(found, 405, None)
    assert found.headers["allow"] == methods


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:80:80"])
def test_a_local_service_answers_under_its_own_name_only(http, host):
    is_problem(http.get("/v1/models", headers={"Host": host}), 421, None)


@pytest.mark.parametrize("path", ["/v1/models", "/v2/repository/index"])
def test_pages_of_other_origins_get_nothing_from_a_service_without_a_key(http, path):
    own = f"http://{http.base_url.host}:{http.base_url.port}"
    method = "GET" if path == "/v1/models" else "POST"
    for origin in ("http://evil.example", "null", "http://127.0.0.1", f"{own}.evil.example"):
        assert http.request(method, path, headers={"Origin": origin}).status_code == 403
    assert http.request(method, path, headers={"Origin": own}).status_code == 200


def test_a_result_that_json_cannot_hold(http):
    tensors = {f"graph/{n}": torch.tensor(GRAPH[n]) for n in ("src", "dst", "etype")}
    tensors["x"] = torch.full((3, 4), torch.inf)
    endless = pack('{"graph": {"num_nodes": 3}}', tensors)
    path, as_json = "/v1/models/m/infer", BINARY | {"Accept": "application/json"}
    found = http.post(path, content=endless, headers=as_json)
    assert "safetensors" in is_problem(found, 422, "InputError")
    found = http.post(path, content=endless, headers=BINARY)
    assert not unpack(found.content).tensors["out/1"].isfinite().all()


def test_numbers_that_outgrow_float32_on_the_way(http):
    big = INFER | {"x": [[3e38] * 4] * 3}
    path, accept = "/v1/models/m/infer", {"Accept": MEDIA_TYPE}
    found = http.post(path, json=big, headers=accept)
    layers = json.loads(unpack(found.content).document)["layers"]
    assert "outgrows float32" in layers[0]["uncompiled"]
    big["variants"] = [layer["variant"] for layer in layers]
    found = http.post(path, json=big, headers=accept)
    assert "scale features or weights down" in is_problem(found, 422, "InputError")


# Limits and failures, each with a service of its own.


@contextmanager
def busy(service):
    """The URL of a service that computes, until the end."""
    entered, leave = threading.Event(), threading.Event()
    select = service.selection.select

    def slow(*args, **options):
        entered.set()
        assert leave.wait(30)
        return select(*args, **options)

    object.__setattr__(service.selection, "select", slow)
    with serving(application(service)) as url, ThreadPoolExecutor(1) as pool:
        asked = f"{url}/v1/models/m/select"
        first = pool.submit(httpx.post, asked, json={"graph": GRAPH}, timeout=60)
        try:
            assert entered.wait(30)
            yield url
            assert not first.done()
        finally:
            leave.set()
        assert first.result().status_code == 200
        assert httpx.post(f"{url}/v1/models/m/infer", json=INFER, timeout=60).status_code == 200


def test_those_that_would_have_to_wait_too_long_are_refused(tmp_path):
    service = make_service(tmp_path, limits=replace(LIMITS, waiting=1, uploads=0))
    with busy(service) as url:
        for path, asked in (("/v1/models/m/infer", INFER), ("/v1/graphs", GRAPH)):
            found = httpx.post(f"{url}{path}", json=asked, timeout=60)
            is_problem(found, 429, "BusyError")
            assert found.headers["retry-after"] == "1"
        # The loop is not blocked.
        assert httpx.get(f"{url}/v1/health/live", timeout=60).status_code == 200


def test_who_waits_longer_than_its_deadline_is_answered_in_time(tmp_path):
    with busy(make_service(tmp_path, limits=replace(LIMITS, waiting=2))) as url:
        asked = f"{url}/v1/models/m/infer"
        late = {"deadline_seconds": 0.05}
        is_problem(httpx.post(asked, json=INFER | late, timeout=60), 504, "DeadlineError")
        binary = pack(json.dumps({"graph": "0" * 32} | late), {"x": X})
        is_problem(
            httpx.post(asked, content=binary, headers=BINARY, timeout=60), 504, "DeadlineError"
        )


def test_slow_bodies_end(tmp_path):
    service = make_service(tmp_path, limits=replace(LIMITS, body_seconds=0.2))
    with serving(application(service)) as url:
        parsed = httpx.URL(url)
        head = (
            "POST /v1/graphs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            "Content-Length: 100\r\n\r\n{"
        )
        with socket.create_connection((parsed.host, parsed.port), 30) as connection:
            connection.sendall(head.encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert not list((tmp_path / "staging").iterdir())


def test_answers_too_long_for_json(tmp_path):
    service = make_service(tmp_path, limits=replace(LIMITS, json_elements=11))
    with serving(application(service)) as url:
        found = httpx.post(f"{url}/v1/models/m/infer", json=INFER, timeout=60)
        assert "numbers in JSON" in is_problem(found, 413, "TooLargeError")


@pytest.mark.parametrize("error", [RuntimeError("secret path"), errors.CompileError("secret path")])
def test_failures_inside_are_not_told(service, caplog, error):
    def fail(*args, **options):
        raise error

    object.__setattr__(service.selection, "select", fail)
    with serving(application(service)) as url:
        found = httpx.post(f"{url}/v1/models/m/select", json={"graph": GRAPH}, timeout=60)
    name = "CompileError" if isinstance(error, errors.CompileError) else "HetuneError"
    detail = is_problem(found, 500, name)
    assert "secret" not in detail
    assert found.json()["request_id"] in detail
    assert "secret path" in caplog.text


# What is promised.


@pytest.mark.parametrize(
    "kind", [e for e in vars(errors).values() if isinstance(e, type)], ids=lambda e: e.__name__
)
def test_every_error_has_a_status(kind):
    assert 400 <= status_of(kind) < 600


def test_openapi_describes_every_body(http):
    found = http.get("/v1/openapi.json").json()
    text = json.dumps(found)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in found["components"]["schemas"]
    assert "$defs" not in text
    body = found["paths"]["/v1/models/{name}/infer"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", MEDIA_TYPE}


def test_examples_are_answered(http):
    described = http.get("/v1/openapi.json").json()
    schemas = described["components"]["schemas"]
    (graph,) = schemas["GraphDocument"]["examples"]
    names = {"name": "m", "model": "m", "version": "1", "features": "f"}
    names["id"] = http.post("/v1/graphs", json=graph).json()["id"]
    answered = set()
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
            kind = body.get("schema", {}).get("$ref", "").removeprefix("#/components/schemas/")
            if kind not in EXAMPLES:
                continue
            (example,) = schemas[kind]["examples"]
            answer = http.request(method, path.format_map(names), json=example)
            assert answer.status_code in (200, 201), (path, answer.text)
            answered.add(kind)
    assert answered == EXAMPLES.keys() - {"ModelDescription"}  # comes with weights


def test_the_example_of_a_model_is_one(service):
    description = parse(ModelDescription, json.dumps(EXAMPLES["ModelDescription"]))
    with pytest.raises(InputError, match="weights are missing"):
        service.models.add("example", 1, description, {})


def test_every_route_is_documented(service):
    docs = Path(__file__).resolve().parents[2] / "docs"
    page = (docs / "service-reference.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/\S+)`", page))
    found = {
        (method.upper(), path)
        for path, methods in routes(Dispatcher.of(service)).openapi()["paths"].items()
        for method in methods
    }
    assert documented == found | {("GET", "/v1/openapi.json")}

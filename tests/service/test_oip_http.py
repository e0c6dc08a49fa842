"""The Open Inference Protocol over plain HTTP: what it answers to everything else."""

import gzip
import json
import socket
import threading
import time
import zlib
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
import torch

from hetune.service.http.body import SMALL_BYTES
from hetune.service.server.app import application
from hetune.variants import errors
from hetune.variants.runtime.layer_use import LayerUse

from ._serving import LIMITS, asking, make_service, serving, tiny_features, tiny_graph

GRAPH = tiny_graph()
X = tiny_features()
EDGES = torch.stack([GRAPH.src, GRAPH.dst])
INPUTS = [
    {"name": "x", "shape": [7, 4], "datatype": "FP32", "data": X.tolist()},
    {"name": "edge_index", "shape": [2, 9], "datatype": "INT64", "data": EDGES.tolist()},
    {"name": "edge_type", "shape": [9], "datatype": "INT32", "data": GRAPH.etype.tolist()},
]
BODY = json.dumps({"inputs": INPUTS}).encode()
INFER = "/v2/models/m/infer"
LENGTH = "Inference-Header-Content-Length"


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    """A client of a service for tests that leave it as it is."""
    service = make_service(tmp_path_factory.mktemp("data"))
    app = application(service, hosts={"127.0.0.1"})
    with asking(app) as client:
        yield client


def is_error(response, status):
    """Checks the protocol's form of an error, and gives what it says."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    assert response.headers["x-request-id"]
    return response.json()["error"]


def binary(changed=None, **fields):
    """A request whose features follow the JSON, and its headers."""
    data = X.numpy().tobytes() if changed is None else changed
    first = INPUTS[0] | {"parameters": {"binary_data_size": len(data)}}
    del first["data"]
    text = json.dumps({"inputs": [first, *INPUTS[1:]], **fields}).encode()
    return text + data, {LENGTH: str(len(text))}


TYPES = ["application/json", "text/plain", "application/x-www-form-urlencoded", "nonsense", None]


@pytest.mark.parametrize("given", TYPES)
def test_the_content_type_says_nothing(http, given):
    headers = {"Content-Type": given} if given else {}
    plain = http.post(INFER, content=BODY, headers=headers)
    assert plain.headers["content-type"] == "application/json"
    assert LENGTH not in plain.headers
    body, length = binary(parameters={"binary_data_output": True})
    found = http.post(INFER, content=body, headers=headers | length)
    assert found.headers["content-type"] == "application/octet-stream"
    size = int(found.headers[LENGTH])
    numbers = torch.frombuffer(bytearray(found.content[size:]), dtype=torch.float32)
    assert numbers.tolist() == plain.json()["outputs"][0]["data"]
    assert json.loads(found.content[:size])["outputs"][0]["parameters"] == {"binary_data_size": 112}


def test_an_output_s_own_wish_goes_before_the_request_s(http):
    asked = {"outputs": [{"name": "out", "parameters": {"binary_data": False}}]}
    body, length = binary(parameters={"binary_data_output": True}, **asked)
    assert http.post(INFER, content=body, headers=length).json()["outputs"][0]["data"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"inputs": []}, 400),
        ({"inputs": INPUTS[:1]}, 400),
        ({"inputs": INPUTS[1:]}, 400),
        ({"inputs": [*INPUTS, INPUTS[0]]}, 400),
        ({"inputs": [*INPUTS, INPUTS[0] | {"name": "x/node"}]}, 400),
        ({"inputs": [INPUTS[0] | {"datatype": "FP64"}, *INPUTS[1:]]}, 400),
        ({"inputs": [INPUTS[0] | {"shape": [28]}, *INPUTS[1:]]}, 400),
        ({"inputs": [INPUTS[0], INPUTS[1] | {"shape": [9, 2]}, INPUTS[2]]}, 400),
        ({"inputs": [INPUTS[0], INPUTS[1] | {"data": [99] * 18}, INPUTS[2]]}, 400),
        ({"inputs": [*INPUTS[:2], INPUTS[2] | {"data": [7] * 9}]}, 400),
        ({"inputs": INPUTS[:1], "parameters": {"graph_id": "../../x"}}, 404),
        ({"inputs": INPUTS[:1], "parameters": {"graph_id": "0" * 32}}, 404),
        ({"parameters": {"graph_id": "0" * 32}}, 400),
        ({"outputs": [{"name": "out/paper"}]}, 400),
        ({"parameters": {"timeout": -5}}, 400),
        ({"parameters": {"timeout": 1}}, 503),
        (
            {"inputs": [{"name": "x/a", "shape": [1, 4], "datatype": "FP32", "data": [0.0] * 4}]},
            400,
        ),
    ],
    ids=range(17),
)
def test_requests_that_are_refused(http, change, status):
    is_error(http.post(INFER, json={"inputs": INPUTS} | change), status)


def test_counts_of_nodes_are_bounded_before_memory_is_taken(http):
    x = {"name": "x/a", "shape": [1, 4], "datatype": "FP32", "data": [0.0] * 4}
    for count in (2**31, 2**62):
        nodes = {"name": "num_nodes/b", "shape": [1], "datatype": "INT64", "data": [count]}
        assert "nodes" in is_error(http.post(INFER, json={"inputs": [x, nodes]}), 413)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 400),
        (b"{", {}, 400),
        (b"[" * 9000, {}, 400),
        (b"null", {}, 400),
        (BODY.replace(b"FP32", b"\xff\xff\xff\xff"), {}, 400),
        (BODY, {LENGTH: str(len(BODY) + 1)}, 400),
        (BODY, {LENGTH: "-1"}, 400),
        (BODY, {LENGTH: "x"}, 400),
        (BODY, {LENGTH: str(len(BODY) - 1)}, 400),
        (BODY + b"1234", {LENGTH: str(len(BODY))}, 400),
        (BODY, {"Content-Encoding": "br"}, 415),
        (BODY, {"Content-Encoding": "gzip, gzip"}, 415),
        (BODY, {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(BODY), {"Content-Encoding": "deflate"}, 400),
        (gzip.compress(BODY)[:-9], {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(bytes(30_000)), {"Content-Encoding": "gzip"}, 413),
        (zlib.compress(bytes(9_000_000)), {"Content-Encoding": "deflate"}, 413),
        (gzip.compress(bytes(9_000_000)), {"Content-Encoding": "gzip", LENGTH: "10"}, 413),
        (bytes(30_000), {}, 413),
        (bytes(300_000), {LENGTH: "10"}, 413),
        (b"[" + b" " * 30_000 + b"]", {LENGTH: "30002"}, 413),
    ],
    ids=range(21),
)
def test_bodies_that_are_refused(http, body, headers, status):
    is_error(http.post(INFER, content=body, headers=headers), status)


def test_the_header_counts_decompressed_bytes(http):
    body, length = binary()
    headers = length | {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
    found = http.post(INFER, content=gzip.compress(body), headers=headers)
    assert found.headers["content-encoding"] == "gzip"
    assert found.json() == http.post(INFER, content=BODY).json()


@pytest.mark.parametrize("what", ["index", "models/m/load", "models/m/unload"])
@pytest.mark.parametrize("headers", [{}, {LENGTH: "1"}], ids=["JSON", "more"])
def test_what_asks_the_repository_is_short(http, what, headers):
    body = b"{" + b" " * SMALL_BYTES + b"}"
    is_error(http.post(f"/v2/repository/{what}", content=body, headers=headers), 413)
    body = b"{" + b" " * (SMALL_BYTES - 2) + b"}"
    assert http.post(f"/v2/repository/{what}", content=body, headers=headers).is_success


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/models/other", 404),
        ("GET", "/v2/models/m/versions/9", 404),
        ("POST", "/v2/models/other/infer", 404),
        ("POST", "/v2/repository/models/other/unload", 404),
        ("GET", "/v2/models/.m", 400),
        ("GET", "/v2/models/%2e%2e/config", 400),
        ("GET", "/v2/models/m%00", 400),
        ("GET", "/v2/models/m/versions/one", 400),
        ("GET", "/v2/models/m/versions/-1/ready", 404),
        ("GET", INFER, 405),
        ("DELETE", "/v2", 405),
        ("GET", "/v2/repository/index", 405),
        ("POST", "/v2/health/live", 405),
    ],
)
def test_paths_and_methods_that_there_are_not(http, method, path, status):
    found = http.request(method, httpx.URL(http.base_url, raw_path=path.encode()))
    assert is_error(found, status)
    assert ("allow" in found.headers) == (status == 405)


def test_other_host_names(http):
    is_error(http.get("/v2", headers={"Host": "evil.example"}), 421)
    is_error(http.get("/v2", headers={"Origin": "http://evil.example"}), 403)


def test_the_neighbours_of_the_protocol_answer_as_before(http):
    for path in ("/v2x", "/v1/nothing"):
        assert http.get(path).headers["content-type"] == "application/problem+json"


def test_both_forms_of_the_root(http):
    assert http.get("/v2").json() == http.get("/v2/").json()
    assert "binary_tensor_data" in http.get("/v2").json()["extensions"]
    assert http.get("/v2/health/live").json() == {"live": True}
    assert http.get("/v2/health/ready").json() == {"ready": True}
    assert http.get("/v2/models/m/ready").json() == {"name": "m", "ready": True}


def test_a_result_that_json_cannot_hold(http):
    data = torch.full((7, 4), torch.inf).numpy().tobytes()
    body, length = binary(data)
    assert "binary_data" in is_error(http.post(INFER, content=body, headers=length), 400)
    body, length = binary(data, parameters={"binary_data_output": True})
    assert http.post(INFER, content=body, headers=length).status_code == 200


def test_a_result_that_outgrows_float32(http):
    data = torch.full((7, 4), 3e38).numpy().tobytes()
    body, length = binary(data, parameters={"binary_data_output": True})
    found = http.post(INFER, content=body, headers=length)
    assert found.status_code == 200
    answer = json.loads(found.content[: int(found.headers[LENGTH])])
    assert "outgrows float32" in answer["parameters"]["uncompiled"]


def test_a_body_that_ends_early(http):
    head = f"POST {INFER} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{{"
    with socket.create_connection((http.base_url.host, http.base_url.port), 30) as connection:
        connection.sendall(head.encode())
    assert http.get("/v2/health/live").status_code == 200


# Failures, each with a service of its own.


@pytest.mark.parametrize("error", [RuntimeError("secret"), errors.CompileError("secret")])
def test_failures_inside_are_not_told(service, caplog, error):
    def fail(*args, **options):
        raise error

    object.__setattr__(service.inference, "run", fail)
    with serving(application(service)) as url:
        found = httpx.post(f"{url}{INFER}", content=BODY, timeout=60)
        counted = httpx.get(f"{url}/v2/models/m/stats", timeout=60).json()["model_stats"][0]
    assert "secret" not in is_error(found, 500)
    assert "secret" in caplog.text
    assert counted["inference_stats"]["fail"]["count"] == 1


def test_a_folder_that_cannot_be_written_is_not_ready(service):
    def fail():
        raise errors.FolderError("full")

    with serving(application(service)) as url:
        service.folder.staged = fail
        is_error(httpx.get(f"{url}/v2/health/ready", timeout=60), 503)


def test_who_waits_longer_than_its_timeout_is_answered_in_time(tmp_path):
    service = make_service(tmp_path, limits=replace(LIMITS, waiting=2))
    entered, leave = threading.Event(), threading.Event()
    run = service.inference.run

    def slow(*args, **options):
        entered.set()
        assert leave.wait(30)
        return run(*args, **options)

    object.__setattr__(service.inference, "run", slow)
    late = json.dumps({"inputs": INPUTS, "parameters": {"timeout": 50_000}}).encode()
    with serving(application(service)) as url:
        answers = []
        first = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}{INFER}", content=BODY, timeout=60))
        )
        first.start()
        assert entered.wait(30)
        assert "time" in is_error(httpx.post(f"{url}{INFER}", content=late, timeout=60), 503)
        assert not answers  # the one before it is still at work
        leave.set()
        first.join()
        assert answers[0].status_code == 200
        assert httpx.post(f"{url}{INFER}", content=BODY, timeout=60).status_code == 200


def test_a_full_queue_is_a_503_with_a_time_to_come_back(tmp_path):
    service = make_service(tmp_path, limits=replace(LIMITS, waiting=0))
    with serving(application(service)) as url:
        found = httpx.post(f"{url}{INFER}", content=BODY, timeout=60)
    is_error(found, 503)
    assert found.headers["retry-after"] == "1"


def test_deadlines_are_checked_between_layers(service, monkeypatch):
    layers = []
    model = service.models.get("m")

    def run(number):
        def layer(x, graph, *, variant):
            layers.append(number)
            return torch.zeros(graph.num_nodes, model.description.widths[number + 1])

        use = LayerUse()
        layer.check_graph, layer.vocabulary = (lambda graph, mend: None), None
        layer.use_of = lambda graph: use
        return layer

    compiled = tuple(run(number) for number in range(2))
    object.__setattr__(model, "compiled", compiled)
    service.inference.run("m", GRAPH, X, deadline=time.monotonic() + 60)
    assert layers == [0, 1]
    times = iter([0.0, 0.0, 1.0])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("hetune.service.core.inference.deadline.time", clock)
    with pytest.raises(errors.DeadlineError, match="more time"):
        service.inference.run("m", GRAPH, X, deadline=1.0)
    assert layers == [0, 1, 0]

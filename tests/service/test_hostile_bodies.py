"""Bodies that would take more than they are: bombs, shapes, depths, numbers, texts, dtypes."""

import gzip
import json
import tracemalloc
import zlib
from types import SimpleNamespace

import pytest
import torch

from hetune.service.core.formats.message import MEDIA_TYPE, pack
from hetune.service.server.app import application

from ._serving import LIMITS, asking, make_service

MOST_BYTES = 20 * (LIMITS.body_bytes + LIMITS.json_bytes)
"""What a refused request may take for a moment; each of those here asks for far more."""
V1, V2 = "/v1/models/m/infer", "/v2/models/m/infer"
BINARY = {"Content-Type": MEDIA_TYPE}
JSON = {"Content-Type": "application/json"}
GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
RUN = {"graph": GRAPH, "x": [[0.0, 1.0, 2.0, 3.0]] * 3}
TENSORS = {f"graph/{name}": torch.tensor(GRAPH[name]) for name in ("src", "dst", "etype")}
X = torch.ones(3, 4)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service and a client of it."""
    service = make_service(tmp_path_factory.mktemp("data"))
    app = application(service)
    with asking(app) as http:
        http.post(V1, json=RUN)  # what is made once is made now
        yield SimpleNamespace(http=http, service=service)


@pytest.fixture
def refused(served):
    """Posts a body, checks that it is refused cleanly and cheaply, and gives the status."""

    def post(path, body, headers=None):
        tracemalloc.start()
        try:
            found = served.http.post(path, content=body, headers=headers or {})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert 400 <= found.status_code < 500, found.text[:300]
        document = found.json()
        keys = {"error"} if path.startswith("/v2") else {*document, "type", "detail"}
        assert set(document) == keys
        assert len(found.content) < 3000
        assert peak < MOST_BYTES
        return found.status_code

    return post


def raw_deflate(content):
    stream = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return stream.compress(content) + stream.flush()


BOMB = bytes(30_000_000)
GZIPPED, DEFLATED = gzip.compress(BOMB), zlib.compress(BOMB)


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        ("gzip", GZIPPED, 413),
        ("deflate", DEFLATED, 413),
        ("gzip", gzip.compress(GZIPPED), 413),
        ("gzip", gzip.compress(gzip.compress(GZIPPED)), 400),
        ("gzip", gzip.compress(b"{}") + gzip.compress(bytes(9000)), 400),
        ("gzip", gzip.compress(b"") * 1000, 400),
        ("deflate", raw_deflate(b"{}"), 400),
        ("gzip, gzip", gzip.compress(GZIPPED), 415),
        ("x-gzip", GZIPPED, 415),
        ("br", b"", 415),
    ],
    ids=range(10),
)
@pytest.mark.parametrize("length", [None, "10"])
def test_bombs(refused, coding, body, status, length):
    headers = {"Content-Encoding": coding}
    if length is not None:
        headers["Inference-Header-Content-Length"] = length
    found = refused(V2, body, headers)
    assert found == status or (length is not None and found in (400, 413))
    assert refused("/v1/graphs", body[:1000], JSON | {"Content-Encoding": coding}) == 415


def container(header, data=b""):
    """A safetensors container with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def described(dtype="F32", shape=(3, 4), offsets=(0, 48)):
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


@pytest.mark.parametrize(
    "body",
    [
        b"\xff" * 8,
        (2**63).to_bytes(8, "little") + b"{}",
        (100_000_000).to_bytes(8, "little") + b"{}",
        container(described(), bytes(47)),
        container(described(), bytes(49)),
        container(described(shape=(2**40, 2**40)), bytes(48)),
        container(described(shape=(2**63, 2)), bytes(48)),
        container(described(shape=(2**64, 2)), bytes(48)),
        container(described(shape=(-3, -4)), bytes(48)),
        container(described(shape=(0, 2**62), offsets=(0, 0))),
        container(described(offsets=(48, 0)), bytes(48)),
        container(described(offsets=(0, 2**63)), bytes(48)),
        container(described(offsets=(1, 49)), bytes(49)),
        container(described(dtype="F128"), bytes(48)),
        container({"__metadata__": {"document": 1}, **described()}, bytes(48)),
        container({"__metadata__": [], **described()}, bytes(48)),
        container(b"[" * 50_000),
        container(b'{"x":' * 20_000),
        container(b'{"\xed\xa0\x80": {}}'),
        container(b" " * 100_000 + b"{}"),
        pack('{"graph": ' + "[" * 10_000 + "]" * 10_000 + "}", {"x": X}),
        pack('{"graph": "\\ud800"}', {"x": X}),
        pack('{"graph": {"num_nodes": 1e999}}', {"x": X, **TENSORS}),
        pack('{"graph": {"num_nodes": NaN}}', {"x": X, **TENSORS}),
        pack('{"graph": {"num_nodes": 2147483647}}', {"x": X, **TENSORS}),
        pack('{"graph": {}, "version": 0}', {"x": X, **TENSORS}),
    ],
    ids=range(26),
)
def test_containers(refused, body):
    for path in (V1, "/v1/models/m/select", "/v1/graphs"):
        refused(path, body, BINARY)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("x", X.double()),
        ("x", X.half()),
        ("x", X.bfloat16()),
        ("x", X.long()),
        ("x", X > 0),
        ("x", X[0]),
        ("x", X[None]),
        ("x", torch.empty(0, 4)),
        ("graph/src", torch.tensor([0.0, 1.0])),
        ("graph/src", torch.tensor([True, False])),
        ("graph/src", torch.tensor([0, 1], dtype=torch.uint8)),
        ("graph/src", torch.tensor([[0, 1]])),
        ("graph/src", torch.tensor([0, 2**62])),
        ("graph/dst", torch.tensor([0, -(2**63)])),
        ("graph/dst", torch.tensor([-1, 0])),
        ("graph/etype", torch.tensor([0, 2**40])),
        ("graph/etype", torch.tensor([-1, 0])),
        ("graph/ntype", torch.tensor([0, 2**31])),
        ("graph/ntype", torch.tensor([-(2**63), 0, 0])),
        ("nodes", torch.tensor([2**62])),
        ("nodes", torch.tensor([-1])),
        ("nodes", X),
        ("nodes", X > 0),
    ],
    ids=range(23),
)
def test_dtypes_and_ids(refused, name, tensor):
    body = pack('{"graph": {}}', {"x": X, **TENSORS} | {name: tensor})
    assert refused(V1, body, BINARY) in (400, 413, 422)


TEXT = json.dumps(RUN)
INPUT = {"name": "x", "shape": [3, 4], "datatype": "FP32", "data": [0.5] * 12}
PROTOCOL = json.dumps({"inputs": [INPUT], "parameters": {"graph_id": "0"}})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.0", "NaN"),
        ("0.0", "-Infinity"),
        ("0.0", "1e999"),
        ("0.0", "-1e39"),
        ("0.0", "9" * 10_000),
        ("0.0", "0." + "1" * 19_000 + "e400"),
        ("0.0", "[" * 5000 + "]" * 5000),
        ("0.0", '"\\ud800"'),
        ('"num_nodes": 3', '"num_nodes": ' + "9" * 10_000),
        ('"num_nodes": 3', '"num_nodes": -0.0'),
        ('"num_nodes": 3', '"num_nodes": true'),
        ('"num_nodes": 3', '"ntype_names": ["\\ud800"]'),
        ('"num_nodes": 3', '"ntype_names": ["a", "a"], "ntype": [0, 0, 1]'),
        ('"num_nodes": 3', '"num_nodes": 3, "num_nodes": -1'),
        ('"src"', '"\\ud800"'),
        ('"src"', '"__proto__"'),
        ('"src": [0', '"src": [' + "0," * 9000 + "0"),
    ],
    ids=range(17),
)
def test_json(refused, old, new):
    assert old in TEXT
    assert refused(V1, TEXT.replace(old, new, 1).encode(), JSON) in (400, 413, 422)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[3, 4]", "[4611686018427387904, 4611686018427387904]"),
        ("[3, 4]", "[0, 9223372036854775807]"),
        ("[3, 4]", "[-3, -4]"),
        ("[3, 4]", "[" + "1, " * 5000 + "12]"),
        ("[3, 4]", "[3.0, 4.0]"),
        ("[3, 4]", "[" + "9" * 5000 + "]"),
        ("0.5", "NaN"),
        ("0.5", "1" * 5000),
        ("0.5", "[" * 5000 + "]" * 5000),
        ('"x"', '"x/\\ud800"'),
        ('"x"', '"x/%ed%a0%80"'),
        ('"x"', '"num_nodes/' + "a" * 10_000 + '"'),
        ('"FP32"', '"BYTES"'),
        ('"FP32"', '"\\u0000"'),
        ('"graph_id": "0"', '"graph_id": "../../etc/passwd"'),
        ('"graph_id": "0"', '"graph_id": "\\ud800"'),
        ('"graph_id": "0"', '"graph_id": "0", "timeout": ' + "9" * 400),
        ('"graph_id": "0"', '"graph_id": "0", "timeout": -9223372036854775808'),
    ],
    ids=range(18),
)
def test_json_of_the_protocol(refused, old, new):
    assert old in PROTOCOL
    assert refused(V2, PROTOCOL.replace(old, new, 1).encode()) in (400, 404, 413)


@pytest.mark.parametrize(
    "campaign",
    [
        "\ud800",
        "../../etc/passwd",
        {"name": "a" * 10_000},
        {"layers": ["rgcn"] * 2000},
        {"name": "x", "layers": ["rgcn"], "widths": [2**70], "graphs": []},
        {"name": "x", "layers": ["rgcn"], "widths": [-1], "graphs": [{"kind": "typed"}]},
        {"graphs": [{"kind": "typed", "nodes": 2**62, "edges": 2**62}]},
        {"graphs": [{"kind": "file", "path": "/etc/passwd"}]},
    ],
    ids=range(8),
)
def test_campaigns(refused, campaign):
    body = json.dumps({"campaign": campaign}).encode()
    assert refused("/v1/profiling/jobs", body, JSON) in (400, 413, 422)


@pytest.mark.parametrize(
    "query", ["limit=%00", "before=9" + "9" * 400, "limit=%ed%a0%80", "state="]
)
def test_queries(served, query):
    found = served.http.get(f"/v1/profiling/jobs?{query}")
    assert found.status_code == 400
    assert found.json()["title"] == "Bad Request"

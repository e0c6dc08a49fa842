"""Long bodies that are wrong in every entry are refused as cheaply as short ones.

With HETUNE_FULL_MATRIX=1 they are 8 MiB, and time and `/healthz` are looked at, too.
"""

import itertools
import json
import sys
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
from tests.full import FULL

from hetune.service.core.formats import container, documents
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.formats.message import MEDIA_TYPE
from hetune.service.server.app import application

from ._measured import Watch, growth, response_time
from ._serving import make_service, serving, tiny_features, tiny_graph

SIZE = 8 << 20 if FULL else 2 << 20
LIMITS = ServiceLimits()
MOST_ERRORS = 20
EDGES = '"src":[0,1],"dst":[1,2],"etype":[0,1],"num_nodes":3'
GRAPH = '"graph":{' + EDGES + "}"
ROWS = '"x":[[0,0,0,0],[0,0,0,0],[0,0,0,0]]'
GIVEN, RUN = "{" + GRAPH + ",", "{" + GRAPH + "," + ROWS + ","
IN_JSON = '{"inputs":[{"name":"x","shape":[3,4],"datatype":"FP32","data":['
EMPTY = '{"name":"edge_index/a/%d/b","shape":[2,0],"datatype":"INT64","data":[]}'
NUMBERED = "%d"
"""Where a unit's number stands in it."""

INFER, SELECT, PROTOCOL = "/v1/models/m/infer", "/v1/models/m/select", "/v2/models/m/infer"
GRAPHS, EDIT = "/v1/graphs", "/v1/graphs/{graph}"
FEATURES, JOBS = "/v1/graphs/{graph}/features/new", "/v1/profiling/jobs"

BODIES = [
    ("POST", PROTOCOL, '{"inputs":[', "{},", "0]}"),
    ("POST", PROTOCOL, '{"inputs":[', "[0],", "0]}"),
    ("POST", PROTOCOL, '{"inputs":[],"outputs":[', '"",', "0]}"),
    ("POST", PROTOCOL, IN_JSON, "{},", "0]}]}"),
    ("POST", PROTOCOL, IN_JSON, "0,", "0]}]}"),
    ("POST", PROTOCOL, IN_JSON[:23] + '"shape":[', "1,", "1]}]}"),
    ("POST", PROTOCOL, '{"inputs":[],"parameters":{', '"a%d":[0],', '"a":0}}'),
    ("POST", PROTOCOL, '{"inputs":[],"parameters":{', '"a%d":0,', '"a":0}}'),
    ("POST", PROTOCOL, '{"inputs":[],"outputs":[', '{"name":"o%d"},', '{"name":"o"}]}'),
    ("POST", PROTOCOL, '{"inputs":[', EMPTY + ",", EMPTY + "]}"),
    ("POST", SELECT, '{"graph":"","variants":{', '"a%d":0,', '"a":0}}'),
    ("POST", INFER, RUN + '"variants":{', '"a%d":0,', '"a":0}}'),
    ("PATCH", EDIT, '{"add_nodes":{', '"a%d":0,', '"a":0}}'),
    ("PATCH", EDIT, '{"add":{', '"a%d":[[],[]],', '"a":[[],[]]}}'),
    ("POST", GRAPHS, '{"dst":[],"src":[', '"",', "0]}"),
    ("POST", GRAPHS, '{"dst":[],"src":[', "0,", "0]}"),
    ("POST", GRAPHS, '{"dst":[],"src":[', "[],", "0]}"),
    ("POST", GRAPHS, '{"dst":[],"src":[0],', '"a%d":0,', '"a":0}'),
    ("POST", GRAPHS, '{"dst":[0],"src":[0],"canonical_etypes":[', "[],", "0]}"),
    ("POST", GRAPHS, '{"dst":[0],"src":[0],"canonical_etypes":[', '["","",0],', "0]}"),
    ("POST", GRAPHS, '{"dst":[0],"src":[0],"ntype_names":[', "0,", "0]}"),
    ("PATCH", EDIT, '{"add":{', '"a%d":0,', '"a":0}}'),
    ("PATCH", EDIT, '{"add":{', '"a%d":[[0],[0]],', '"a":0}}'),
    ("PATCH", EDIT, '{"add_nodes":{', '"a%d":"",', '"a":""}}'),
    ("PATCH", EDIT, '{"remove":{"0":[[0],[', '"",', "0]]}}"),
    ("PUT", FEATURES, '{"x":[', '"",', "0]}"),
    ("PUT", FEATURES, '{"x":[', "[0],", "[0]]}"),
    ("PUT", FEATURES, '{"x":[', "[],", "[]]}"),
    ("PUT", FEATURES, '{"x":[', '[""],', "[0]]}"),
    ("PUT", FEATURES, '{"x":{', '"a%d":"",', '"a":0}}'),
    ("POST", INFER, GIVEN + '"x":[', '"",', "0]}"),
    ("POST", INFER, GIVEN + '"x":[', "[0],", "[0]]}"),
    ("POST", INFER, GIVEN + '"x":[', "[[0]],", "[0]]}"),
    ("POST", INFER, GIVEN + '"x":[', '[0,""],', "[0]]}"),
    ("POST", INFER, GIVEN + '"x":[{', '"a%d":0,', '"a":0}]}'),
    ("POST", INFER, RUN + '"nodes":[', "{},", "0]}"),
    ("POST", INFER, RUN + '"nodes":{', '"a%d":0,', '"a":0}}'),
    ("POST", INFER, RUN + '"outputs":[', "0,", "0]}"),
    ("POST", INFER, RUN + '"variants":[', "0,", "0]}"),
    ("POST", INFER, RUN + "", '"a%d":0,', '"deadline_seconds":""}'),
    ("POST", INFER, '{"graph":{' + EDGES + ',', '"a%d":0,', '"a":0}}'),
    ("POST", SELECT, '{"graph":{"src":[', '"",', "0]}}"),
    ("POST", SELECT, '{"graph":[', "{},", "0]}"),
    ("POST", JOBS, '{"campaign":{"layers":[', "{},", "0]}}"),
    ("POST", JOBS, '{"campaign":{', '"a%d":0,', '"a":0}}'),
    ("POST", JOBS, '{"campaign":"smoke",', '"a%d":0,', '"a":0}'),
    ("POST", GRAPHS, "", "[", ""),
    ("POST", GRAPHS, "", "[0", ""),
    ("POST", GRAPHS, "", '[[0,"', ""),
    ("POST", GRAPHS, '"', '\\"', ""),
    ("POST", INFER, "", '{"a":', ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with a graph and features, and where it is."""
    service = make_service(tmp_path_factory.mktemp("data"), limits=LIMITS)
    graph = service.graphs.add(tiny_graph())
    service.features.put(graph, "base", tiny_features())
    with (
        serving(application(service)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=120) as http,
    ):
        yield SimpleNamespace(http=http, url=url, at={"graph": graph})


@pytest.fixture
def errors(monkeypatch):
    """How many errors pydantic kept, each time that there were some."""
    counts = []
    explain = documents._explain

    def counted(error):
        counts.append(error.error_count())
        return explain(error)

    monkeypatch.setattr(documents, "_explain", counted)
    return counts


def long(prefix, unit, suffix):
    """A body of so many units."""
    if NUMBERED in unit:
        sized = itertools.takewhile(
            lambda number: number * len(unit) < SIZE - 4096, itertools.count()
        )
        parts = [unit % number for number in sized]
        while sum(map(len, parts)) > SIZE - 4096:
            parts = parts[: len(parts) * 9 // 10]
        middle = "".join(parts)
    else:
        middle = unit * ((SIZE - 4096) // len(unit))
    return (prefix + middle + suffix).encode()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("method", "path", "prefix", "unit", "suffix"), BODIES, ids=range(len(BODIES))
)
def test_what_is_wrong_everywhere_is_refused_at_once(
    served, errors, method, path, prefix, unit, suffix
):
    body = long(prefix, unit, suffix)
    kind = {"Content-Type": "application/json"}
    usual = response_time(served.url)
    begun = time.process_time()
    with Watch(served.url) as watch, growth() as grown:
        found = served.http.request(method, path.format(**served.at), content=body, headers=kind)
    seconds = time.process_time() - begun
    assert found.status_code in (400, 413, 422), found.text[:300]
    assert len(found.content) < 3000
    assert max(errors, default=0) <= MOST_ERRORS
    assert grown.bytes < 4 * len(body) + (64 << 20)
    if FULL:
        factor = grown.bytes / len(body)
        print(f"{seconds:.2f} s, {watch.slowest:.3f} s ({usual:.3f}), {factor:.1f}: {path} {unit}")
        assert seconds < 1
        assert watch.slowest < 0.1 + 10 * usual


def test_long_documents_are_not_read_in_the_event_loop(served, monkeypatch):
    read, threads = documents.Document.model_validate_json.__func__, {}

    def noted(kind, text, **options):
        threads[kind.__name__] = threading.current_thread().name
        return read(kind, text, **options)

    monkeypatch.setattr(documents.Document, "model_validate_json", classmethod(noted))
    kind = {"Content-Type": "application/json"}
    names = {
        ("POST", INFER): "InferDocument",
        ("POST", SELECT): "SelectDocument",
        ("POST", PROTOCOL): "InferenceRequest",
        ("POST", GRAPHS): "GraphDocument",
        ("PATCH", EDIT): "EditDocument",
        ("PUT", FEATURES): "FeaturesDocument",
        ("POST", JOBS): "JobRequest",
        ("POST", "/v2/repository/index"): "IndexRequest",
        ("PUT", "/v1/models/m/aliases/a"): "NamedVersion",
    }
    (loop,) = {thread.name for thread in threading.enumerate() if "serving" in thread.name}
    for (method, path), name in names.items():
        body = b'{"a":0' + b" " * 60_000 + b"}"
        served.http.request(method, path.format(**served.at), content=body, headers=kind)
        assert threads[name] != loop


def test_tensors_that_have_no_use_are_refused_at_once(served):
    header = {
        f"x/{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(20_000)
    }
    text = json.dumps({"__metadata__": {"document": '{"graph":{}}'}, **header}).encode()
    body = len(text).to_bytes(8, "little") + text
    kind = {"Content-Type": MEDIA_TYPE}
    for method, path in (
        ("POST", INFER),
        ("POST", SELECT),
        ("POST", GRAPHS),
        ("PATCH", EDIT),
        ("PUT", FEATURES),
        ("PUT", "/v1/models/other/versions/1"),
    ):
        found = served.http.request(method, path.format(**served.at), content=body, headers=kind)
        assert found.status_code == 413, found.text
        assert "tensors of a container" in found.text


@pytest.fixture
def seen(monkeypatch):
    """Texts that something was made of."""
    texts = []
    read, loads = documents.Document.model_validate_json.__func__, json.loads

    def noted(kind, text, **options):
        texts.append(text)
        return read(kind, text, **options)

    def noted_too(text, **options):
        texts.append(text)
        return loads(text, **options)

    monkeypatch.setattr(documents.Document, "model_validate_json", classmethod(noted))
    monkeypatch.setattr(container.json, "loads", noted_too)
    return texts


MANY = 30_000
COUNTED = [
    ("POST", PROTOCOL, {"inputs": [], "outputs": [{"name": f"o{n}"} for n in range(MANY)]}),
    ("POST", PROTOCOL, {"inputs": [{"name": f"edge_index/{n}"} for n in range(MANY)]}),
    ("POST", PROTOCOL, {"inputs": [], "parameters": {f"p{n}": 0 for n in range(3 * MANY)}}),
    ("POST", SELECT, {"graph": "", "variants": {f"a{n}": 0 for n in range(MANY)}}),
    ("POST", INFER, {"graph": "", "variants": {f"a{n}": 0 for n in range(5 * MANY)}}),
    ("POST", GRAPHS, {"src": [], "dst": []} | {f"a{n}": 0 for n in range(MANY)}),
    ("PUT", FEATURES, {"x": {f"a{n}": 0 for n in range(5 * MANY)}}),
    ("PATCH", EDIT, {"add_nodes": {f"a{n}": 0 for n in range(MANY)}}),
    ("PATCH", EDIT, {"add": {f"a{n}": [[], []] for n in range(MANY)}}),
]


@pytest.mark.parametrize(("method", "path", "document"), COUNTED, ids=range(len(COUNTED)))
def test_what_has_no_use_is_counted_before_it_is_read(served, seen, method, path, document):
    text = json.dumps(document).encode()
    kind = {"Content-Type": "application/json"}
    headers = [kind]
    if path is PROTOCOL:
        headers.append({"Inference-Header-Content-Length": str(len(text))})
    for given in headers:
        found = served.http.request(method, path.format(**served.at), content=text, headers=given)
        assert found.status_code == 413, found.text
        assert " of a document are more than the " in found.text
        assert not seen


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"outputs": [{"name": f"o{n}"} for n in range(1_001)]}, "1001 outputs"),
        ({"inputs": [{"name": "x", "shape": [0], "datatype": "FP32"}] * 8_193}, "8193 inputs"),
        ({"parameters": {f"p{n}": 0 for n in range(257)}}, "257 parameters of a request"),
        (
            {"outputs": [{"name": "x", "parameters": {f"p{n}": 0 for n in range(257)}}]},
            "257 parameters of a tensor",
        ),
    ],
)
def test_the_protocol_has_as_many_as_containers_and_v1_have(served, fields, what):
    found = served.http.post(PROTOCOL, json={"inputs": []} | fields)
    assert found.status_code == 413
    assert f"{what} are more than the " in found.text


@pytest.mark.parametrize("count", [300, 50_000])
def test_metadata_that_has_no_use_is_refused_at_once(served, seen, count):
    metadata = {f"a{n}": "" for n in range(count)} | {"document": '{"add_nodes":{"0":1}}'}
    text = json.dumps({"__metadata__": metadata}).encode()
    body = len(text).to_bytes(8, "little") + text
    kind = {"Content-Type": MEDIA_TYPE}
    for method, path in (
        ("POST", INFER),
        ("POST", SELECT),
        ("POST", GRAPHS),
        ("PATCH", EDIT),
        ("PUT", FEATURES),
        ("PUT", "/v1/models/other/versions/1"),
    ):
        found = served.http.request(method, path.format(**served.at), content=body, headers=kind)
        assert found.status_code == 413, found.text
        assert ("texts of a header" if count > 1_000 else "container's metadata") in found.text
    assert bool(seen) == (count == 300)

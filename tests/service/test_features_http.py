"""Features that are kept with a graph, over HTTP: their routes, and runs that name them."""

from types import SimpleNamespace

import pytest
import torch

from hetune.service.core.formats import container
from hetune.service.core.formats.message import MEDIA_TYPE, pack, unpack
from hetune.service.server.app import application

from ._serving import LIMITS, asking, make_service, tiny_features, tiny_graph

X = tiny_features()
TYPED = {"x/author": X[:3], "x/paper": X[3:]}
BINARY = {"Content-Type": MEDIA_TYPE}
NO_GRAPH = "0" * 32
V1, V2 = "/v1/models/m/infer", "/v2/models/m/infer"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A service with a graph, whose features have both forms."""
    service = make_service(tmp_path_factory.mktemp("data"))
    id = service.graphs.add(tiny_graph())
    service.features.put(id, "flat", X)
    service.features.put(id, "typed", {"author": X[:3], "paper": X[3:]})
    with asking(application(service)) as http:
        yield SimpleNamespace(http=http, service=service, graph=id, at=f"/v1/graphs/{id}/features")


def is_problem(response, status, name):
    assert response.status_code == status, response.text
    found = response.json()
    assert found["type"] == (f"urn:hetune:error:{name}" if name else "about:blank")
    return found["detail"]


def test_their_life(http, service, graph):
    at = f"/v1/graphs/{service.graphs.add(graph)}/features"
    assert http.get(at).json() == {"features": []}
    body = pack("{}", TYPED)
    created = http.put(f"{at}/base", content=body, headers=BINARY)
    assert created.status_code == 201
    found = created.json()
    assert set(found) == {"name", "nodes", "width", "by_type", "bytes", "digest"}
    assert (found["nodes"], found["width"], found["by_type"]) == (7, 4, True)
    again = http.put(f"{at}/base", content=body, headers=BINARY)
    assert (again.status_code, again.json()) == (200, found)
    assert http.get(f"{at}/base").json() == found
    assert http.get(at).json() == {"features": [found]}
    octets = {"Content-Type": "application/octet-stream"}
    flat = http.put(f"{at}/base", content=pack("{}", {"x": X}), headers=octets)
    assert flat.status_code == 200
    assert flat.json()["digest"] != found["digest"]
    assert http.delete(f"{at}/base").status_code == 204
    for method in ("GET", "DELETE"):
        is_problem(http.request(method, f"{at}/base"), 404, "NotFoundError")


def test_a_run_that_names_them_gives_what_one_that_brings_them_gives(site):
    def run(document, tensors):
        found = site.http.post(V1, content=pack(document, tensors), headers=BINARY)
        assert found.status_code == 200, found.text
        return unpack(found.content).tensors

    brought = run(f'{{"graph": "{site.graph}"}}', {"x": X})["out/1"]
    named = run(f'{{"graph": "{site.graph}", "features": "flat"}}', {})
    assert named.keys() == {"out/1"}
    assert torch.equal(named["out/1"], brought)
    typed = run(f'{{"graph": "{site.graph}", "features": "typed"}}', {})
    assert torch.equal(torch.cat([typed["out/1/author"], typed["out/1/paper"]]), brought)
    some = {"nodes/paper": torch.tensor([2])}
    [(name, row)] = run(f'{{"graph": "{site.graph}", "features": "flat"}}', some).items()
    assert name == "out/1/paper"
    assert torch.equal(row, brought[5:6])
    plain = site.http.post(V1, json={"graph": site.graph, "features": "typed"}).json()
    assert plain["outputs"]["1"]["author"] == brought[:3].tolist()


@pytest.mark.parametrize(
    ("change", "status", "name", "says"),
    [
        ({"features": "none"}, 404, "NotFoundError", "no features 'none'"),
        ({"features": "../x"}, 400, "MalformedError", "no name of features"),
        ({"graph": NO_GRAPH}, 404, "NotFoundError", "no graph"),
        ({"graph": {"src": [0], "dst": [1]}}, 422, "InputError", "give the id of the graph"),
        ({"features": 1}, 400, "MalformedError", "features"),
        ({"features": None}, 422, "InputError", "features"),
    ],
    ids=range(6),
)
def test_runs_that_name_what_is_not_there(site, change, status, name, says):
    asked = {"graph": site.graph, "features": "flat"} | change
    assert says in is_problem(site.http.post(V1, json=asked), status, name)


def test_a_container_has_features_or_their_name(site):
    both = pack(f'{{"graph": "{site.graph}", "features": "flat"}}', {"x": X})
    neither = pack(f'{{"graph": "{site.graph}"}}', {})
    for body, status, name, says in (
        (both, 400, "MalformedError", "both x and features"),
        (neither, 422, "InputError", "features are missing"),
    ):
        found = site.http.post(V1, content=body, headers=BINARY)
        assert says in is_problem(found, status, name)


def test_features_of_another_width_than_the_model_s(site):
    site.service.features.put(site.graph, "wide", torch.ones(7, 5))
    asked = {"graph": site.graph, "features": "wide"}
    assert "[7, 5]" in is_problem(site.http.post(V1, json=asked), 422, "InputError")


@pytest.mark.parametrize(
    ("tensors", "status", "name", "says"),
    [
        ({}, 400, "MalformedError", "give a tensor x, or x/<node type>"),
        ({"y": X}, 400, "MalformedError", "no use for the tensor 'y'"),
        ({"x": X, "x/author": X[:3]}, 400, "MalformedError", "give one form"),
        ({"x": X.double()}, 422, "InputError", "give torch.float32"),
        ({"x": X[:6]}, 422, "InputError", "[6, 4]: give [7, 4], a row of width 4 for each node"),
        ({"x": X[:0]}, 422, "InputError", "[0, 4]: give [7, 4]"),
        ({"x": X.view(-1)}, 422, "InputError", "[28]: give a row of numbers for each node"),
        ({"x/author": X[:3]}, 422, "InputError", "'paper' are missing"),
        ({"x/author": X[:3], "x/paper": X[3:6, 2:]}, 422, "InputError", "[3, 2]: give [4, 2]"),
        ({"x/venue": X}, 422, "InputError", "no node type 'venue'"),
        ({"x": torch.zeros(7, 7200)}, 413, "TooLargeError", "bytes of the body"),
    ],
    ids=range(11),
)
def test_what_is_put_is_checked(site, tensors, status, name, says):
    found = site.http.put(f"{site.at}/new", content=pack("{}", tensors), headers=BINARY)
    assert says in is_problem(found, status, name)
    assert site.http.get(f"{site.at}/new").status_code == 404


@pytest.mark.parametrize("form", ["flat", "typed"])
def test_few_features_can_be_json(site, form):
    rows = X.tolist() if form == "flat" else {"author": X[:3].tolist(), "paper": X[3:].tolist()}
    put = site.http.put(f"{site.at}/json", json={"x": rows})
    assert put.status_code in (200, 201), put.text
    expected = site.http.get(f"{site.at}/{form}").json()
    assert put.json()["digest"] == expected["digest"]


@pytest.mark.parametrize(
    ("document", "status", "name"),
    [
        ({}, 400, "MalformedError"),
        (X.tolist(), 400, "MalformedError"),
        ({"x": None}, 400, "MalformedError"),
        ({"x": X.tolist(), "y": 1}, 400, "MalformedError"),
        ({"x": [["1"] * 4] * 7}, 400, "MalformedError"),
        ({"x": [[1e39] * 4] * 7}, 422, "InputError"),
        ({"x": [[1.0], [1.0, 2.0]]}, 422, "InputError"),
        ({"x": X[:6].tolist()}, 422, "InputError"),
        ({"x": {"author": X[:3].tolist()}}, 422, "InputError"),
        ({"x": {"venue": X.tolist()}}, 422, "InputError"),
        ({"x": [[1.0] * 1000] * 7}, 413, "TooLargeError"),
    ],
    ids=range(11),
)
def test_what_is_put_as_json_is_checked(site, document, status, name):
    is_problem(site.http.put(f"{site.at}/new", json=document), status, name)
    assert site.http.get(f"{site.at}/new").status_code == 404


def test_what_no_graph_takes_is_not_received(site):
    body = pack("{}", {"x": X})
    found = site.http.put(f"/v1/graphs/{NO_GRAPH}/features/x", content=body, headers=BINARY)
    is_problem(found, 404, "NotFoundError")
    found = site.http.put(f"{site.at}/x", content=b"nonsense", headers=BINARY)
    is_problem(found, 400, "MalformedError")
    found = site.http.put(f"{site.at}/x", content=body, headers={"Content-Type": "text/csv"})
    is_problem(found, 415, None)
    is_problem(site.http.put(f"{site.at}/-x", content=body, headers=BINARY), 400, "MalformedError")
    large = bytes(LIMITS.body_bytes + 1)
    found = site.http.put(f"{site.at}/x", content=large, headers=BINARY)
    is_problem(found, 413, "TooLargeError")
    assert not list(site.service.folder.root.rglob("staging/*"))


def test_an_edited_graph_has_none(site):
    new = site.http.patch(f"/v1/graphs/{site.graph}", json={"add_nodes": {"author": 1}}).json()
    assert site.http.get(f"/v1/graphs/{new['id']}/features").json() == {"features": []}
    assert len(site.http.get(site.at).json()["features"]) >= 2


# The Open Inference Protocol.


def ask(site, parameters, inputs=()):
    return site.http.post(V2, json={"inputs": list(inputs), "parameters": parameters})


def test_the_protocol_names_them_beside_the_graph(site):
    rows = {"name": "x", "shape": [7, 4], "datatype": "FP32", "data": X.flatten().tolist()}
    [brought] = ask(site, {"graph_id": site.graph}, [rows]).json()["outputs"]
    [named] = ask(site, {"graph_id": site.graph, "features": "flat"}).json()["outputs"]
    assert named == brought
    typed = ask(site, {"graph_id": site.graph, "features": "typed"}).json()["outputs"]
    assert [output["name"] for output in typed] == ["out/author", "out/paper"]
    assert [n for output in typed for n in output["data"]] == brought["data"]


@pytest.mark.parametrize(("features", "nodes"), [("flat", "nodes/paper"), ("typed", "nodes")])
def test_the_protocol_s_nodes_have_the_form_of_the_features(site, features, nodes):
    ids = {"name": nodes, "shape": [1], "datatype": "INT64", "data": [0]}
    found = ask(site, {"graph_id": site.graph, "features": features}, [ids])
    assert found.status_code == 400
    assert "nodes by type and features without types" in found.json()["error"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"features": "none"}, 404),
        ({"features": "/"}, 400),
        ({"features": 1}, 400),
        ({"graph_id": NO_GRAPH}, 404),
        ({"graph_id": None}, 400),
    ],
    ids=range(5),
)
def test_the_protocol_refuses_what_is_not_there(site, change, status):
    found = ask(site, {"graph_id": site.graph, "features": "flat"} | change)
    assert (found.status_code, set(found.json())) == (status, {"error"})


def test_the_protocol_takes_features_once(site):
    rows = {"name": "x", "shape": [1], "datatype": "FP32", "data": [0.0]}
    found = ask(site, {"graph_id": site.graph, "features": "flat"}, [rows])
    assert (found.status_code, "give one" in found.json()["error"]) == (400, True)


def test_what_is_kept_is_read_whatever_the_limit_of_what_is_sent(service, graph, monkeypatch):
    id = service.graphs.add(graph)
    service.features.put(id, "base", X)
    monkeypatch.setattr(container, "MOST_HEADER", 64)
    again = make_service(service.folder.root)
    found = again.inference.run("m", id, again.features.get(id, "base")).out
    assert torch.equal(found, service.inference.run("m", id, X).out)
    with asking(application(again)) as http:
        at, body = f"/v1/graphs/{id}/features/more", pack("{}", {"x": X})
        said = is_problem(http.put(at, content=body, headers=BINARY), 400, "MalformedError")
        assert "is not from 1 to 64" in said

"""Aliases of models' versions, in the core and over HTTP."""

import pytest
import torch

from hetune.service.core.models.stack import describe
from hetune.service.core.storage import folder
from hetune.variants.errors import ConflictError, FolderError, MalformedError, NotFoundError

from ._serving import tiny_layers


@pytest.fixture
def models(service):
    service.models.add("m", 2, *describe(tiny_layers()[:1]))
    return service.models


def test_an_alias_stands_for_a_version_and_can_be_moved(models):
    models.set_alias("m", "production", 1)
    assert models.get("m@production").version == 1
    assert models.get("m").version == 2
    models.set_alias("m", "production", 2)
    models.set_alias("m", "canary", 1)
    assert models.get("m@production").version == 2
    assert models.aliases("m") == {"canary": 1, "production": 2}
    models.remove_alias("m", "canary")
    assert models.aliases("m") == {"production": 2}
    assert models.versions("m") == (1, 2)


def test_what_is_deleted_is_gone_from_the_disk(models, monkeypatch):
    models.set_alias("m", "production", 1)
    synced = []
    monkeypatch.setattr(folder, "sync_folder", lambda path: synced.append(path.name))
    models.remove_alias("m", "production")
    models.remove("m", 1)
    assert synced == ["model-m", "model-m"]


def test_a_version_with_an_alias_stays(models):
    models.set_alias("m", "production", 1)
    with pytest.raises(ConflictError, match="delete the alias"):
        models.remove("m", 1)
    models.remove("m", 2)
    assert models.versions("m") == (1,)


@pytest.mark.parametrize(
    ("act", "error", "why"),
    [
        (lambda m: m.set_alias("m", "../x", 1), MalformedError, "no alias"),
        (lambda m: m.set_alias("m", "1", 1), MalformedError, "first a letter"),
        (lambda m: m.set_alias("m", "production", 9), NotFoundError, "no version 9"),
        (lambda m: m.set_alias("n", "production", 1), NotFoundError, "no model n"),
        (lambda m: m.get("m@production"), NotFoundError, "no alias production"),
        (lambda m: m.get("m@../x"), MalformedError, "no alias"),
        (lambda m: m.get("m@production", 1), MalformedError, "give one of them"),
        (lambda m: m.remove_alias("m", "production"), NotFoundError, "set it first"),
        (lambda m: m.aliases("n"), NotFoundError, "no model n"),
    ],
    ids=range(9),
)
def test_what_is_wrong_is_said(act, error, why, models):
    with pytest.raises(error, match=why):
        act(models)


def test_a_damaged_alias_is_said(models):
    models.set_alias("m", "production", 1)
    (path,) = models.folder.root.glob("*/production.alias")
    path.write_text("?")
    with pytest.raises(FolderError, match="name a version again, or delete it"):
        models.get("m@production")


def test_aliases_over_http(http, service, models, graph, x):
    answer = http.put("/v1/models/m/aliases/production", json={"version": 1})
    assert answer.json() == {"name": "m", "versions": [1, 2], "aliases": {"production": 1}}
    assert http.get("/v1/models").json()["models"] == [answer.json()]
    id = service.graphs.add(graph)
    body = {"graph": id, "x": x.tolist()}
    assert http.post("/v1/models/m@production/infer", json=body).json()["version"] == 1
    assert http.post("/v1/models/m/select", json={"graph": id}).json()["version"] == 2
    assert http.put("/v1/models/m/aliases/production", json={"version": 9}).status_code == 404
    at = "/v1/models/m/aliases/production"
    assert http.put(at, json={"version": 1, "why": "x" * 70_000}).status_code == 413
    assert http.put(at, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert http.delete("/v1/models/m/versions/1").status_code == 409
    assert http.delete("/v1/models/m/aliases/production").status_code == 204
    assert http.delete("/v1/models/m/aliases/production").status_code == 404


def test_layers_of_pyg_are_served(service, graph, x):
    geometric = pytest.importorskip("torch_geometric.nn")
    convolution = geometric.RGCNConv(4, 3, 2)
    service.models.add("p", 1, *describe([convolution, torch.nn.ReLU()]))
    found = service.inference.run("p", graph, x).outputs[0]
    with torch.no_grad():
        edges = torch.stack((graph.src, graph.dst)).long()
        expected = convolution(x, edges, graph.etype.long()).relu()
    assert torch.allclose(found, expected, atol=1e-5)

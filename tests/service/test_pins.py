"""Graphs that are pinned stay whatever the limit on disk."""

import pytest
import torch

import hetune
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs import graph_files
from hetune.service.core.graphs.graphs import GraphStore
from hetune.variants.errors import NotFoundError, TooLargeError

NOBODY = "0" * 32


def ring(nodes: int) -> hetune.HeteroGraph:
    """A ring, whose file takes some 12 bytes an edge."""
    ids = torch.arange(nodes)
    return hetune.HeteroGraph(ids, ids.roll(1), num_nodes=nodes)


@pytest.fixture
def store(tmp_path):
    """Has room for two rings of about 100."""
    return GraphStore(tmp_path / "graphs", ServiceLimits(stored_bytes=5000))


def test_a_pinned_graph_outlives_those_that_came_later(store):
    first = store.add(ring(100))
    store.pin(first)
    others = [store.add(ring(n)) for n in (101, 102, 103)]
    kept = {graph.id: graph.pinned for graph in store.all()}
    assert kept.keys() == {first, others[-1]}
    assert kept[first]
    assert not kept[others[-1]]
    store.pin(first, pinned=False)
    store.add(ring(104))
    assert first not in {graph.id for graph in store.all()}


def test_pins_may_not_take_all_room(store):
    for nodes in (100, 101):
        store.pin(store.add(ring(nodes)))
    with pytest.raises(TooLargeError, match="unpin one"):
        store.add(ring(102))
    assert len(store.all()) == 2


def test_a_graph_that_is_deleted_takes_its_pin_along(store):
    id = store.add(ring(100))
    store.pin(id)
    store.remove(id)
    assert store.add(ring(100)) == id
    assert [graph.pinned for graph in store.all()] == [False]


@pytest.mark.parametrize("pinned", [True, False])
def test_a_pin_is_on_the_disk_when_it_is_answered(pinned, store, monkeypatch):
    id, synced = store.add(ring(100)), []
    monkeypatch.setattr(graph_files, "sync_folder", synced.append)
    store.pin(id, pinned=pinned)
    assert synced == [store.files.folder.root]


@pytest.mark.parametrize("pinned", [True, False])
def test_what_is_not_there_cannot_be_pinned(pinned, store):
    with pytest.raises(NotFoundError):
        store.pin(NOBODY, pinned=pinned)


def test_pins_over_http(http, service, graph):
    id = service.graphs.add(graph)
    assert http.put(f"/v1/graphs/{id}/pin").status_code == 204
    assert [g["pinned"] for g in http.get("/v1/graphs").json()["graphs"]] == [True]
    assert http.delete(f"/v1/graphs/{id}/pin").status_code == 204
    assert [g["pinned"] for g in http.get("/v1/graphs").json()["graphs"]] == [False]
    assert http.put(f"/v1/graphs/{NOBODY}/pin").status_code == 404

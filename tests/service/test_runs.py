"""Runs part by part: what a request gives, also after a restart, and no path from a request."""

import threading
from dataclasses import replace

import httpx
import numpy as np
import pytest
import torch

from hetune import nn
from hetune.clients import Client
from hetune.service.core.models.stack import describe
from hetune.service.core.runs.documents import RunRequest, RunState
from hetune.service.server.app import application
from hetune.variants.errors import (
    BusyError,
    ConflictError,
    InputError,
    NotFoundError,
    PartitionError,
    TooLargeError,
)
from hetune.variants.partition.executor import LayerParts
from hetune.variants.partition.external import partition_edges
from hetune.variants.partition.row_files import RowWriter

from ._serving import LIMITS, make_service, serving, tiny_features, tiny_graph

X = tiny_features()


@pytest.fixture
def kept(tmp_path):
    """A service with a graph and its features, and a folder with the same ones."""
    large = tmp_path / "large"
    large.mkdir()
    tiny_graph().save(tmp_path / "edges.npz")
    partition_edges(tmp_path / "edges.npz", large / "tiny")
    np.save(large / "tiny" / "x.npy", X.numpy())

    def opened():
        return make_service(tmp_path / "data", large_graphs=large)

    service = opened()
    graph = service.graphs.add(tiny_graph())
    service.features.put(graph, "x", X)
    return service, graph, opened


def performed(service):
    while service.runs.perform_next(lambda do: do(), lambda: False):
        pass


def wanted(service, model="m"):
    [rows] = service.inference.run(model, tiny_graph(), X).outputs.values()
    return rows.numpy()


def normalized_layers():
    torch.manual_seed(1)
    return [nn.RGCN(4, 5, 2), torch.nn.LayerNorm(5), torch.nn.GELU(), nn.RGCN(5, 3, 2)]


def test_its_life_over_http(kept, tmp_path, monkeypatch):
    service, graph, _ = kept
    with serving(application(service)) as url, Client(url) as client:
        run = client.runs.submit("m", graph, "x")
        same = client.runs.submit("m", graph, "x", version=1)
        large = client.runs.submit("m", "tiny", "x")
        assert same.id == run.id != large.id
        for _ in range(600):
            if all(each.state is RunState.done for each in client.runs.list().runs):
                break
            threading.Event().wait(0.05)
        found = client.runs.get(run.id)
        assert (found.state, found.edges_done, found.edges) == (RunState.done, 18, 18)
        rows = client.runs.rows(run.id)
        np.testing.assert_allclose(rows, wanted(service), rtol=1e-5, atol=1e-6)
        assert np.array_equal(client.runs.rows(large.id), rows)
        monkeypatch.setattr("anyio.open_file", None)  # HEAD reads no file
        with httpx.Client(base_url=url) as http:
            head = http.head(f"/v1/runs/{run.id}/rows")
            http.get("/v1/health/live")  # on the same connection: when HEAD has ended
        size = service.runs.rows(run.id).stat().st_size
        assert (head.status_code, head.headers["content-length"]) == (200, str(size))
        monkeypatch.undo()
        with (tmp_path / "rows.npy").open("wb") as file:
            file.write(b"of an earlier try")
            client.runs.save_rows(run.id, file)
        assert np.array_equal(np.load(tmp_path / "rows.npy"), rows)
        assert client.runs.submit("m", graph, "x") == found
        client.runs.delete(run.id)
        for ask in (client.runs.get, client.runs.rows, client.runs.delete):
            with pytest.raises(NotFoundError):
                ask(run.id)
        assert not [*service.runs.folder.root.glob(f"{run.id}*")]


def test_a_model_keeps_what_follows_its_layers(kept):
    service, graph, _ = kept
    service.models.add("normalized", 1, *describe(normalized_layers()))
    run, is_new = service.runs.submit(RunRequest(model="normalized", graph=graph, features="x"))
    assert is_new
    performed(service)
    path = service.runs.rows(run.id)
    rows = np.load(path)
    np.testing.assert_allclose(rows, wanted(service, "normalized"), rtol=1e-5, atol=1e-6)
    path.unlink()
    with pytest.raises(NotFoundError, match="delete it, and ask again"):
        service.runs.rows(run.id)


def test_a_run_goes_on_after_a_restart(kept):
    service, graph, opened = kept
    run, _ = service.runs.submit(RunRequest(model="m", graph=graph, features="x"))
    computed = []

    def compute(do):
        computed.append(do())
        return computed[-1]

    assert not service.runs.perform_next(compute, lambda: len(computed) == 1)
    assert len(computed) == 1
    with pytest.raises(ConflictError, match="is waiting"):
        service.runs.rows(run.id)
    service.close()
    again = opened()
    assert again.runs.perform_next(compute, lambda: False)
    assert len(computed) == 2  # a part for each layer, none twice
    np.testing.assert_allclose(np.load(again.runs.rows(run.id)), wanted(again), 1e-5, 1e-6)


@pytest.mark.parametrize("again", [False, True])
def test_a_run_that_is_deleted_meanwhile_leaves_nothing(kept, again):
    service, graph, _ = kept
    asked = RunRequest(model="m", graph=graph, features="x")
    run, _ = service.runs.submit(asked)

    def compute(do):
        found = do()
        assert service.runs.get(run.id).state is RunState.running
        service.runs.remove(run.id)
        if again:
            service.runs.submit(asked)
        return found

    assert service.runs.perform_next(compute, lambda: False)
    left = [path.name for path in service.runs.folder.root.glob(f"{run.id}*")]
    assert left == [f"{run.id}.json"] * again
    assert [each.state for each in service.runs.all().runs] == [RunState.waiting] * again
    performed(service)
    assert all(each.state is RunState.done for each in service.runs.all().runs)


def test_a_part_that_cannot_be_smaller_takes_what_a_run_may(kept, monkeypatch):
    service, graph, _ = kept
    monkeypatch.setattr("hetune.service.core.runs.runs._PART_BYTES", 1)
    run, _ = service.runs.submit(RunRequest(model="m", graph=graph, features="x"))
    performed(service)
    assert service.runs.get(run.id).state is RunState.done


def test_requests_do_not_wait_until_a_part_is_read(kept, monkeypatch):
    service, graph, _ = kept
    read, events = LayerParts.read, []

    def slowly(*given):
        threading.Event().wait(0.1)
        events.append("read")
        return read(*given)

    def compute(do):
        events.append("compute")
        return do()

    monkeypatch.setattr(LayerParts, "read", slowly)
    service.runs.submit(RunRequest(model="m", graph=graph, features="x"))
    assert service.runs.perform_next(compute, lambda: False)
    assert events == ["read", "compute"] * 2


def test_a_full_disk_fails_it_and_asking_again_goes_on(kept, monkeypatch):
    service, graph, _ = kept
    asked, sync = RunRequest(model="m", graph=graph, features="x"), RowWriter.sync
    run, _ = service.runs.submit(asked)

    def full(writer):
        if writer.path.name == "1.npy":
            raise PartitionError(f"cannot write {writer.path}")
        sync(writer)

    monkeypatch.setattr(RowWriter, "sync", full)
    performed(service)
    failed = service.runs.get(run.id)
    assert failed.state is RunState.failed
    assert "free some space and ask again" in failed.error
    assert str(service.runs.folder.root) not in failed.error
    monkeypatch.setattr(RowWriter, "sync", sync)
    assert service.runs.submit(asked)[1]
    performed(service)
    np.testing.assert_allclose(np.load(service.runs.rows(run.id)), wanted(service), 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": "none"}, NotFoundError, "no model none"),
        ({"graph": "0" * 32}, NotFoundError, "no graph 0000"),
        ({"features": "y"}, NotFoundError, "has no features 'y'"),
        ({"graph": "../large/tiny"}, NotFoundError, "no graph"),
        ({"graph": "linked"}, NotFoundError, "no graph"),
        ({"graph": "tiny", "features": "../tiny/x"}, NotFoundError, "has no features"),
        ({"graph": "tiny", "features": "src"}, InputError, "no float rows of 7 nodes"),
        ({"model": "joined"}, InputError, "joins the rows"),
        ({"model": "wide", "graph": "tiny"}, InputError, "rows of 4, and the layer takes 9"),
        ({"model": "wide"}, InputError, "\\[7, 4\\]|width"),
    ],
)
def test_what_cannot_run_is_refused(kept, tmp_path, change, error, message):
    service, graph, _ = kept
    service.models.add("joined", 1, *describe([nn.RGCN(4, 4, 2), nn.RGCN(4, 4, 2)], "cat"))
    service.models.add("wide", 1, *describe([nn.RGCN(9, 4, 2)]))
    partition_edges(tmp_path / "edges.npz", tmp_path / "outside")
    (tmp_path / "large" / "linked").symlink_to(tmp_path / "outside")
    named = {"model": "m", "version": None, "graph": graph, "features": "x", **change}
    asked = RunRequest.model_construct(**named)  # HTTP looks at names before
    with pytest.raises(error, match=message) as raised:
        service.runs.submit(asked)
    assert str(tmp_path) not in str(raised.value)
    assert service.runs.all().runs == ()


def test_runs_are_bounded(kept, monkeypatch):
    service, graph, _ = kept
    asked = RunRequest(model="m", graph=graph, features="x")
    monkeypatch.setattr(service.runs, "_limits", replace(LIMITS, stored_bytes=100))
    with pytest.raises(TooLargeError, match="bytes of runs"):
        service.runs.submit(asked)
    monkeypatch.setattr(service.runs, "_limits", LIMITS)
    monkeypatch.setattr("hetune.service.core.runs.runs.MOST_WAITING", 1)
    service.runs.submit(asked)
    assert not service.runs.submit(asked)[1]
    with pytest.raises(BusyError, match="try again later"):
        service.runs.submit(RunRequest(model="m", graph="tiny", features="x"))


def test_what_has_changed_since_is_not_run(kept):
    service, graph, _ = kept
    run, _ = service.runs.submit(RunRequest(model="m", graph=graph, features="x"))
    service.features.put(graph, "x", X + 1)
    performed(service)
    assert "have changed" in service.runs.get(run.id).error


def test_a_cluster_computes_parts(kept, tmp_path):
    pytest.importorskip("ray", reason="no ray: pip install '.[ray]'")
    service, graph, _ = kept
    run, _ = service.runs.submit(RunRequest(model="m", graph=graph, features="x"))
    service.close()
    again = make_service(tmp_path / "data", ray="local")
    assert again.runs.perform_next(None, lambda: False)  # nothing is computed here
    np.testing.assert_allclose(np.load(again.runs.rows(run.id)), wanted(again), 1e-5, 1e-6)

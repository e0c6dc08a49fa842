"""Features that a service keeps, through both clients and the command line."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.clients._both import KINDS, connected
from tests.service._serving import make_service, serving, tiny_features, tiny_graph

from hetune.service.core.formats.message import Pieces
from hetune.service.server.app import application
from hetune.variants import errors

GRAPH, X = tiny_graph(), tiny_features()
TYPED = {"author": X[:3], "paper": X[3:]}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    service = make_service(tmp_path_factory.mktemp("data"))
    with serving(application(service, key="sesame")) as found:
        yield found


@pytest.fixture(params=KINDS)
def client(request, url):
    with connected(request.param, url, key="sesame") as found:
        yield found


def test_a_run_names_them(client):
    id = client.upload_graph(GRAPH)
    told = []
    stored = client.put_features(id, "base", X, progress=lambda *sent: told.append(sent))
    assert (stored.name, stored.nodes, stored.width, stored.by_type) == ("base", 7, 4, False)
    assert told[-1][0] == told[-1][1] > X.nbytes
    typed = client.put_features(id, "typed", {name: part.numpy() for name, part in TYPED.items()})
    assert client.features(id) == (stored, typed)
    brought = client.infer("m", id, X).out
    assert torch.equal(client.infer("m", id, "base").out, brought)
    assert torch.equal(client.infer("m", id, features="typed").out["paper"], brought[3:])
    for name in ("base", "typed"):
        client.delete_features(id, name)
    assert client.features(id) == ()
    with pytest.raises(errors.NotFoundError, match="no features 'base'"):
        client.infer("m", id, "base")
    with pytest.raises(errors.NotFoundError):
        client.delete_features(id, "base")


def test_what_goes_wrong(client):
    id = client.upload_graph(GRAPH)
    with pytest.raises(errors.InputError, match=r"\[6, 4\]"):
        client.put_features(id, "base", X[:6])
    with pytest.raises(errors.InputError, match="float32"):
        client.put_features(id, "base", X.double())
    with pytest.raises(errors.NotFoundError):
        client.put_features("0" * 32, "base", X)
    with pytest.raises(errors.MalformedError):
        client.put_features(id, "-x", X)
    with pytest.raises(errors.InputError, match="give the id"):
        client.infer("m", GRAPH, "base")


def test_no_rows_are_sent(client, monkeypatch):
    id = client.upload_graph(GRAPH)
    client.put_features(id, "base", X)
    sent, made = [], Pieces.__init__

    def watched(self, document, tensors):
        made(self, document, tensors)
        sent.append((document, tensors))

    monkeypatch.setattr(Pieces, "__init__", watched)
    client.infer("m", id, "base")
    document, tensors = sent[0]
    assert '"features": "base"' in document
    assert tensors == {}


def test_on_the_command_line(hetune, url, tmp_path, monkeypatch):
    monkeypatch.setenv("HETUNE_API_KEY", "sesame")
    monkeypatch.setenv("HETUNE_URL", url)
    with connected("sync", url, key="sesame") as client:
        id = client.upload_graph(GRAPH)
        expected = client.infer("m", id, X).out
    np.save(tmp_path / "x.npy", X.numpy())
    np.savez(tmp_path / "typed.npz", author=X[:3].numpy(), paper=X[3:].numpy())

    def remote(*arguments):
        return hetune("remote", *arguments)

    put = remote("features", "put", id, "base", tmp_path / "x.npy")
    assert put.exit_code == 0, put.output
    assert len(put.stdout.strip()) == 64
    assert remote("features", "put", id, "typed", tmp_path / "typed.npz").exit_code == 0
    listed = remote("features", "list", id)
    assert listed.exit_code == 0, listed.output
    for word in ("base", "typed", "yes", "2 sets"):
        assert word in listed.stdout
    out = tmp_path / "out.npy"
    done = remote("infer", "m", id, "--stored", "base", "--out", out)
    assert done.exit_code == 0, done.output
    assert torch.equal(torch.from_numpy(np.load(out)), expected)
    refused = remote("infer", "m", id, "--stored", "typed", "--out", out)
    assert (refused.exit_code, ".safetensors" in refused.stderr) == (2, True)
    out = tmp_path / "out.safetensors"
    assert remote("infer", "m", id, "--stored", "typed", "--out", out).exit_code == 0
    assert torch.equal(load_file(out)["out/paper"], expected[3:])
    for given in ((), ("--stored", "base", "--features", tmp_path / "x.npy")):
        refused = remote("infer", "m", id, *given, "--out", out)
        assert (refused.exit_code, "either --features or --stored" in refused.stderr) == (2, True)
    assert remote("features", "delete", id, "base", "typed").exit_code == 0
    assert "0 sets" in remote("features", "list", id).stdout

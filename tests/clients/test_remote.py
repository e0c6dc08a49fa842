"""`hetune remote` against a real server on loopback."""

import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.clients._both import connected
from tests.service._serving import make_service, serving, tiny_features, tiny_graph

from hetune import clients
from hetune.clients import Client
from hetune.service.server.app import application
from hetune.variants.graph import edited

GRAPH, X = tiny_graph(), tiny_features()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    service = make_service(tmp_path_factory.mktemp("data"))
    with serving(application(service, key="sesame")) as found:
        yield found


@pytest.fixture
def remote(hetune, url, monkeypatch):
    """Calls `hetune remote`, with the key and the URL where they belong."""
    monkeypatch.setenv("HETUNE_API_KEY", "sesame")
    monkeypatch.setenv("HETUNE_URL", url)
    return lambda *arguments: hetune("remote", *arguments)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A graph, and its features in several files."""
    folder = tmp_path_factory.mktemp("files")
    arrays = {name: getattr(GRAPH, name).numpy() for name in ("src", "dst", "etype", "ntype")}
    names = {
        f"{kind}_names": np.array(getattr(GRAPH, f"{kind}_names")) for kind in ("ntype", "etype")
    }
    np.savez(folder / "graph.npz", **arrays, **names)
    np.save(folder / "x.npy", X.numpy().astype(np.float64))
    save_file({"features": X}, folder / "x.safetensors")
    np.savez(folder / "typed.npz", author=X[:3].numpy(), paper=X[3:].numpy())
    return folder


def expected(url, x):
    with Client(url, key="sesame") as client:
        return client.infer("m", GRAPH, x)


def test_a_graph_s_life(remote, graph_file):
    sent = remote("graphs", "upload", graph_file, "--inverse")
    assert sent.exit_code == 0, sent.output
    id = sent.stdout.strip()
    other = remote("graphs", "upload", graph_file).stdout.strip()
    assert id != other
    listed = remote("graphs", "list").stdout.split()
    assert listed[:2] == [other, id]
    gone = remote("graphs", "delete", id, other)
    assert (gone.exit_code, gone.stdout) == (0, "")
    assert not {id, other} & set(remote("graphs", "list").stdout.split())


def test_a_graph_is_edited(remote, files, tmp_path):
    id = remote("graphs", "upload", files / "graph.npz").stdout.strip()
    save_file({"writes": torch.tensor([[3], [0]])}, tmp_path / "add.safetensors")
    np.savez(tmp_path / "remove.npz", reads=np.array([[0], [1]]))
    come, go = tmp_path / "add.safetensors", tmp_path / "remove.npz"
    done = remote(
        *("graphs", "edit", id, "--add", come, "--remove", go, "--add-nodes", "author=1", "--each")
    )
    assert done.exit_code == 0, done.output
    expected = edited(
        GRAPH,
        add={"writes": torch.tensor([[3], [0]])},
        remove={"reads": torch.tensor([[0], [1]])},
        add_nodes={"author": 1},
        parallel="each",
    )
    assert done.stdout.strip() == expected.fingerprint
    for given in ("author", "=1", "author=-1", "author=x"):
        refused = remote("graphs", "edit", id, "--add-nodes", given)
        assert refused.exit_code == 2
        assert "such as paper=2" in refused.output


def test_models(remote):
    shown = remote("models", "list").stdout.split()
    assert shown[-4:] == ["m", "1", "1", "model"]


@pytest.mark.parametrize("features", ["x.npy", "x.safetensors"])
def test_outputs_are_those_of_the_client(remote, url, files, tmp_path, features):
    answer = expected(url, X)
    with Client(url, key="sesame") as client:
        id = client.upload_graph(GRAPH)
    for name in ("out.npy", "out.safetensors"):
        path = tmp_path / name
        result = remote("infer", "m", id, "--features", files / features, "--out", path)
        assert result.exit_code == 0, result.output
        assert f"wrote [7, 4] float32 to {path}" in result.stdout
        for layer in answer.report.layers:
            assert layer.variant in result.stdout
    assert torch.equal(torch.from_numpy(np.load(tmp_path / "out.npy")), answer.out)
    assert torch.equal(load_file(tmp_path / "out.safetensors")["out"], answer.out)
    with safe_open(tmp_path / "out.safetensors", "pt") as file:
        metadata = file.metadata()
    assert (metadata["model"], metadata["graph_fingerprint"]) == ("m", id)


def test_a_run_in_parts_is_written_and_deleted_if_it_is_new(remote, url, tmp_path):
    with connected("async", url, key="sesame") as client:
        id = client.upload_graph(GRAPH)
        client.put_features(id, "x", X)
        result = remote("run", "m", id, "x", "--out", tmp_path / "out.npy")
        assert result.exit_code == 0, result.output
        assert "wrote [7, 4] float32" in result.stdout
        rows = expected(url, X).out.numpy()
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), rows, rtol=1e-5, atol=1e-6)
        assert client.runs.list().runs == ()
        of_others = client.runs.submit("m", id, "x")
        assert remote("run", "m", id, "x", "--out", tmp_path / "again.npy").exit_code == 0
        assert np.array_equal(np.load(tmp_path / "again.npy"), client.runs.rows(of_others.id))
    for features, name, message in (
        ("y", "none.npy", "has no features 'y'"),
        ("x", "none.txt", "is no .npy file"),
    ):
        refused = remote("run", "m", id, features, "--out", tmp_path / name)
        assert (refused.exit_code != 0, message in refused.stderr) == (True, True), refused.stderr
        assert not (tmp_path / name).exists()


def test_by_type_and_with_a_graph_from_a_file(remote, url, files, tmp_path):
    path = tmp_path / "out.safetensors"
    given = ("m", files / "graph.npz", "--features", files / "typed.npz")
    result = remote("infer", *given, "--version", 1, "--out", path)
    assert result.exit_code == 0, result.output
    answer = expected(url, {"author": X[:3], "paper": X[3:]})
    found = load_file(path)
    assert found.keys() == {"out/author", "out/paper"}
    assert torch.equal(found["out/paper"], answer.out["paper"])
    refused = remote("infer", *given, "--out", tmp_path / "out.npy")
    assert (refused.exit_code, ".safetensors" in refused.stderr) == (2, True)


def test_select_says_why(remote, url, files):
    with Client(url, key="sesame") as client:
        report = client.select("m", GRAPH)
    result = remote("select", "m", files / "graph.npz", "--memory-limit", "1GB")
    assert result.exit_code == 0, result.output
    for number, layer in enumerate(report.layers):
        assert f"{number} {layer.variant}: " in result.stdout


def test_what_goes_wrong(remote, files, tmp_path):
    given = ("--features", files / "x.npy", "--out", tmp_path / "out.npy")
    for arguments, code, says in (
        (("infer", "none", files / "graph.npz", *given), 2, "none"),
        (("infer", "m", "0" * 32, *given), 2, "there is no graph 000"),
        (("infer", "m", "nosuch.nt", *given), 2, "no such file or folder"),
        (("infer", "m", files / "graph.npz", *given, "--deadline", "1e-9"), 1, "more time"),
        (("infer", "m", "0" * 32, *given[:-1], tmp_path), 2, "no file that can be written"),
        (("infer", "m", "0" * 32, "--features", "no.npy", *given[2:]), 2, "as an .npy file"),
        (("graphs", "delete", "0" * 32), 2, "there is no graph 000"),
        (("select", "m", "0" * 32, "--url", "nonsense"), 2, "is no URL of a service"),
    ):
        result = remote(*arguments)
        assert (result.exit_code, result.stderr[:7]) == (code, "error: "), result.output
        assert says in result.stderr
        assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", range(1, 4))
def test_the_url_may_stand_anywhere(hetune, url, monkeypatch, place):
    monkeypatch.setenv("HETUNE_API_KEY", "sesame")
    monkeypatch.setenv("HETUNE_URL", "http://127.0.0.1:1")  # counts where nothing else is said
    for words in (["remote", "graphs", "list"], ["remote", "models", "list"]):
        words[place:place] = ["--url", url]
        result = hetune(*words)
        assert result.exit_code == 0, result.output


def test_the_key_comes_from_the_environment_only(hetune, url, monkeypatch):
    monkeypatch.delenv("HETUNE_API_KEY", raising=False)
    result = hetune("remote", "models", "list", "--url", url)
    assert result.exit_code == 1
    assert "key" in result.stderr
    assert "--key" not in hetune("remote", "models", "list", "--help").stdout


def test_without_the_extra(hetune, monkeypatch):
    monkeypatch.delattr(clients, "http", raising=False)
    monkeypatch.setitem(sys.modules, "hetune.clients.http", None)
    result = hetune("remote", "models", "list")
    assert (result.exit_code, "pip install '.[service]'" in result.stderr) == (2, True)
    with pytest.raises(ImportError, match=r"hetune\.clients\.AsyncClient needs"):
        clients.AsyncClient  # noqa: B018
    with pytest.raises(AttributeError, match="Nothing"):
        clients.Nothing  # noqa: B018

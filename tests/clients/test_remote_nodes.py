"""`hetune remote infer --nodes`: rows of some nodes, and the forms in which ids may be given."""

from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.service._serving import make_service, serving, tiny_features, tiny_graph

from hetune.clients import Client
from hetune.clients.cli.nodes import SubsetName, nodes_of
from hetune.service.core.inference.subset import Subset
from hetune.service.server.app import application
from hetune.variants.errors import InputError

GRAPH, X = tiny_graph(), tiny_features()
BY_TYPE = {"author": X[:3], "paper": X[3:]}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service's URL, and the id of the graph that it keeps."""
    service = make_service(tmp_path_factory.mktemp("data"))
    with serving(application(service)) as url:
        yield url, service.graphs.add(GRAPH)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with features and ids in several files."""
    np.save(tmp_path / "x.npy", X.numpy())
    np.savez(tmp_path / "typed.npz", **{name: rows.numpy() for name, rows in BY_TYPE.items()})
    np.save(tmp_path / "ids.npy", np.array([5, 0]))
    save_file({"ids": torch.tensor([5, 0])}, tmp_path / "ids.safetensors")
    np.savez(tmp_path / "both.npz", author=np.array([2]), paper=np.array([3, 0]))
    (tmp_path / "a=b").mkdir()
    np.save(tmp_path / "a=b" / "ids.npy", np.array([1]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def infer(hetune, served, folder, monkeypatch):
    """Runs the model by the command; its result."""
    monkeypatch.setenv("HETUNE_URL", served[0])

    def infer(features, *options, out="out.safetensors"):
        return hetune(
            "remote", "infer", "m", served[1], "--features", features, "--out", out, *options
        )

    return infer


def answer(served, x, **asked):
    with Client(served[0]) as client:
        return client.infer("m", served[1], x, **asked).out


@pytest.mark.parametrize("subset", list(SubsetName))
@pytest.mark.parametrize("ids", ["5,0", "ids.npy", "ids.safetensors"])
def test_rows_of_some_nodes(infer, served, folder, ids, subset):
    result = infer("x.npy", "--nodes", ids, "--subset", subset, out="out.npy")
    assert result.exit_code == 0, result.output
    assert "wrote [2, 4] float32 to out.npy" in result.stdout
    assert f"rows by {'reach' if subset == SubsetName.reach else 'full'}: " in result.stdout
    expected = answer(served, X, nodes=[5, 0], subset=subset.value)
    assert torch.equal(torch.from_numpy(np.load(folder / "out.npy")), expected)


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        (["--nodes", "paper=3,0"], {"paper": [3, 0]}),
        (["--nodes", "author=2", "--nodes", "paper=3,0"], {"author": [2], "paper": [3, 0]}),
        (["--nodes", "both.npz"], {"author": [2], "paper": [3, 0]}),
        (["--nodes", "paper=a=b/ids.npy"], {"paper": [1]}),
        (["--nodes", "paper=all"], {"paper": None}),
        (["--nodes", "author=2", "--nodes", "paper=all"], {"author": [2], "paper": None}),
    ],
)
def test_rows_by_node_type(infer, served, folder, options, nodes):
    result = infer("typed.npz", *options)
    assert result.exit_code == 0, result.output
    found, expected = load_file(folder / "out.safetensors"), answer(served, BY_TYPE, nodes=nodes)
    assert found.keys() == {f"out/{name}" for name in nodes}
    for name, rows in expected.items():
        assert torch.equal(found[f"out/{name}"], rows)


def test_all_rows_say_nothing_of_a_subset(infer):
    assert "rows by" not in infer("x.npy").stdout


@pytest.mark.parametrize(
    ("options", "out", "says"),
    [
        (["--nodes", "7"], "out.npy", "7 is no id"),
        (["--nodes", "paper=0"], "out.npy", "--nodes has ids by node type"),
        (["--nodes", "venue=0"], "out.safetensors", "no node type 'venue'"),
        (["--nodes", "no.npy"], "out.npy", "as an .npy file"),
        (["--nodes", "x.npy"], "out.npy", "list of integers"),
        (["--subset", "reach"], "out.npy", "nodes are missing"),
    ],
)
def test_what_goes_wrong(infer, folder, options, out, says):
    result = infer("x.npy", *options, out=out)
    assert (result.exit_code, result.stderr[:7]) == (2, "error: "), result.output
    assert says in result.stderr
    assert not (folder / out).exists()


@pytest.mark.parametrize(
    "given",
    [
        ["-1"],
        ["1,"],
        ["1.5"],
        ["9" * 19],
        ["paper"],
        ["paper="],
        ["=1"],
        ["paper=-1"],
        ["paper=both.npz"],
        ["paper=no=such.npy"],
        ["1", "2"],
        ["1", "paper=2"],
        ["both.npz", "paper=2"],
        ["paper=1", "paper=2"],
        ["paper=1", "paper=all"],
        ["all"],
    ],
    ids=" ".join,
)
def test_ids_that_are_none(folder, given):
    with pytest.raises(InputError, match="--nodes"):
        nodes_of(given)


def test_the_ways_are_the_service_s():
    assert tuple(SubsetName) == get_args(Subset)

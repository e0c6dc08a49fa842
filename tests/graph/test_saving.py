"""Graphs that are written to a file and read back."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given

import hetune
from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph import HeteroGraph
from hetune.variants.graph.hetero import rebuilt

from .test_hetero import graphs, library


def same(one: HeteroGraph, other: HeteroGraph) -> bool:
    return one.fingerprint == other.fingerprint and repr(one) == repr(other)


@given(graphs())
def test_torch_loads_weights_only(g: HeteroGraph):
    file = io.BytesIO()
    torch.save({"graph": g, "x": torch.ones(1)}, file)
    file.seek(0)
    back = torch.load(file, weights_only=True)["graph"]
    assert same(back, g)
    back.validate()


def test_what_torch_loads_is_checked():
    with pytest.raises(GraphError, match=r"src\[0\] is 9"):
        rebuilt(*(torch.tensor([i]).int() for i in (9, 0, 0, 0)), {"num_nodes": 1})


def test_a_process_that_has_imported_the_class_loads_it(tmp_path: Path):
    torch.save(library(), tmp_path / "g.pt")
    code = (
        "import sys, torch\nfrom hetune import HeteroGraph\n"
        "print(torch.load(sys.argv[1]).fingerprint)"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "g.pt")]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == library().fingerprint


@pytest.mark.parametrize(
    "g",
    [
        library(),
        library().canonicalize().add_inverse(),
        HeteroGraph(np.array([0]), np.array([1]), num_nodes=5, num_etypes=3),
        HeteroGraph(np.array([], int), np.array([], int), num_nodes=0, num_etypes=0),
    ],
    ids=["several ends", "canonical", "isolated", "empty"],
)
def test_saved_and_loaded(g: HeteroGraph, tmp_path: Path):
    g.save(tmp_path / "g.npz")
    back = hetune.load(tmp_path / "g.npz")
    assert same(back, g)
    assert back.is_canonical == g.is_canonical
    assert not g.is_canonical or back.metadata() == g.metadata()


def test_where_it_cannot_be_saved(tmp_path: Path):
    with pytest.raises(GraphFileError, match=r"graphs are written as \.npz: name it g\.npz"):
        library().save(tmp_path / "g.pt")
    with pytest.raises(GraphFileError, match="cannot be written: No such file or directory"):
        library().save(tmp_path / "nowhere" / "g.npz")
    odd = HeteroGraph(np.array([0]), np.array([1]), etype_names=["a\0"])
    with pytest.raises(GraphFileError, match="etype_names has a name that ends in a zero byte"):
        odd.save(tmp_path / "g.npz")


def weighted(**data: torch.Tensor) -> HeteroGraph:
    return HeteroGraph(np.array([0, 1, 2]), np.array([1, 2, 0]), edge_data=data)


def test_edge_data_is_saved(tmp_path: Path):
    (tmp_path / "g.txt").write_text("0 1 a 0.5\n1 2 b 2\n2 0 a 1\n")
    weighted_file = hetune.load(tmp_path / "g.txt", columns="src,dst,etype,weight")
    others = {"rows": torch.arange(6).reshape(3, 2), "a/b": torch.tensor([True, False, True])}
    for g in (weighted_file, weighted(**others)):
        g.save(tmp_path / "g.npz")
        back = hetune.load(tmp_path / "g.npz").edge_data
        assert list(back) == list(g.edge_data)
        for name, values in g.edge_data.items():
            assert back[name].dtype is values.dtype
            assert torch.equal(back[name], values)


def test_edge_data_that_no_file_can_hold(tmp_path: Path):
    with pytest.raises(GraphFileError, match=r"edge_data\['w'\] is torch\.bfloat16, .*\.float"):
        weighted(w=torch.zeros(3, dtype=torch.bfloat16)).save(tmp_path / "g.npz")
    with pytest.raises(GraphFileError, match="with a zero byte: rename it"):
        weighted(**{"w\0": torch.zeros(3)}).save(tmp_path / "g.npz")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(2), r"edge_data\['w'\] is \[2\] but there are 3 edges"),
        (np.array(["a", "b", "c"]), "edge_data/w is <U1: give numbers"),
    ],
)
def test_edge_data_of_a_file_is_checked(values: np.ndarray, message: str, tmp_path: Path):
    ids = {"src": np.arange(3), "dst": np.arange(3)}
    np.savez(tmp_path / "g.npz", **ids, **{"edge_data/w": values})
    with pytest.raises(GraphFileError, match=message):
        hetune.load(tmp_path / "g.npz")
    np.savez(tmp_path / "g.npz", **ids, **{"edge_data/w": np.arange(3, dtype=">f4")})
    assert hetune.load(tmp_path / "g.npz").edge_data["w"].tolist() == [0, 1, 2]

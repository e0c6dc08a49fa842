"""The examples of training: compiled, each learns what it learns in plain PyG."""

import importlib
import sys
from functools import partialmethod
from pathlib import Path

import pytest
import torch

pytest.importorskip("torch_geometric")
from torch_geometric.sampler import BaseSampler, SamplerOutput

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples"


class Neighbours(BaseSampler):
    """All neighbours of two hops, in place of what pyg-lib draws, which no test may ask for."""

    edge_permutation = None

    def __init__(self, edge_index):
        self.edge_index = edge_index

    def sample_from_nodes(self, index):
        nodes, (src, dst) = index.node, self.edge_index
        place = torch.full((int(self.edge_index.max()) + 1,), -1)
        for _ in range(2):
            place[nodes] = torch.arange(len(nodes))
            edges = (place[dst] >= 0).nonzero().flatten()
            newest = src[edges].unique()
            nodes = torch.cat([nodes, newest[place[newest] < 0]])
        place[nodes] = torch.arange(len(nodes))
        ends = place[src[edges]], place[dst[edges]]
        found = SamplerOutput(nodes, *ends, edges)
        found.metadata = index.input_id, index.time
        return found

    def sample_from_edges(self, index, neg_sampling=None):
        raise NotImplementedError


def shortened(data, download):
    """Every tenth fact of a knowledge graph is enough to learn from, and to rank."""
    download(data)
    for path in map(Path, data.raw_paths):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[::10]), "utf-8")


@pytest.fixture(scope="module")
def run(data_dir, tmp_path_factory):
    """The last loss and the accuracy of a script."""
    pytest.importorskip("rdflib")
    pytest.importorskip("pandas")
    root = tmp_path_factory.mktemp("data")

    def run(name, *arguments, **options):
        main = importlib.import_module(name).main
        return main([*arguments, "--root", str(root)], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HETUNE_DATA", str(data_dir))
        patch.syspath_prepend(str(FOLDER))
        freebase = importlib.import_module("_data").Freebase
        patch.setattr(freebase, "download", partialmethod(shortened, freebase.download))
        yield run
    for name in ("_data", *(path.stem for path in FOLDER.glob("*.py"))):
        sys.modules.pop(name, None)


def test_examples_are_short():
    for path in FOLDER.glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) < 80, path.name


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::hetune.FallbackWarning")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("entity_classification", ("--epochs", "2")),
        ("entity_classification", ("--epochs", "2", "--features")),
        ("link_prediction", ("--epochs", "1", "--width", "8")),
        ("mini_batches", ("--epochs", "2")),
        ("knowledge_graph", ("--epochs=1", "--width=16", "--batch=8192", "--ranked=100")),
    ],
)
def test_an_example_learns_as_plain_pyg_does(run, name, arguments):
    options = {}
    if name == "mini_batches":
        options["sampler_of"] = lambda data: Neighbours(data.edge_index)
    loss, accuracy = run(name, *arguments, **options)
    plain_loss, plain_accuracy = run(name, *arguments, "--plain", **options)
    assert loss == pytest.approx(plain_loss, abs=1e-4)
    assert accuracy == pytest.approx(plain_accuracy, abs=0.03)

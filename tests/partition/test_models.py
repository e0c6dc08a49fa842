"""Whole models in parts: their own layers' results, with rows in files between them."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import hetune
from hetune.variants.errors import InputError
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.partition.model_layers import partitioned_layers
from hetune.variants.partition.partitions import GraphPartitions
from hetune.variants.partition.run import run_partitions
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.testing.graphs import typed_graph

pyg = pytest.importorskip("torch_geometric.nn", reason="no torch_geometric: pip install it")

TYPED = typed_graph([300, 200], [(0, 1, 900), (1, 0, 900), (0, 0, 2000), (1, 1, 9)])
PLAIN = HeteroGraph(TYPED.src, TYPED.dst, num_nodes=TYPED.num_nodes)
X = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))


class Relations(nn.Module):
    """Residuals, so that rows of an earlier layer are read again."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.RGCNConv(8, 16, 4), pyg.RGCNConv(16, 16, 4)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x, edge_index, edge_type):
        h = self.first(x, edge_index, edge_type).relu()
        return self.head(h + self.norm(self.second(h, edge_index, edge_type)))


class Citations(nn.Module):
    """Sources' degrees, loops that are added, a softmax, and embeddings of nodes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(8, 16), pyg.GATConv(16, 6, heads=2)
        self.place, self.third = nn.Parameter(torch.randn(500, 7)), pyg.SAGEConv(7, 16)

    def forward(self, x, edge_index):
        h = self.first(x, edge_index).relu() + self.third(self.place, edge_index)
        return self.second(h, edge_index)


class ByType(nn.Module):
    """Called with dictionaries; weights of its own for each type of nodes and of edges."""

    def __init__(self):
        super().__init__()
        ntypes, etypes = TYPED.metadata()
        self.first = pyg.HeteroConv({ends: pyg.SAGEConv((8, 8), 16) for ends in etypes})
        self.second = pyg.HeteroConv({ends: pyg.GraphConv((16, 16), 6) for ends in etypes})
        self.heads = nn.ModuleDict({ntype: nn.Linear(6, 3) for ntype in ntypes})

    def forward(self, x_dict, edge_index_dict):
        h = {ntype: rows.relu() for ntype, rows in self.first(x_dict, edge_index_dict).items()}
        h = self.second(h, edge_index_dict)
        return {ntype: self.heads[ntype](rows) for ntype, rows in h.items()}


def called(model, graph):
    """The model's own rows, in the order of the graph's nodes."""
    edges = torch.stack([graph.src, graph.dst]).long()
    if not isinstance(model, ByType):
        return model(X, edges, graph.etype.long()) if graph is TYPED else model(X, edges)
    ntypes, etypes = graph.metadata()
    spans = dict(zip(ntypes, pairwise(graph.node_offsets), strict=True))
    x_dict = {ntype: X[slice(*span)] for ntype, span in spans.items()}
    edge_dict = {}
    for number, ends in enumerate(etypes):
        first = torch.tensor([[spans[ends[0]][0]], [spans[ends[2]][0]]])
        edge_dict[ends] = edges[:, graph.etype == number] - first
    found = model(x_dict, edge_dict)
    return torch.cat([found[ntype] for ntype in ntypes])


@pytest.mark.parametrize(
    ("kind", "graph", "layers"), [(Relations, TYPED, 2), (Citations, PLAIN, 4), (ByType, TYPED, 2)]
)
@torch.no_grad()
def test_a_model_has_its_own_results(kind, graph, layers, tmp_path):
    torch.manual_seed(0)
    model = kind().eval()
    expected = called(model, graph)
    fast = hetune.compile(model)
    found, calls = partitioned_layers(fast, graph, 8), list[int]()
    assert len(found) == layers
    for layer in found:
        assert pickle.loads(pickle.dumps(layer)).digest() == layer.digest()
    options = {"memory": 350_000, "progress": lambda done, total: calls.append(done)}
    rows = run_partitions(fast, GraphPartitions(graph, 100), X, tmp_path / "out.npy", **options)
    assert len(calls) >= 3 * layers
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-5)


def test_models_that_do_not_run_in_parts_are_refused(tmp_path):
    model = hetune.compile(pyg.GraphSAGE(8, 8, 2, norm="layer_norm").eval())  # of all nodes
    with pytest.raises(InputError, match="GraphSAGE cannot be taken apart"):
        run_partitions(model, PLAIN, X, tmp_path / "out.npy", memory=350_000)
    of_other_types = hetune.compile(ByType().eval())
    with pytest.raises(InputError, match="nor, called with dictionaries, ByType cannot be taken"):
        run_partitions(of_other_types, PLAIN, X, tmp_path / "out.npy", memory=350_000)
    text = "program p(x: node[8] feature)\n  m: edge[8] = take x edge src\n  return m\n"
    of_edges = hetune.compile(ProgramLayer(LabeledProgram.parse(text, "p").program, {}).eval())
    with pytest.raises(InputError, match="gives more than rows of nodes"):
        run_partitions(
            hetune.compile(of_edges.eval()), PLAIN, X, tmp_path / "out.npy", memory=350_000
        )
    fewer = HeteroGraph(PLAIN.src, PLAIN.dst, num_nodes=501)
    x, out = torch.zeros(501, 8), tmp_path / "out.npy"
    with pytest.raises(InputError, match="a parameter with 500 rows, and there are 501 nodes"):
        run_partitions(hetune.compile(Citations().eval()), fewer, x, out, memory=350_000)

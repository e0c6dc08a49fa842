"""Models on sampled neighbourhoods, which are a new graph in every call.

PyG's `NeighborLoader` needs pyg-lib or torch-sparse, which no test may ask for: batches are drawn
here as it lays them out, the nodes and edges of each hop after those of the hops before it.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.frontend.conftest import METADATA
from tests.frontend.message_passing_cases import WIDTH, pyg
from torch import nn

import hetune
from hetune.variants.frontend import traced_call
from hetune.variants.testing.conformance import TOLERANCE, relative_error

utils = pytest.importorskip("torch_geometric.utils")
NODES = 400
EDGES = torch.randint(0, NODES, (2, 2000), generator=torch.Generator().manual_seed(0))


def sampled(seeds, hops=2):
    """Nodes, edges among them by their places, and how many of both each hop has."""
    nodes, counts, parts = seeds, [len(seeds)], []
    newest = seeds
    for _ in range(hops):
        edges = EDGES[:, torch.isin(EDGES[1], newest)]
        newest = edges[0].unique()
        newest = newest[~torch.isin(newest, nodes)]
        nodes = torch.cat((nodes, newest))
        counts.append(len(newest))
        parts.append(edges)
    place = torch.empty(NODES, dtype=torch.int64)
    place[nodes] = torch.arange(len(nodes))
    return nodes, place[torch.cat(parts, 1)], counts, [part.shape[1] for part in parts]


class Trimmed(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList((pyg.SAGEConv(WIDTH, 6), pyg.GCNConv(6, 3)))

    def forward(self, x, edge_index, nodes, edges):
        for i, conv in enumerate(self.convs):
            x, edge_index, _ = utils.trim_to_layer(i, nodes, edges, x, edge_index)
            x = conv(x, edge_index).relu()
        return x[: nodes[0]]


@torch.no_grad()
@pytest.mark.parametrize("dynamic", [False, True])
def test_layers_are_traced_for_no_batch_but_random_graphs(monkeypatch, dynamic):
    traces, trace = [], traced_call.trace
    monkeypatch.setattr(traced_call, "trace", lambda *args: traces.append(1) or trace(*args))
    model, x = Trimmed().eval(), torch.randn(NODES, WIDTH)
    compiled = hetune.compile(model, dynamic=dynamic)
    for seeds in torch.randperm(NODES)[:100].split(20):
        nodes, edge_index, *counts = sampled(seeds)
        found = compiled(x[nodes], edge_index, *counts)
        torch.testing.assert_close(found, model(x[nodes], edge_index, *counts))
    assert not traces


class Typed(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.convs = nn.ModuleList(kind(WIDTH, WIDTH, 5, **options) for _ in range(2))

    def forward(self, x, edge_index, edge_type):
        for conv in self.convs:
            x = conv(x, edge_index, edge_type).relu()
        return x


@torch.no_grad()
@pytest.mark.parametrize("kind", ["RGCNConv", "RGATConv"])
def test_batches_with_types_of_edges(kind):
    model = Typed(getattr(pyg, kind)).eval()
    compiled = hetune.compile(model, dynamic=True)
    x, types = torch.randn(NODES, WIDTH), torch.randint(0, 5, (EDGES.shape[1],))
    for seeds in torch.randperm(NODES)[:60].split(20):
        nodes, edge_index, *_ = sampled(seeds)
        batch = x[nodes], edge_index, types[: edge_index.shape[1]]
        torch.testing.assert_close(compiled(*batch), model(*batch))
    assert all(layer.variant for layer in compiled.report().layers)


def drawn(nodes, edges, draw):
    """A call with nodes, edges and types of edges; a third of the edges lead to one node."""
    ends = torch.randint(0, nodes, (2, edges), generator=draw)
    ends[1, : edges // 3] = nodes - 1
    types = torch.randint(0, 5, (edges,), generator=draw)
    return torch.randn(nodes, WIDTH, generator=draw), ends, types


def test_threads_with_graphs_of_all_sizes_that_come_and_go():
    """Nothing of a graph that is gone is read for another, nor what a kept one has overwritten."""
    module = pyg.RGCNConv(WIDTH, WIDTH, 5).eval()
    exact, compiled = copy.deepcopy(module).double(), hetune.compile(module, dynamic=True)
    sizes = ((2, 0), (1, 1), (60, 7), (3, 90), (300, 600), (900, 2000), (5000, 17_000))

    def check(x, ends, types):
        with torch.no_grad():
            wanted = exact(x.double(), ends, types)
            found = compiled(x, ends, types)
        assert relative_error(found, wanted) <= TOLERANCE
        return found

    def run(seed):
        draw = torch.Generator().manual_seed(seed)
        kept = drawn(300, 600, draw)
        first = check(*kept)
        for place in torch.randint(0, len(sizes), (25,), generator=draw).tolist():
            check(*drawn(*sizes[place], draw))
        assert torch.equal(check(*kept), first)
        x = kept[0].requires_grad_()
        compiled(*kept).square().sum().backward()
        found, x.grad = x.grad, None
        rows = kept[0].detach().double().requires_grad_()
        exact(rows, *kept[1:]).square().sum().backward()
        assert relative_error(found, rows.grad) <= TOLERANCE

    with ThreadPoolExecutor(4) as pool:
        assert len([*pool.map(run, range(4))]) == 4
    assert compiled.status().variant is not None


class OfTypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(pyg.HGTConv(8, 8, METADATA, heads=2) for _ in range(2))

    def forward(self, x_dict, edge_index_dict):
        for conv in self.convs:
            x_dict = {**x_dict, **conv(x_dict, edge_index_dict)}
        return x_dict


@torch.no_grad()
def test_batches_of_several_types_of_nodes():
    """As `HGTLoader` yields them: all types, some without nodes or edges."""
    model = OfTypes().eval()
    compiled = hetune.compile(model, dynamic=True)
    draw = torch.Generator().manual_seed(0)
    for counts in ((30, 12, 5), (7, 40, 1), (25, 9, 0)):
        sizes = dict(zip(METADATA[0], counts, strict=True))
        x_dict = {name: torch.randn(size, 8, generator=draw) for name, size in sizes.items()}
        edge_index_dict = {}
        for source, relation, target in METADATA[1]:
            most = sizes[source], sizes[target]
            edges = 3 * min(most)
            ends = [torch.randint(0, max(size, 1), (edges,), generator=draw) for size in most]
            edge_index_dict[source, relation, target] = torch.stack(ends)
        found, expected = (m(x_dict, edge_index_dict) for m in (compiled, model))
        assert found.keys() == expected.keys()
        for name, rows in expected.items():
            torch.testing.assert_close(found[name], rows)
    assert all(layer.variant for layer in compiled.report().layers)


def test_attention_from_other_nodes_is_trained():
    """A weight times rows of nodes is an operand of a weight's gradient."""
    layer = pyg.GATConv((WIDTH, WIDTH), 4, heads=2, add_self_loops=False)
    compiled = hetune.compile(layer, backend="torch")
    random = torch.Generator().manual_seed(0)
    edges = torch.stack([torch.randint(0, n, (400,), generator=random) for n in (90, 40)])
    rows = tuple(torch.randn(n, WIDTH, generator=random, requires_grad=True) for n in (90, 40))
    given = (*rows, *layer.parameters())
    found, expected = (
        torch.autograd.grad(run(rows, edges).square().sum(), given) for run in (compiled, layer)
    )
    assert str(compiled.status()).endswith("with gradients")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)

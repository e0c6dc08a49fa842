"""Models that are called with dictionaries of nodes and edges, compared with PyG's own."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from tests.frontend.message_passing_cases import pyg
from torch import nn
from torch.nn.functional import relu

import hetune
from hetune.variants.errors import GraphError
from hetune.variants.frontend import traced_call
from hetune.variants.frontend.tracing.layer import trace
from hetune.variants.program.nodes import Linear, Reduce

WIDTH = 8
ETYPES = [
    ("paper", "cites", "paper"),
    ("author", "writes", "paper"),
    ("paper", "written_by", "author"),
    ("author", "at", "place"),
    ("place", "of", "author"),
]
NTYPES = ["paper", "author", "place"]
METADATA = NTYPES, ETYPES


def data(counts=(61, 37, 7), widths=(WIDTH,) * 3, seed=0):
    random = torch.Generator().manual_seed(seed)
    sizes = dict(zip(NTYPES, counts, strict=True))
    x = {
        name: torch.randn(count, width, generator=random)
        for (name, count), width in zip(sizes.items(), widths, strict=True)
    }
    edges = {
        (src, name, dst): torch.stack(
            [
                torch.randint(0, sizes[src], (90 + 10 * i,), generator=random),
                torch.randint(0, max(2, sizes[dst] - 3), (90 + 10 * i,), generator=random),
            ]
        )
        for i, (src, name, dst) in enumerate(ETYPES)
    }
    return x, edges


class Layers(nn.Module):
    """PyG's example of `HeteroConv`: layers, activations, and a head for one type."""

    def __init__(self, conv, aggr="sum", out=None):
        super().__init__()
        self.convs = nn.ModuleList(
            pyg.HeteroConv({kind: conv(kind) for kind in ETYPES}, aggr=aggr) for _ in range(2)
        )
        self.head = out and nn.Linear(WIDTH, out)

    def forward(self, x_dict, edge_index_dict):
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict)
            x_dict = {name: relu(rows) for name, rows in x_dict.items()}
        return x_dict if self.head is None else self.head(x_dict["author"])


class Sage(nn.Module):
    """PyG's example of `to_hetero`."""

    def __init__(self):
        super().__init__()
        self.first, self.last = pyg.SAGEConv(WIDTH, WIDTH), pyg.SAGEConv(WIDTH, 4)

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index).relu(), edge_index)


class Han(nn.Module):
    """PyG's example of HAN: a layer, and a head for one type."""

    def __init__(self):
        super().__init__()
        self.conv = pyg.HANConv(WIDTH, WIDTH, METADATA, heads=2)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x_dict, edge_index_dict):
        return self.head(self.conv(x_dict, edge_index_dict)["paper"])


def gat(kind):
    return pyg.GATConv(WIDTH, 4, heads=2, add_self_loops=False)


def sage_or_gat(kind):
    return pyg.SAGEConv(WIDTH, WIDTH) if kind in ETYPES[1:3] else gat(kind)


MODELS = {
    "sage": lambda: Layers(lambda kind: pyg.SAGEConv(WIDTH, WIDTH)),
    "sage, one type": lambda: Layers(lambda kind: pyg.SAGEConv((WIDTH, WIDTH), WIDTH), "mean", 4),
    "gat": lambda: Layers(gat, "mean"),
    "sage or gat": lambda: Layers(sage_or_gat, "mean"),
    "graph": lambda: Layers(lambda kind: pyg.GraphConv(WIDTH, WIDTH, aggr="max")),
    "to_hetero": lambda: pyg.to_hetero(Sage(), METADATA, aggr="mean"),
    "han": lambda: pyg.HANConv(WIDTH, WIDTH, METADATA, heads=2),
    "han, one type": Han,
}


def randomized(model):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def assert_equal(found, expected):
    if not isinstance(expected, dict):
        found, expected = {"": found}, {"": expected}
    assert list(found) == list(expected)
    for name, rows in expected.items():
        torch.testing.assert_close(found[name], rows, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_models_of_dictionaries_run_as_one_program(name, monkeypatch):
    model, traces = randomized(MODELS[name]()), []
    fast = hetune.compile(model, mode="whole", backend="cpp" if name == "sage" else "torch")
    monkeypatch.setattr(traced_call, "trace", lambda *given: traces.append(given) or trace(*given))
    for seed in range(3):
        given = data((61 + seed, 37 + 2 * seed, 7 + 3 * seed), seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", hetune.FallbackWarning)
            assert_equal(fast(*given), model(*given))
        if name != "han":
            assert fast.report().layers[0].variant is not None, fast.report()
    assert not traces  # random graphs confirmed the recording of what follows from the edges
    if name == "sage":  # a product of messages and one of roots, whose weights are added first
        lets = fast._whole._adapter.program.lets
        assert [sum(isinstance(let.op, kind) for let in lets) for kind in (Reduce, Linear)] == [
            2,
            4,
        ]
        x, edges = given
        wrong = {**edges, ("author", "at", "place"): torch.tensor([[0, 1], [0, 13]])}
        with pytest.raises(GraphError, match=r"\[1, 1\] is 13, but x_dict\['place'\] has 13 rows"):
            fast(x, wrong)
    same = data((61, 61, 61))
    assert_equal(fast(*same), model(*same))


@torch.no_grad()
def test_metapaths_of_one_type_are_apart():
    """PyG's example of HAN: other types have features, but no edges."""
    x, edges = data()
    paths = {("paper", str(i), "paper"): edges["paper", "cites", "paper"][:, i:] for i in range(2)}
    model = randomized(pyg.HANConv(WIDTH, WIDTH, (NTYPES, list(paths))))
    fast = hetune.compile(model, backend="torch")
    for _ in range(2):
        found, expected = fast(x, paths), model(x, paths)
        torch.testing.assert_close(found["paper"], expected["paper"], rtol=1e-5, atol=1e-5)
        assert found["author"] is expected["author"] is None
    assert fast.status().variant is not None, fast.status()


WIDTHS = dict(zip(NTYPES, (5, 6, 8), strict=True))


def of_ends(conv):
    return pyg.HeteroConv({kind: conv((WIDTHS[kind[0]], WIDTHS[kind[2]])) for kind in ETYPES})


OF_WIDTHS = {
    "sage": lambda: of_ends(lambda widths: pyg.SAGEConv(widths, WIDTH)),
    "gat": lambda: of_ends(lambda widths: pyg.GATConv(widths, 4, 2, add_self_loops=False)),
    "hgt": lambda: pyg.HGTConv(WIDTHS, WIDTH, METADATA, heads=2),
    "han": lambda: pyg.HANConv(WIDTHS, WIDTH, METADATA, heads=2),
}


@pytest.mark.parametrize("name", OF_WIDTHS)
def test_types_of_nodes_have_widths_of_their_own(name):
    model = randomized(OF_WIDTHS[name]())
    fast = hetune.compile(model, backend="torch")
    exact = copy.deepcopy(model).double()
    for seed in range(3):
        x, edges = data(widths=WIDTHS.values(), seed=seed)
        rows = {name: rows.requires_grad_() for name, rows in x.items()}
        doubled = {name: rows.detach().double().requires_grad_() for name, rows in x.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("error", hetune.FallbackWarning)
            found, expected = fast(rows, edges), exact(doubled, edges)
        assert_equal(found, {name: rows.float() for name, rows in expected.items()})
        for results in (found, expected):
            sum(result.square().sum() for result in results.values()).backward()
        for name, row in rows.items():
            torch.testing.assert_close(row.grad.double(), doubled[name].grad, rtol=1e-4, atol=1e-4)


class Mixed(nn.Module):
    """First layers have nodes of several widths, and last ones are of three classes."""

    def __init__(self):
        super().__init__()
        widths = dict(zip(NTYPES, (5, 6, 30), strict=True))
        first = {kind: pyg.SAGEConv((widths[kind[0]], widths[kind[2]]), WIDTH) for kind in ETYPES}
        last = {kind: pyg.SAGEConv(WIDTH, 4) for kind in ETYPES[:2]}
        last |= {kind: pyg.GATConv(WIDTH, 4, add_self_loops=False) for kind in ETYPES[2:4]}
        last[ETYPES[4]] = pyg.GraphConv(WIDTH, 4)
        middle = {kind: pyg.SAGEConv(WIDTH, WIDTH) for kind in ETYPES}
        self.convs = nn.ModuleList(map(pyg.HeteroConv, (first, middle, last)))

    def forward(self, x_dict, edge_index_dict):
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict)
        return x_dict


@torch.no_grad()
def test_a_layer_of_relations_is_one_program_or_one_for_each_relation():
    model = randomized(Mixed())
    given = data(widths=(5, 6, 30))
    fast = hetune.compile(model, backend="torch")
    for _ in range(2):
        assert_equal(fast(*given), model(*given))
    found = {layer.name: layer for layer in fast.report().layers}
    assert len(found) == 3 + 5 + 5
    assert "5, 6, 30 features: of like widths they" in str(found["convs.0"])
    assert found["convs.1"].variant is not None
    assert "not all treated alike" in str(found["convs.2"])
    assert all(layer.variant for layer in found.values() if layer.otherwise == "original")
    assert "convs.1" in fast.explain(*given)


class Stacked(nn.Module):
    """Types of nodes have as many results as relations lead to them."""

    def __init__(self):
        super().__init__()
        convs = {kind: pyg.SAGEConv(WIDTH, 4) for kind in ETYPES}
        self.conv = pyg.HeteroConv(convs, aggr=None)

    def forward(self, x_dict, edge_index_dict):
        return {name: rows.relu() for name, rows in self.conv(x_dict, edge_index_dict).items()}


@torch.no_grad()
def test_results_of_types_may_differ_in_shape():
    model, given = randomized(Stacked()), data()
    fast, expected = hetune.compile(model, mode="whole", backend="torch"), model(*given)
    assert len({rows.shape[1:] for rows in expected.values()}) > 1
    assert_equal(fast(*given), expected)

"""Gradients on features that are mostly zeros: those of weights are sums of entries alone."""

from __future__ import annotations

import copy

import pytest
import torch

import hetune
from hetune.variants.runtime.sparse_features import SparseEntries
from hetune.variants.runtime.sparse_gradients import SparseGradients
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")

NODES, COLUMNS = 60, 160
TYPES = torch.arange(300) % 3
LAYERS = {
    "gcn": lambda: geometric.GCNConv(COLUMNS, 16),
    "sage": lambda: geometric.SAGEConv(COLUMNS, 7),
    "gat": lambda: geometric.GATConv(COLUMNS, 4, heads=2),
    "rgcn": lambda: geometric.RGCNConv(COLUMNS, 8, 3),  # relations' weights read the rows, too
}
EDGES = torch.randint(NODES, (2, 300), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def x():
    """Bags of five words, the first of them empty; the last word is in none."""
    generator = torch.Generator().manual_seed(2)
    rows = torch.zeros(NODES, COLUMNS)
    words = torch.randint(COLUMNS - 1, (NODES, 5), generator=generator)
    rows.scatter_(1, words, torch.randn(NODES, 5, generator=generator))
    rows[0] = 0
    return rows


@pytest.fixture
def runs(monkeypatch):
    """Which gradients ran, and whether they were given products."""
    found: list[bool] = []
    run = SparseGradients.run

    def counted(self, *given):
        made = run(self, *given)
        found.append(made is not None)
        return made

    monkeypatch.setattr(SparseGradients, "run", counted)
    return found


def gradients(layer, called, x, up):
    args = (x, EDGES, TYPES) if isinstance(layer, geometric.RGCNConv) else (x, EDGES)
    return torch.autograd.grad(called(*args), [*layer.parameters()], up)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_the_layer(name, x, runs):
    layer = randomized(LAYERS[name]())
    double = copy.deepcopy(layer).double()
    up = torch.randn(NODES, 8 if name == "gat" else layer.out_channels)
    exact = gradients(double, double, x.double(), up.double())
    compiled = hetune.compile(layer)
    for _ in range(3):
        for got, want in zip(gradients(layer, compiled, x, up), exact, strict=True):
            error = (got.double() - want).abs().max()
            assert error <= 1e-5 * max(want.abs().max(), 1e-4 * max(w.abs().max() for w in exact))
    assert runs == [False, True, True]
    x[3, 4] = 10.0  # what was written to is read again
    exact = gradients(double, double, x.double(), up.double())
    got = gradients(layer, compiled, x, up)
    assert all(torch.allclose(g.double(), w, 1e-4, 1e-4) for g, w in zip(got, exact, strict=True))
    assert runs[3:] == [False]


def test_zeros_times_no_numbers_are_none(x, runs):
    layer = randomized(LAYERS["gcn"]())
    compiled, up = hetune.compile(layer), torch.ones(NODES, 16)
    for _ in range(2):
        gradients(layer, compiled, x, up)
    up[EDGES[1, 0], 3] = torch.inf
    got = dict(zip(["bias", "weight"], gradients(layer, compiled, x, up), strict=True))
    assert runs == [False, True, False]
    assert not got["weight"][3].isfinite().any()
    assert got["weight"][4].isfinite().all()


def test_features_that_come_once_or_are_trained_are_read_whole(x, runs, monkeypatch):
    layer = randomized(LAYERS["gcn"]())
    compiled, up = hetune.compile(layer), torch.ones(NODES, 16)
    looked = []
    monkeypatch.setattr(SparseEntries, "__init__", lambda *_: looked.append(1))
    for _ in range(3):
        gradients(layer, compiled, x.clone(), up)  # a batch's: none is worth a look
    assert not looked
    assert runs == [False] * 3
    leaf = x.clone().requires_grad_()
    monkeypatch.undo()
    for _ in range(3):
        torch.autograd.grad(compiled(leaf, EDGES).sum(), leaf)
    assert runs == [False] * 3


def test_a_limit_of_memory_holds(x, runs):
    layer = randomized(LAYERS["gcn"]())
    compiled, up = hetune.compile(layer, memory_limit=1 << 24), torch.ones(NODES, 16)
    for _ in range(3):
        gradients(layer, compiled, x, up)
    assert runs == [False] * 3

"""Features that are mostly zeros: their entries are multiplied alone, and results stay the same."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch

import hetune
from hetune.variants.runtime import sparse_features
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")

NODES, COLUMNS = 60, 160
LAYERS = {
    "gcn": lambda: geometric.GCNConv(COLUMNS, 16),
    "sage": lambda: geometric.SAGEConv(COLUMNS, 7),
    "gat": lambda: geometric.GATConv(COLUMNS, 4, heads=2),
    "gin": lambda: geometric.GINConv(
        torch.nn.Sequential(torch.nn.Linear(COLUMNS, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    ),
    "tag": lambda: geometric.TAGConv(COLUMNS, 5, K=2),
}
pytestmark = pytest.mark.usefixtures("no_grad")


@pytest.fixture
def edge_index():
    return torch.randint(NODES, (2, 300), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def x():
    """Bags of five words, the first of them empty."""
    generator = torch.Generator().manual_seed(2)
    rows = torch.zeros(NODES, COLUMNS)
    words = torch.randint(COLUMNS, (NODES, 5), generator=generator)
    rows.scatter_(1, words, torch.randn(NODES, 5, generator=generator))
    rows[0] = 0
    return rows


@pytest.fixture
def products(monkeypatch):
    """Counts products with entries alone."""
    found: list[int] = []
    times = sparse_features.SparseEntries.times

    def counted(self, weight, *others):
        found.append(weight.shape[1])
        return times(self, weight, *others)

    monkeypatch.setattr(sparse_features.SparseEntries, "times", counted)
    return found


@pytest.mark.parametrize("name", LAYERS)
def test_results_are_those_of_the_layer(name, x, edge_index, products):
    layer = randomized(LAYERS[name]()).eval()
    exact = copy.deepcopy(layer).double()(x.double(), edge_index).float()
    compiled = hetune.compile(layer)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, edge_index), exact, rtol=1e-5, atol=1e-5)
    assert products
    assert set(products) == {COLUMNS}


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_sparse_tensors_are_rows_too(layout, x, edge_index, products):
    layer = randomized(LAYERS["gcn"]()).eval()
    compiled = hetune.compile(layer)
    rows = x.to_sparse(layout=layout)
    for _ in range(2):
        torch.testing.assert_close(compiled(rows, edge_index), layer(x, edge_index))
    assert len(products) == 1
    (rows._values() if layout is torch.sparse_coo else rows.values()).mul_(2)
    torch.testing.assert_close(compiled(rows, edge_index), layer(2 * x, edge_index))


def test_what_was_written_to_is_read_again(x, edge_index, products):
    layer = randomized(LAYERS["gcn"]()).eval()
    compiled = hetune.compile(layer)
    for _ in range(2):
        compiled(x, edge_index)
    assert len(products) == 1
    x[3, 4] = 100.0
    for _ in range(2):
        torch.testing.assert_close(
            compiled(x, edge_index), layer(x, edge_index), rtol=1e-4, atol=1e-4
        )
    assert len(products) == 2


def test_writes_that_torch_does_not_count_are_seen_in_entries(edge_index, products):
    layer = randomized(LAYERS["gcn"]()).eval()
    compiled = hetune.compile(layer)
    rows = torch.zeros(NODES, COLUMNS)
    for column in (1, 3, 21, None, 1):  # between those of which elements are compared in any tensor
        rows.numpy()[:] = [[float(at == column) for at in range(COLUMNS)]] * NODES
        for _ in range(3):
            torch.testing.assert_close(compiled(rows, edge_index), layer(rows, edge_index))
    assert len(products) == 6


def test_other_tensors_are_multiplied_whole(x, edge_index, products):
    layer = randomized(LAYERS["gcn"]()).eval()
    compiled = hetune.compile(layer)
    with torch.inference_mode():
        uncounted = x.clone()
    dense = torch.randn(NODES, COLUMNS)
    for rows in (dense, uncounted):
        for _ in range(3):
            compiled(rows, edge_index)
    for _ in range(3):
        compiled(x.clone(), edge_index)
    assert not products


def test_a_weight_that_makes_zeros_no_numbers_is_multiplied_whole(x, edge_index, products):
    layer = randomized(LAYERS["gcn"]()).eval()
    compiled = hetune.compile(layer)
    compiled(x, edge_index)
    layer.lin.weight[0, 0] = torch.inf
    for _ in range(2):
        out = compiled(x, edge_index)
    assert not out[:, 0].isfinite().any()
    assert not products


def test_entries_go_with_their_tensor(x, edge_index, products, monkeypatch):
    made_entries = []
    counted = sparse_features.SparseEntries.times

    def noted(self, weight, *others):
        made_entries.append(weakref.ref(self))
        return counted(self, weight, *others)

    monkeypatch.setattr(sparse_features.SparseEntries, "times", noted)
    compiled = hetune.compile(randomized(LAYERS["gcn"]()).eval())
    rows = x.clone()
    made = weakref.ref(rows)
    for _ in range(2):
        compiled(rows, edge_index)
    assert products
    del rows
    gc.collect()
    assert made() is None
    assert [entries() for entries in made_entries] == [None]

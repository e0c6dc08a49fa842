"""Calls of different kinds of one traced layer."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from tests.frontend.message_passing_cases import WIDTH, pyg

from hetune.variants.errors import VariantError
from hetune.variants.frontend import message_passing
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

EDGES = torch.randint(0, 90, (2, 700), generator=torch.Generator().manual_seed(0))


class Halved(pyg.MessagePassing):
    """Has no program as long as it rounds."""

    def __init__(self):
        super().__init__()
        self._rounds, self.counts, self.calls = True, False, 0

    def forward(self, x, edge_index):
        self.calls += self.counts
        return self.propagate(edge_index, x=x.round() if self._rounds else x / 2)


@pytest.fixture
def traced(monkeypatch):
    traces, validated = [], message_passing.validated
    monkeypatch.setattr(
        message_passing, "validated", lambda *args: traces.append(args) or validated(*args)
    )
    return traces


@torch.no_grad()
def test_a_refusal_is_remembered_until_the_layer_changes(traced):
    layer = Halved()
    compiled = compile_layer(layer, backend="torch")
    for nodes, width, times in ((99, WIDTH, 1), (98, WIDTH, 1), (99, WIDTH + 1, 2)):
        x = torch.randn(nodes, width)
        if width == WIDTH and nodes == 99:
            with pytest.warns(FallbackWarning, match="round"):
                compiled(x, EDGES)
        assert torch.equal(compiled(x, EDGES.clone()), layer(x, EDGES))
        assert len(traced) == times
    layer._rounds = False
    torch.testing.assert_close(compiled(x, EDGES), layer(x, EDGES))
    assert len(traced) == 3
    assert compiled.variants


@torch.no_grad()
def test_a_layer_that_changes_with_each_call_is_traced_a_few_times(traced, recwarn):
    layer = Halved()
    layer.counts = True
    compiled = compile_layer(layer, backend="torch")
    x = torch.randn(99, WIDTH)
    for _ in range(20):
        assert torch.equal(compiled(x, EDGES), Halved()(x, EDGES))
    assert len(traced) == 16
    known = weakref.ref(layer)
    traced.clear()
    del layer, compiled
    gc.collect()
    assert known() is None


@torch.no_grad()
def test_each_kind_of_call_is_compiled(recwarn):
    layer = pyg.GCNConv(WIDTH, 4)
    compiled = compile_layer(layer, backend="torch")
    x, weights = torch.randn(99, WIDTH), torch.rand(700)
    calls = (x, EDGES), (x, EDGES, weights), (x, EDGES.int(), weights[:, None]), (x, EDGES)
    for args in calls:
        for variant in (None, compiled.explain(*args).id, *compiled.warm(*args)):
            found = compiled(*args, variant=variant)
            torch.testing.assert_close(found, layer(*args), rtol=1e-5, atol=1e-5)
            assert compiled.status().is_compiled
            assert compiled.status().variant in compiled.variants
    out = torch.empty(99, 4)
    assert compiled(x, EDGES, weights, out=out).data_ptr() == out.data_ptr()
    layer.lin.weight.mul_(2)
    torch.testing.assert_close(compiled(x, EDGES, weights), layer(x, EDGES, weights))
    assert not [str(w.message) for w in recwarn if w.category is FallbackWarning]


@torch.no_grad()
def test_edges_that_come_back_have_the_dtype_that_they_had(recwarn):
    layer = pyg.GATConv(WIDTH, 4, add_self_loops=False).eval()
    compiled = compile_layer(layer, backend="torch")
    args = torch.randn(99, WIDTH), EDGES.int(), None, None, True
    for _ in range(2):
        found, expected = compiled(*args), layer(*args)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        assert found[1][0].dtype is torch.int32
    assert not [str(w.message) for w in recwarn if w.category is FallbackWarning]


class Scaled(pyg.MessagePassing):
    """Each factor makes it another program."""

    def forward(self, x, edge_index, factor=1.0):
        return self.propagate(edge_index, x=x * factor)


@torch.no_grad()
def test_few_kinds_of_calls_are_compiled():
    layer = Scaled()
    compiled = compile_layer(layer, backend="torch")
    x = torch.randn(99, WIDTH)
    for factor in range(5):
        torch.testing.assert_close(compiled(x, EDGES, factor), layer(x, EDGES, factor))
    with pytest.warns(FallbackWarning, match="it is compiled for other kinds of calls"):
        assert torch.equal(compiled(x, EDGES, 5), layer(x, EDGES, 5))
    with pytest.raises(VariantError, match="anew for calls with x: "):
        compiled.explain(x, EDGES, 5)
    torch.testing.assert_close(compiled(x, EDGES, 4), layer(x, EDGES, 4))


@torch.inference_mode()
def test_constants_of_tensors_that_count_no_writes_are_copies():
    layer = pyg.GCNConv(WIDTH, 4, normalize=False)
    compiled = compile_layer(layer, backend="torch")
    x, weights = torch.randn(99, WIDTH), torch.rand(700)
    before = weights.clone()
    torch.testing.assert_close(compiled(x, EDGES, weights), layer(x, EDGES, weights))
    weights.mul_(2)
    torch.testing.assert_close(compiled(x, EDGES, before), layer(x, EDGES, before))
    assert compiled.status().variant in compiled.variants


MATRICES = {
    "GCN": (lambda: pyg.GCNConv(WIDTH, 4), "coo csr"),
    "SAGE": (lambda: pyg.SAGEConv(WIDTH, 4), "coo csr csc"),
    "GIN": (lambda: pyg.GINConv(torch.nn.Linear(WIDTH, 4)), "csr"),
    "Graph": (lambda: pyg.GraphConv(WIDTH, 4, "max"), "csr"),
    "GATv2": (lambda: pyg.GATv2Conv(WIDTH, 4, add_self_loops=False), "csr"),
}


@torch.no_grad()
@pytest.mark.parametrize("name", MATRICES)
def test_sparse_matrices_stand_for_edges(name, recwarn):
    make, layouts = MATRICES[name]
    layer = make().eval()
    compiled = compile_layer(layer, backend="torch")
    x = torch.randn(99, WIDTH)
    for layout in layouts.split():
        for seed in range(2):
            ends = EDGES[:, seed::2].unique(dim=1)
            given = torch.rand(ends.shape[1]) if name in ("GCN", "Graph") else None
            values = torch.ones(ends.shape[1]) if given is None else given
            matrix = torch.sparse_coo_tensor(ends, values, (99, 99)).coalesce()
            matrix = matrix.to_sparse(layout=getattr(torch, f"sparse_{layout}"))
            for _ in range(2):
                torch.testing.assert_close(compiled(x, matrix), layer(x, matrix))
            assert compiled.status().variant in compiled.variants or not compiled.variants
    assert not [str(w.message) for w in recwarn if w.category is FallbackWarning]
    torch.testing.assert_close(compiled(x, EDGES), layer(x, EDGES))


@torch.no_grad()
def test_matrices_of_other_sizes_and_values_that_are_written_to():
    layer = pyg.SAGEConv(WIDTH, 4)
    compiled = compile_layer(layer, backend="torch")
    x = torch.randn(99, WIDTH)
    ends = EDGES.unique(dim=1)
    square, matrix = (
        torch.sparse_coo_tensor(ends, torch.ones(ends.shape[1]), (rows, 99)).to_sparse_csr()
        for rows in (99, 120)
    )
    torch.testing.assert_close(compiled((x, None), square), layer((x, None), square))
    with pytest.warns(FallbackWarning, match=r"the matrix is \[120, 99\], not \[99, 99\]"):
        assert torch.equal(compiled((x, None), matrix), layer((x, None), matrix))
    layer = pyg.GCNConv(WIDTH, 4)
    compiled = compile_layer(layer, backend="torch")
    values = torch.rand(square.values().shape)
    matrix = torch.sparse_csr_tensor(square.crow_indices(), square.col_indices(), values, (99, 99))
    for _ in range(2):
        torch.testing.assert_close(compiled(x, matrix), layer(x, matrix))
        assert compiled.status().variant in compiled.variants
        values[::2] *= 3  # whose writes the matrix does not count


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"num_bases": 3, "aggr": "add"}, {"root_weight": False}])
def test_numbers_of_nodes_stand_for_features(options, recwarn):
    torch.manual_seed(0)
    layer = pyg.RGCNConv(99, 6, 4, **options).eval()
    compiled = compile_layer(layer, backend="torch")
    types = torch.randint(0, 4, (EDGES.shape[1],))
    ids = torch.randperm(99)[:70]
    part = (EDGES < 70).all(0)
    for _ in range(2):
        torch.testing.assert_close(compiled(None, EDGES, types), layer(None, EDGES, types))
        found = compiled(ids, EDGES[:, part], types[part])
        torch.testing.assert_close(found, layer(ids, EDGES[:, part], types[part]))
        layer.weight.mul_(1.5)
    ids[EDGES[0, part][0]] = 99
    types[types == types.max()] = 0  # else it is beyond all weights
    with pytest.raises(IndexError):
        compiled(ids, EDGES[:, part], types[part])
    for variant in compiled._kinds.layer("numbers of nodes", None).variants:
        found = compiled(None, EDGES, types, variant=variant)
        torch.testing.assert_close(found, layer(None, EDGES, types))
    x = torch.randn(99, 99)
    torch.testing.assert_close(compiled(x, EDGES, types), layer(x, EDGES, types))
    assert not [str(w.message) for w in recwarn if w.category is FallbackWarning]

"""Under autocast a compiled layer takes what the module would, and gives the same dtype."""

from __future__ import annotations

import warnings

import pytest
import torch

from hetune import nn as hetune_nn
from hetune.variants.errors import InputError
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")

FLAT = {
    "RGCNConv": lambda: geometric.RGCNConv(8, 8, 3),
    "RGCNConv of bases": lambda: geometric.RGCNConv(8, 8, 3, num_bases=2, root_weight=False),
    "FastRGCNConv": lambda: geometric.FastRGCNConv(8, 8, 3),
    "FastRGCNConv alone": lambda: geometric.FastRGCNConv(
        8, 8, 3, root_weight=False, bias=False, aggr="add"
    ),
    "RGATConv": lambda: geometric.RGATConv(8, 4, 3, heads=2),
    "RGATConv alone": lambda: geometric.RGATConv(8, 8, 3, bias=False),
    "nn.RGCN": lambda: hetune_nn.RGCN(8, 8, 3),
    "nn.RGAT": lambda: hetune_nn.RGAT(8, 8, 3, bias=False),
}
HETERO = {
    "HGTConv": lambda graph: geometric.HGTConv(8, 8, graph.metadata(), heads=2),
    "HGTConv without a skip": lambda graph: geometric.HGTConv(8, 4, graph.metadata()),
    "nn.HGT": lambda graph: hetune_nn.HGT(8, 8, graph.metadata()),
}
KINDS = [torch.bfloat16, torch.float16]


def exact(module, x, *edges):
    """The module's result in float64."""
    with torch.autocast("cpu", enabled=False):
        module.double()
        x = {k: v.double() for k, v in x.items()} if isinstance(x, dict) else x.double()
        found = module(x, *edges)
        module.float()
    return found


@pytest.mark.parametrize("make", FLAT.values(), ids=FLAT)
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.bfloat16),
        (torch.float16, torch.float16),
    ],
)
def test_flat_layers(given, kind, make, x, edges):
    module = randomized(make()).eval()
    layer, x = compile_layer(module, backend="torch"), x.to(given)
    want = exact(module, x, *edges)
    with torch.autocast("cpu", dtype=kind):
        found, expected = layer(x, *edges), module(x, *edges)
        again = layer(x, *edges)
    assert found.dtype is expected.dtype
    assert torch.equal(found, again)
    assert relative_error(found, want) <= relative_error(expected, want) + TOLERANCE
    rounding = TOLERANCE if found.dtype is torch.float32 else torch.finfo(found.dtype).eps
    assert relative_error(found, want) <= rounding


@pytest.mark.parametrize("make", HETERO.values(), ids=HETERO)
@pytest.mark.parametrize("kind", KINDS)
def test_dictionaries(kind, make, x, graph):
    module = randomized(make(graph)).eval()
    layer, edges = compile_layer(module, backend="torch"), to_edge_index_dict(graph)
    first, second = x.split([30, 20])
    for dtypes in ((torch.float32, torch.float32), (kind, kind), (kind, torch.float32)):
        rows = (first.to(dtypes[0]), second.to(dtypes[1]))
        x_dict = dict(zip(graph.ntype_names, rows, strict=True))
        want = exact(module, x_dict, edges)
        with torch.autocast("cpu", dtype=kind):
            found, expected = layer(x_dict, edges), module(x_dict, edges)
            assert layer(x, graph).dtype is torch.float32
        for name, result in found.items():
            assert result.dtype is expected[name].dtype
            bound = relative_error(expected[name], want[name]) + TOLERANCE
            assert relative_error(result, want[name]) <= bound


def test_behind_a_linear_layer(rgcn, x, edges):
    """As in a model: what comes in has 16 bits."""
    linear, layer = torch.nn.Linear(8, 8), compile_layer(rgcn)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(linear(x), *edges, variant=layer.variants[0])  # which no fallback would take
    assert found.dtype is torch.float32
    out = torch.empty(50, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(linear(x), *edges, out=out).data_ptr() == out.data_ptr()
    assert relative_error(out, found.double()) <= TOLERANCE


def test_the_module_is_asked_once(rgcn, x, edges, monkeypatch):
    layer, asked = compile_layer(rgcn, backend="torch"), []

    def forward(self, x, edge_index, edge_type=None):
        asked.append(x.shape)
        return torch.ones(1, 8)

    monkeypatch.setattr(type(rgcn), "forward", forward)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(3):
            layer(x, *edges)
    assert asked == [(1, 8)]


@pytest.mark.parametrize("name", FLAT)
def test_modules_of_bfloat16(name, graph, x, edges):
    """As exact as the module at least, and of the dtype that it gives; float32 rows are refused."""
    module = randomized(FLAT[name]()).eval().bfloat16()
    layer, rows = compile_layer(module, backend="torch"), x.bfloat16()
    given = (graph,) if name.startswith("nn.") else edges
    found, expected = layer(rows, *given, variant=layer.variants[-1]), module(rows, *given)
    assert found.dtype is expected.dtype
    want = module.double()(x.bfloat16().double(), *given)
    module.bfloat16()
    error, bound = relative_error(found, want), relative_error(expected, want)
    assert error <= max(bound, torch.finfo(torch.bfloat16).eps)
    with pytest.raises(InputError, match="only bfloat16 tensors"):
        layer(x, *given, variant=layer.variants[-1])


TRACED = {
    "GCNConv": lambda: geometric.GCNConv(8, 4),
    "SAGEConv": lambda: geometric.SAGEConv(8, 4, normalize=True),
    "GATConv": lambda: geometric.GATConv(8, 4, heads=2),
    "GINConv": lambda: geometric.GINConv(torch.nn.Linear(8, 4)),
    "APPNP": lambda: geometric.APPNP(2, 0.1),
}


@pytest.mark.parametrize("make", TRACED.values(), ids=TRACED)
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, None])
def test_traced_layers(make, given, x, edges):
    """Under autocast; of bfloat16 themselves where no dtype is given."""
    module = make().eval()
    layer = compile_layer(module, backend="torch")
    if given is None and not any(True for _ in module.parameters()):
        return
    rows = x.to(given or torch.bfloat16)
    module.to(torch.bfloat16 if given is None else torch.float32)
    with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16, enabled=bool(given)):
        warnings.simplefilter("error", FallbackWarning)
        for _ in range(2):
            found, expected = layer(rows, edges[0]), module(rows, edges[0])
    assert found.dtype is expected.dtype
    assert layer.status().variant in layer.variants
    want = module.double()(rows.double(), edges[0])
    error, bound = relative_error(found, want), relative_error(expected, want)
    assert error <= max(2 * bound, torch.finfo(torch.bfloat16).eps)


def test_attention_is_returned_in_its_own_dtype(x, edges):
    module = geometric.GATConv(8, 4, heads=2).eval()
    layer = compile_layer(module, backend="torch")
    with torch.autocast("cpu", torch.bfloat16):
        rows, (index, weights) = layer(x, edges[0], return_attention_weights=True)
        expected, (known, others) = module(x, edges[0], return_attention_weights=True)
    assert torch.equal(index, known)
    assert (rows.dtype, weights.dtype) == (expected.dtype, others.dtype)
    torch.testing.assert_close(weights, others, atol=2e-2, rtol=2e-2)


def test_dictionaries_of_bfloat16(x, graph):
    module = randomized(HETERO["HGTConv"](graph)).eval().bfloat16()
    layer, edges = compile_layer(module, backend="torch"), to_edge_index_dict(graph)
    x_dict = dict(zip(graph.ntype_names, x.bfloat16().split([30, 20]), strict=True))
    found, expected = layer(x_dict, edges, variant=layer.variants[0]), module(x_dict, edges)
    assert {k: rows.dtype for k, rows in found.items()} == dict.fromkeys(expected, torch.bfloat16)
    assert layer(x.bfloat16(), graph).dtype is torch.bfloat16
    for name, rows in found.items():
        assert relative_error(rows, expected[name].double()) <= 1e-2


def test_a_module_of_bfloat16_may_store_so():
    """Unless the caller says otherwise; parameters of two dtypes are not taken."""
    narrow = hetune_nn.RGCN(64, 64, 3).bfloat16()
    layer = compile_layer(narrow, backend="torch")
    assert any("+bf16/" in name for name in layer.variants)
    exact = compile_layer(narrow, backend="torch", precision="float32")
    assert not any("+bf16/" in name for name in exact.variants)
    narrow.root.data = narrow.root.data.float()
    with pytest.warns(FallbackWarning, match="is bfloat16, not float32 as others are"):
        compile_layer(narrow, backend="torch")


def test_without_autocast_rows_of_16_bits_are_the_modules_own_business(rgcn, x, edges):
    layer = compile_layer(rgcn)
    with (
        pytest.warns(FallbackWarning, match="x is a bfloat16 tensor"),
        pytest.raises(RuntimeError, match="same dtype"),
    ):
        layer(x.bfloat16(), *edges)

"""`RGCNConv(aggr="mean")` where pyg-lib is installed: a mean over the edges of all relations."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from hetune.variants.errors import InputError, VariantError
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric")
rgcn_conv = pytest.importorskip("torch_geometric.nn.conv.rgcn_conv")
pytestmark = pytest.mark.usefixtures("no_grad")


def segment_matmul(x, ptr, weight):
    parts = zip(x.split((ptr[1:] - ptr[:-1]).tolist()), weight, strict=True)
    return torch.cat([rows @ each for rows, each in parts])


@pytest.fixture
def pyg_lib(monkeypatch):
    """PyG as it is with pyg-lib."""
    ops = SimpleNamespace(segment_matmul=segment_matmul)
    monkeypatch.setattr(rgcn_conv, "pyg_lib", SimpleNamespace(ops=ops), raising=False)
    monkeypatch.setattr(geometric.typing, "WITH_SEGMM", True)
    return monkeypatch


def close(found, expected):
    return relative_error(found, expected.double()) <= TOLERANCE


def test_the_result_is_that_of_the_installation(pyg_lib, rgcn, x, edges, graph):
    layer, expected = compile_layer(rgcn, backend="torch"), {}
    for uses in (False, True, None):
        pyg_lib.setattr(geometric.backend, "use_segment_matmul", uses)
        expected[uses] = rgcn(x, *edges)
    assert not close(expected[True], expected[False])
    assert torch.equal(expected[None], expected[False])  # what PyG finds faster for so few edges
    for uses in (False, None):
        pyg_lib.setattr(geometric.backend, "use_segment_matmul", uses)
        assert close(layer(x, *edges), expected[uses])
    pyg_lib.setattr(geometric.backend, "use_segment_matmul", True)
    with pytest.warns(FallbackWarning, match="use_segment_matmul = False for that of each"):
        assert close(layer(x, *edges), expected[True])
    assert close(layer(x, graph), expected[True])  # said once
    with pytest.raises(VariantError, match="over the edges of all relations"):
        layer.explain(x, *edges)
    with pytest.raises(InputError, match="variant= cannot be honored"):
        layer(x, *edges, variant=layer.variants[0])


def test_pyg_decides_by_the_graph(pyg_lib, rgcn, x, edges):
    pyg_lib.setattr(geometric.backend, "use_segment_matmul_heuristic", lambda **sizes: True)
    layer = compile_layer(rgcn, backend="torch")
    with pytest.warns(FallbackWarning, match="over the edges of all relations"):
        assert close(layer(x, *edges), rgcn(x, *edges))


@pytest.mark.parametrize("options", [{"aggr": "add"}, {"num_bases": 2}, {"num_blocks": 2}], ids=str)
def test_what_pyg_lib_does_not_change(options, pyg_lib, x, edges):
    pyg_lib.setattr(geometric.backend, "use_segment_matmul", True)
    module = randomized(rgcn_conv.RGCNConv(8, 8, 3, **options))
    layer = compile_layer(module, backend="torch")
    assert close(layer(x, *edges, variant=layer.variants[0]), module(x, *edges))


def test_the_fast_layer_divides_by_relation(pyg_lib, x, edges):
    pyg_lib.setattr(geometric.backend, "use_segment_matmul", True)
    module = randomized(rgcn_conv.FastRGCNConv(8, 8, 3))
    layer = compile_layer(module, backend="torch")
    assert close(layer(x, *edges, variant=layer.variants[0]), module(x, *edges))

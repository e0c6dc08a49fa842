"""`HGTConv` with dictionaries whose keys are in another order than its metadata: PyG's answer."""

from __future__ import annotations

import copy
import warnings
from types import SimpleNamespace

import pytest
import torch

from hetune.variants.errors import VariantError
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")

METADATA = (
    ["a", "b", "c"],
    [("a", "x", "b"), ("b", "y", "b"), ("b", "z", "a"), ("c", "w", "c")],
)
SIZES = {"a": 12, "b": 9, "c": 7}


def given():
    make = torch.Generator().manual_seed(3)
    x_dict = {name: torch.randn(n, 4, generator=make) for name, n in SIZES.items()}
    edges = {
        (source, name, target): torch.stack(
            [torch.randint(SIZES[end], (20,), generator=make) for end in (source, target)]
        )
        for source, name, target in METADATA[1]
    }
    return x_dict, edges


def in_order(found, order):
    keys = list(found)
    return {keys[i]: found[keys[i]] for i in order}


def exact(module, x_dict, edges):
    return copy.deepcopy(module).double()({n: x.double() for n, x in x_dict.items()}, edges)


def same(found, expected):
    return found.keys() == expected.keys() and all(
        relative_error(found[name], expected[name]) <= TOLERANCE for name in expected
    )


@pytest.mark.parametrize("expected_runs", [None, 1, 1000])
@pytest.mark.parametrize("nodes", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("types", [(0, 1, 2, 3), (1, 0, 2, 3), (3, 2, 1, 0), (0, 2), (2, 0)])
def test_every_call_gives_what_pyg_gives(types, nodes, expected_runs):
    module = randomized(geometric.HGTConv(4, 4, METADATA, heads=2)).eval()
    x_dict, edges = given()
    x_dict, edges = in_order(x_dict, nodes), in_order(edges, types)
    expected = exact(module, x_dict, edges)
    layer = compile_layer(module, backend="torch", expected_runs=expected_runs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert all(same(layer(x_dict, edges), expected) for _ in range(3))
    said = [str(w.message) for w in caught if w.category is FallbackWarning]
    assert len(said) == (list(types) != sorted(types))
    assert all("edge_index_dict has its edge types in another order" in text for text in said)


def test_the_first_call_and_the_second_are_alike():
    """Also where kernels take over from the module after one call."""
    module = randomized(geometric.HGTConv(4, 4, METADATA)).eval()
    x_dict, edges = given()
    for order in ((0, 1, 2, 3), (1, 0, 3, 2)):
        layer, lists = compile_layer(module), in_order(edges, order)
        expected = exact(module, x_dict, lists)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            assert all(same(layer(x_dict, lists), expected) for _ in range(2))


def test_what_is_multiplied_at_once_goes_by_position(monkeypatch):
    """As with pyg-lib, for which plain products stand here."""

    def grouped_matmul(inputs, others, biases):
        return [x @ w + b for x, w, b in zip(inputs, others, biases, strict=True)]

    import torch_geometric

    linear = torch_geometric.nn.dense.linear
    ops = SimpleNamespace(grouped_matmul=grouped_matmul)
    monkeypatch.setattr(linear, "pyg_lib", SimpleNamespace(ops=ops))
    monkeypatch.setattr(torch_geometric.typing, "WITH_GMM", True)
    monkeypatch.setattr(torch_geometric.backend, "use_segment_matmul", True)
    x_dict, edges = given()
    x_dict = {name: x[:7] for name, x in x_dict.items()}
    edges = {key: ids % 7 for key, ids in edges.items()}
    for widths in (4, {"b": 4, "c": 4, "a": 4}):
        module = randomized(geometric.HGTConv(widths, 4, METADATA)).eval()
        layer = compile_layer(module, backend="torch", expected_runs=1)
        for order in ((0, 1, 2), (1, 2, 0)):
            rows = in_order(x_dict, order)
            expected = module(rows, edges)
            if widths == 4 and order == (0, 1, 2):
                assert same(layer(rows, edges), expected)
                layer.explain(rows, edges)
                continue
            with pytest.raises(VariantError, match="x_dict or in_channels has its node types"):
                layer.explain(rows, edges)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FallbackWarning)
                found = layer(rows, edges)
            assert all(torch.equal(found[name], expected[name]) for name in expected)

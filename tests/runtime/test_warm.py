"""Warming up: calls on a graph wait for no compiler and no index afterwards."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import torch

from hetune import nn
from hetune.costmodel.selection.selector import Selector
from hetune.variants.errors import CompileError, VariantError
from hetune.variants.graph.index import GraphIndex
from hetune.variants.registry import Registry, Toolchain, override_default_registry
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.testing.layers import randomized

pytestmark = pytest.mark.usefixtures("no_grad")


@pytest.fixture
def registry():
    """One that has loaded nothing yet."""
    found = Registry()
    with override_default_registry(found):
        yield found


@pytest.fixture
def no_compiler(monkeypatch):
    """Call it: from then on there is none."""

    def start(*given):
        raise AssertionError("a compiler was started")

    return lambda: monkeypatch.setattr(Toolchain, "compile", start)


@pytest.mark.parametrize("options", [{}, {"expected_runs": 5}, {"explore": True}], ids=str)
def test_no_call_compiles_loads_or_indexes_anything(options, graph, x, registry, no_compiler):
    layer = randomized(nn.RGAT(8, 8, 3))
    fast = compile_layer(layer, estimator=Selector(), **options)
    said = []
    foreseen = fast.warm(graph, progress=lambda *given: said.append(given))
    no_compiler()
    loads, built = asdict(registry.loads), dict(GraphIndex.of(graph).build_seconds)
    for _ in range(20):
        torch.testing.assert_close(fast(x, graph), layer(x, graph), atol=1e-4, rtol=1e-4)
    now = asdict(registry.loads)
    assert all(now[where] == loads[where] for where in ("disk", "compiled", "failed"))
    assert GraphIndex.of(graph).build_seconds == built
    assert set(foreseen) <= set(fast.variants)
    assert [(done, total) for done, total, _ in said] == [
        (done, len(said)) for done in range(1, len(said) + 1)
    ]
    assert said


def test_a_call_s_arguments_do_as_well(x, edges, registry, no_compiler):
    geometric = pytest.importorskip("torch_geometric.nn")
    fast = compile_layer(randomized(geometric.RGCNConv(8, 8, 3)))
    assert fast.warm(x, *edges) == fast.warm(x, edges[0], edge_type=edges[1])
    no_compiler()
    loads = registry.loads.compiled
    fast(x, *edges)
    assert registry.loads.compiled == loads


def test_what_cannot_be_warmed_up_says_why(graph, monkeypatch, tmp_path):
    with pytest.warns(match="is float64"):
        fast = compile_layer(nn.RGAT(8, 8, 3).double())
    with pytest.raises(VariantError, match="weight is float64, not float32"):
        fast.warm(graph)

    def fails(*given):
        raise CompileError("no space left")

    monkeypatch.setattr(Toolchain, "compile", fails)
    with (
        override_default_registry(Registry(tmp_path)),
        pytest.raises(CompileError, match=r"the kernel .* does not compile: no space left"),
    ):
        compile_layer(nn.RGAT(8, 8, 3)).warm(graph)


def test_other_backends_have_nothing_to_compile(graph, x):
    fast = compile_layer(nn.RGCN(8, 8, 3), backend="torch")
    assert set(fast.warm(graph)) <= set(fast.variants)
    fast(x, graph)

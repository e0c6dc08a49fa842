"""What outgrows float32 in a variant's order of operations, and not in the module's own."""

from __future__ import annotations

import math

import pytest
import torch

from hetune import nn as hetune_nn
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import TOLERANCE, relative_error

pytestmark = pytest.mark.usefixtures("no_grad")
HUGE = 1e38


@pytest.fixture(params=["cpp", "torch"])
def backend(request):
    return request.param


def star(sources: int) -> HeteroGraph:
    """Edges of one type from all others to node 0."""
    ids = torch.arange(1, sources + 1)
    return HeteroGraph(ids, torch.zeros_like(ids), torch.zeros_like(ids), num_nodes=sources + 1)


def close(found, expected):
    return relative_error(found, expected.double()) <= TOLERANCE


def mean_layer(backend, width=4):
    module = hetune_nn.RGCN(width, width, 1, self_loop=False, bias=False)
    module.weight.copy_(torch.eye(width)[None])
    return compile_layer(module, backend=backend)


def test_a_sum_before_its_division(backend):
    """Here a variant's sum is not finite, the mean is."""
    graph, layer = star(8), mean_layer(backend)
    x = torch.full((9, 4), HUGE)
    summing = next(v for v in layer.variants if v.startswith("dst/"))
    with pytest.raises(InputError, match=f"the result of {summing} may be wrong: a sum or prod"):
        layer(x, graph, variant=summing)
    with pytest.warns(FallbackWarning, match="outgrows float32 in the order in which"):
        found = layer(x, graph)
    assert close(found, layer.module(x, graph))
    assert found.isfinite().all()
    assert close(layer(x / 1e30, graph), layer.module(x / 1e30, graph))
    with pytest.raises(InputError, match="memory_limit= cannot be honored"):
        layer(x, graph, memory_limit=10**9)


def test_the_modules_result_is_written_where_it_is_wanted(backend):
    graph, layer = star(8), mean_layer(backend)
    x, out = torch.full((9, 4), HUGE), torch.zeros(9, 4)
    with pytest.warns(FallbackWarning, match="outgrows float32"):
        found = layer(x, graph, out=out)
    assert found.data_ptr() == out.data_ptr()
    assert torch.equal(out, layer.module(x, graph))
    with pytest.raises(InputError, match="allocate that many elements"):
        layer(x, graph, out=torch.zeros(3, 4))


def test_so_are_those_of_types(backend):
    geometric = pytest.importorskip("torch_geometric.nn")
    ids = torch.tensor([[0, 1, 2], [0, 0, 1]])
    metadata = (["a", "b"], [("a", "x", "b")])
    layer = compile_layer(geometric.HGTConv(4, 4, metadata).eval(), backend=backend)
    rows = {"a": torch.full((3, 4), 3e38), "b": torch.full((2, 4), 3e38)}
    out = torch.zeros(5, 4)
    with pytest.warns(FallbackWarning, match="outgrows float32"):
        found = layer(rows, {metadata[1][0]: ids}, out=out)
    expected = layer.module(rows, {metadata[1][0]: ids})
    assert found.keys() == expected.keys()
    torch.testing.assert_close(found["b"], expected["b"], rtol=0, atol=0, equal_nan=True)
    assert found["b"].data_ptr() == out[3:].data_ptr()


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_infinite_stays_so_without_a_warning(value, backend):
    graph, layer = star(8), mean_layer(backend)
    x = torch.full((9, 4), HUGE)
    x[3] = value
    assert not layer(x, graph)[0].isfinite().any()


def test_weights_that_outgrow_float32_when_multiplied(backend):
    """Scores by weights-first products are infinite, those of the module are ordinary."""
    graph = star(4096)
    module = hetune_nn.RGAT(16, 16, 1, bias=False)
    for name, size in (("weight", 1e-20), ("att_q", 1e-20), ("att_k", 1e-20)):
        parameter = getattr(module, name, None)
        if parameter is not None:
            parameter.copy_(torch.randn_like(parameter) * size)
    layer = compile_layer(module, backend=backend)
    x = torch.randn(4097, 16) * 1e20
    assert "weights-first" in layer.explain(x, graph).id
    with pytest.warns(FallbackWarning, match="outgrows float32"):
        assert close(layer(x, graph), module(x, graph))
    layer(x, graph, variant=layer.variants[0])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("size", "overflows"), [(1e30, False), (1e38, True), (math.inf, False)])
def test_kernels_tell_of_overflow(size, overflows, threads):
    """Whichever thread it happens in, and whatever that thread did before."""
    torch.set_num_threads(threads)
    launch = parse(
        "launch\n  buffer x: node[4]\n  buffer y: node[4]\n  traverse node\n"
        "    v: [4] = read x\n    f: [4] = scale(v, const=100.0)\n    store y = f\n"
    )
    none = torch.empty(0, dtype=torch.int64)
    graph = HeteroGraph(none, none, none, num_nodes=4096, num_etypes=1)
    run = CppBackend().bind(launch, Schedule(), Domain(graph))
    for at in (0, 2000, 4095):
        x = torch.ones(4096, 4)
        x[at] = 1e38
        assert run({"x": x, "y": torch.empty(4096, 4)})
        x[at] = size
        assert run({"x": x, "y": torch.empty(4096, 4)}) is overflows
    assert not run({"x": torch.ones(4096, 4), "y": torch.empty(4096, 4)})

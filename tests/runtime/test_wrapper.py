"""A compiled layer behaves as the layer that it was made of."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest
import torch
from torch.nn.modules import module as torch_modules
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

import hetune
from hetune.costmodel.selection.selector import Selector
from hetune.variants.errors import VariantError
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.cost_estimates import RooflineEstimator

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = [pytest.mark.usefixtures("no_grad"), pytest.mark.filterwarnings("error")]


@pytest.fixture
def rgat():
    return geometric.RGATConv(8, 4, 3, heads=2).eval()


@pytest.fixture
def fast(rgat):
    return compile_layer(rgat, backend="torch")


# Attributes.


def test_attributes_are_those_of_the_module(fast, rgat):
    assert (fast.out_channels, fast.heads, fast.weight) == (4, 2, rgat.weight)
    assert fast.aggr_module is rgat.aggr_module
    assert fast.get_parameter("weight") is rgat.weight
    assert hasattr(fast, "propagate")
    assert not hasattr(fast, "nothing_of_that_name")
    rgat.batches = 3
    assert fast.batches == 3
    assert {"heads", "weight", "reset_parameters", "explain", "variants"} <= set(dir(fast))
    with pytest.raises(AttributeError, match="'RGATConv' object has no attribute 'headz'"):
        fast.headz  # noqa: B018


def test_methods_are_those_of_the_module(fast, rgat, x, edges):
    before = fast(x, *edges)
    fast.reset_parameters()
    after = fast(x, *edges)
    assert not torch.equal(after, before)
    torch.testing.assert_close(after, rgat(x, *edges))


def test_what_is_written_is_written_to_the_module(fast, rgat, x, edges):
    fast.bias = torch.nn.Parameter(torch.ones(8))
    assert rgat.bias is fast.bias
    torch.testing.assert_close(fast(x, *edges), rgat(x, *edges))
    fast.note = "mine"
    fast.register_buffer("seen", torch.zeros(1))
    assert (rgat.note, rgat.seen) == ("mine", fast.seen)
    del fast.note, fast.seen
    assert not {"note", "seen"} & set(dir(rgat))
    fast.negative_slope = 0.5
    assert rgat.negative_slope == 0.5
    with pytest.raises(VariantError, match=r"negative_slope is 0\.5, and was 0\.2"):
        fast.explain(x, *edges)


def test_parameters_are_there_once(fast, rgat):
    fast.extra = torch.nn.Parameter(torch.ones(1))
    assert [*map(id, fast.parameters())] == [*map(id, rgat.parameters())]
    assert fast.state_dict().keys() == rgat.state_dict().keys()
    assert "extra" in fast.state_dict()
    fast.eval()
    assert fast.training is rgat.training is False


def test_parts_keep_their_modes():
    rgat = geometric.RGATConv(8, 4, 3)
    rgat.aggr_module.eval()
    compile_layer(rgat, backend="torch")
    assert rgat.training
    assert not rgat.aggr_module.training


# Copies.


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_run_compiled_and_keep_their_hooks(copied, fast, rgat, x, edges):
    seen = []
    fast.register_forward_hook(lambda module, args, out: seen.append(out))
    twin = copied(fast)
    assert twin.module is not rgat
    assert (twin.weight is rgat.weight) == (copied is copy.copy)
    torch.testing.assert_close(twin(x, *edges, variant=fast.variants[0]), rgat(x, *edges))
    assert len(seen) == 1


def test_a_model_of_layers_is_saved_by_its_state_dict_or_its_modules(fast, x, edges):
    """As the error says that pickling a compiled layer gives."""
    with pytest.raises(pickle.PicklingError, match=r"save the state dict.*pickle the attribute"):
        torch.save(torch.nn.Sequential(fast), io.BytesIO())
    expected = fast(x, *edges)
    for saved in (fast.state_dict(), pickle.loads(pickle.dumps(fast.module)).state_dict()):
        file = io.BytesIO()
        torch.save(saved, file)
        file.seek(0)
        other = compile_layer(geometric.RGATConv(8, 4, 3, heads=2).eval(), backend="torch")
        other.load_state_dict(torch.load(file, weights_only=True))
        assert torch.equal(other(x, *edges), expected)


# Compiled once more.


def test_a_compiled_layer_is_compiled_anew_with_its_own_options(rgat, x, edges):
    estimator = RooflineEstimator()
    first = compile_layer(
        rgat,
        backend="torch",
        memory_limit=10**9,
        expected_runs=3,
        explore=True,
        estimator=estimator,
    )
    again = compile_layer(first)
    assert again is not first
    assert (again.module, again.variants) == (rgat, first.variants)
    assert (again._policy, again._runs.backend) == (first._policy, first._runs.backend)
    changed = compile_layer(first, memory_limit=10**8, backend="cpp")
    assert (changed._policy.memory_limit, changed._policy.expected_runs) == (10**8, 3)
    assert changed._runs.backend.name == "cpp"
    torch.testing.assert_close(again(x, *edges), rgat(x, *edges))


def test_so_is_one_of_the_package(rgat):
    mine, other = Selector(), Selector()
    first = hetune.compile(rgat, backend="torch", selector=mine)
    assert hetune.compile(first)._policy.estimator is mine
    assert hetune.compile(first, selector=other)._policy.estimator is other


def test_compiled_anew_it_has_the_options_that_changed(fast, x, edges):
    fast.negative_slope = 0.9
    fast = compile_layer(fast)
    torch.testing.assert_close(fast(x, *edges), fast.module(x, *edges))


# Hooks.


def test_hooks_of_the_layer_see_its_calls_which_stay_compiled(fast, x, edges):
    seen = []
    fast.register_forward_pre_hook(lambda module, args: (2 * args[0], *args[1:]))
    fast.register_forward_hook(lambda module, args, out: seen.append(module) or out + 1)
    found = fast(x, *edges)
    torch.testing.assert_close(found, fast.module(2 * x, *edges) + 1)
    assert seen == [fast]


def test_global_hooks_see_the_layer(fast, rgat, x, edges):
    expected, before, after = fast(x, *edges), [], []
    handles = [
        register_module_forward_pre_hook(lambda module, args: before.append((module, args))),
        register_module_forward_hook(
            lambda module, args, kwargs, out: after.append((module, args, kwargs, out)),
            with_kwargs=True,
        ),
    ]
    try:
        found = fast(x, edges[0], edge_type=edges[1], variant=fast.variants[0])
    finally:
        for handle in handles:
            handle.remove()
        torch_modules._global_forward_hooks_with_kwargs.clear()  # torch leaves it there
    torch.testing.assert_close(found, expected)
    assert [module for module, _ in before] == [fast, rgat]
    assert [module for module, *_ in after] == [rgat, fast]
    _, args, kwargs, out = after[0]
    assert args == (x, edges[0])
    assert kwargs == {"edge_type": edges[1]}
    assert out is found


def test_global_hooks_may_change_what_the_layer_takes_and_gives(fast, rgat, x, edges):
    def double(module, args):
        return (2 * args[0], *args[1:]) if module is rgat else None

    def add(module, args, out):
        return out + 1 if module is rgat else None

    expected = rgat(2 * x, *edges) + 1
    handles = [register_module_forward_pre_hook(double), register_module_forward_hook(add)]
    try:
        torch.testing.assert_close(fast(x, *edges), expected)
        torch.testing.assert_close(rgat(x, *edges), expected)
    finally:
        for handle in handles:
            handle.remove()
    torch.testing.assert_close(fast(x, *edges), rgat(x, *edges))


# What it is.


def test_its_type_is_its_own_and_the_module_is_inside(fast, rgat):
    assert isinstance(fast, CompiledLayer)
    assert not isinstance(fast, geometric.RGATConv)
    assert [m for m in fast.modules() if isinstance(m, geometric.MessagePassing)] == [rgat]
    assert repr(rgat) in repr(fast)


def test_whose_call_it_is_that_runs_uncompiled():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hetune.compile(geometric.RGCNConv(8, 8, 3, decomposed_layers=2))
    assert [w.filename for w in caught] == [__file__]


def test_it_is_taken_where_a_layer_is(fast, rgat, x, graph):
    selector = Selector()
    assert selector.choose(fast, graph).id == selector.choose(rgat, graph).id
    torch.testing.assert_close(hetune.nn.from_pyg(fast)(x, graph), fast(x, graph))

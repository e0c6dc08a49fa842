"""A compiled layer's parameters and parts have the layer's own names, wherever torch uses names."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch.func import functional_call
from torch.nn.utils import parametrizations, parametrize, prune

from hetune.variants.errors import InputError
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")


@pytest.fixture
def rgcn():
    return randomized(geometric.RGCNConv(8, 8, 3)).eval()


@pytest.fixture
def fast(rgcn):
    return compile_layer(rgcn, backend="torch", expected_runs=1)


@pytest.fixture
def hgt(graph):
    return randomized(geometric.HGTConv(8, 8, graph.metadata())).eval()


def names(pairs):
    return [name for name, _ in pairs]


@pytest.mark.parametrize("kind", ["rgcn", "hgt"])
@pytest.mark.parametrize("unique", [True, False])
def test_names_are_those_of_the_layer(kind, unique, request):
    module = request.getfixturevalue(kind)
    fast = compile_layer(module, backend="torch")
    for found, expected in (
        (fast, module),
        (torch.nn.Sequential(fast), torch.nn.Sequential(module)),
    ):
        for walk in ("named_parameters", "named_buffers"):
            walked = [getattr(m, walk)(remove_duplicate=unique) for m in (found, expected)]
            assert names(walked[0]) == names(walked[1])
        assert found.state_dict().keys() == expected.state_dict().keys()
    assert names(fast.named_children()) == names(module.named_children())
    more = ["module"] if unique else []
    assert names(fast.named_modules(remove_duplicate=unique)) == [
        *names(module.named_modules(remove_duplicate=unique)),
        *more,
    ]
    assert all(fast.get_submodule(name) is part for name, part in fast.named_modules())


def test_each_parameter_is_walked_once_part_by_part(fast, rgcn):
    """As data parallel wrappers do."""
    net, memo = torch.nn.Sequential(fast), set()
    walked = [
        f"{name}.{key}"
        for name, part in net.named_modules()
        for key, parameter in part.named_parameters(recurse=False)
        if parameter not in memo and not memo.add(parameter)
    ]
    assert walked == [f"0.{name}" for name in names(rgcn.named_parameters())]
    assert type(fast._replicate_for_data_parallel()) is type(rgcn)


def test_data_parallel_runs_it_on_a_cpu(fast, x, edges):
    net = torch.nn.DataParallel(fast)
    assert net.module is fast
    torch.testing.assert_close(net(x, *edges), fast(x, *edges), rtol=0, atol=0)


@pytest.mark.parametrize("tied", [True, False])
def test_functional_call_takes_them(tied, fast, rgcn, x, edges):
    given = {name: 2 * each for name, each in rgcn.named_parameters()}
    before = rgcn.state_dict(keep_vars=True)
    expected = functional_call(rgcn, given, (x, *edges))
    torch.testing.assert_close(
        functional_call(fast, given, (x, *edges), tie_weights=tied), expected
    )
    after = rgcn.state_dict(keep_vars=True)
    assert all(after[name] is before[name] for name in before)
    one = {"weight": given["weight"]}
    torch.testing.assert_close(
        functional_call(fast, one, (x, *edges)), functional_call(rgcn, one, (x, *edges))
    )
    torch.testing.assert_close(fast(x, *edges), rgcn(x, *edges))


def test_loading_names_what_is_missing(fast, rgcn):
    state = rgcn.state_dict()
    del state["root"]
    found = fast.load_state_dict({**state, "more": torch.zeros(1)}, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["root"], ["more"])
    net = torch.nn.Sequential(fast)
    with pytest.raises(RuntimeError, match=r'Missing key.*"0\.root"'):
        net.load_state_dict({f"0.{name}": each for name, each in state.items()})


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        (lambda f: prune.l1_unstructured(f, "weight", 0.5), lambda f: prune.remove(f, "weight")),
        (torch.nn.utils.weight_norm, torch.nn.utils.remove_weight_norm),
    ],
    ids=["prune", "weight_norm"],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weights_made_of_others(change, undo, fast, x, edges):
    twin = copy.deepcopy(fast.module)
    change(fast)
    change(twin)
    assert fast.state_dict().keys() == twin.state_dict().keys()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        torch.testing.assert_close(fast(x, *edges), twin(x, *edges))
    undo(fast)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        torch.testing.assert_close(fast(x, *edges), twin(x, *edges))


def test_parametrizations_are_the_modules(fast, x, edges):
    weight = fast.weight
    with pytest.raises(InputError, match="call torch with the compiled layer's attribute `module`"):
        parametrizations.weight_norm(fast, "weight")
    assert fast.weight is weight
    assert not parametrize.is_parametrized(fast)
    parametrizations.weight_norm(fast.module, "weight")
    assert parametrize.is_parametrized(fast)
    with pytest.warns(FallbackWarning):
        torch.testing.assert_close(fast(x, *edges), fast.module(x, *edges))
    with torch.enable_grad():
        parametrize.remove_parametrizations(fast.module, "weight")
    torch.testing.assert_close(fast(x, *edges), fast.module(x, *edges))


def test_what_reaches_all_parts(fast, rgcn, x, edges):
    met = []
    assert fast.apply(met.append) is fast
    assert met == [*rgcn.children(), rgcn, fast]
    assert fast.train() is fast
    assert all(part.training for part in fast.modules())
    assert not any(part.training for part in fast.eval().modules())
    assert fast.double() is fast
    assert rgcn.weight.dtype is torch.float64
    fast.float()
    torch.testing.assert_close(fast(x, *edges), rgcn(x, *edges))
    assert fast.requires_grad_(False) is fast
    assert not any(each.requires_grad for each in rgcn.parameters())


def test_an_optimizer_and_hooks_of_state_dicts(fast, rgcn, x, edges):
    seen = []
    rgcn.register_load_state_dict_post_hook(lambda module, keys: seen.append("module"))
    fast.register_load_state_dict_post_hook(lambda module, keys: seen.append("fast"))
    fast.load_state_dict(rgcn.state_dict())
    assert seen == ["module", "fast"]
    optimizer = torch.optim.SGD(fast.parameters(), 0.1)
    before = fast(x, *edges)
    for parameter in rgcn.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert not torch.equal(fast(x, *edges), before)
    torch.testing.assert_close(fast(x, *edges), rgcn(x, *edges))
    fast.zero_grad()
    assert all(each.grad is None for each in rgcn.parameters())


def test_copies_have_names_and_parameters_of_their_own(fast, rgcn):
    twin = copy.deepcopy(fast)
    assert names(twin.named_parameters()) == names(rgcn.named_parameters())
    assert not {*map(id, twin.parameters())} & {*map(id, rgcn.parameters())}
    assert twin._parameters is twin.module._parameters

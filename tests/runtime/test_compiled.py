"""`hetune.compile`: called as the original, on any graph, with any variant."""

from __future__ import annotations

import copy
import pickle
import re
import warnings

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import hetune
from hetune import nn as hetune_nn
from hetune.variants.errors import (
    CompileError,
    GraphError,
    InputError,
    MemoryLimitError,
    VariantError,
)
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.plan.variants import BLOCK_NODES
from hetune.variants.runtime.backends import backend_for, backend_named
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return relative_error(found, expected.double()) <= TOLERANCE


@pytest.fixture
def layer(rgcn):
    return compile_layer(rgcn, backend="torch")


class Failing:
    """`Executable.run`, which raises where a test wants it to; notes who ran, in order.

    Attributes:
        fails: Whether an executable fails.
        ran: Who was called.
    """

    def __init__(self, monkeypatch):
        self.fails = lambda executable: False
        self.error = RuntimeError("odd")
        self.ran = []
        run = Executable.run

        def noted(executable, *args, **kwargs):
            self.ran.append(executable)
            if self.fails(executable):
                raise self.error
            return run(executable, *args, **kwargs)

        monkeypatch.setattr(Executable, "run", noted)


@pytest.fixture
def failing(monkeypatch):
    return Failing(monkeypatch)


# Calls.


@pytest.mark.parametrize(
    "make",
    [
        lambda: geometric.RGCNConv(8, 8, 3),
        lambda: geometric.FastRGCNConv(8, 8, 3, aggr="add"),
        lambda: geometric.RGATConv(8, 4, 3, heads=2),
        lambda: geometric.RGCNConv(8, 8, 3, flow="target_to_source"),
        lambda: hetune.nn.RGCN(8, 8, 3),
        lambda: hetune.nn.RGAT(8, 4, 3, heads=2),
    ],
    ids=["RGCNConv", "FastRGCNConv", "RGATConv", "reversed", "nn.RGCN", "nn.RGAT"],
)
def test_called_with_edge_tensors(make, x, edges, graph):
    module = randomized(make())
    expected = module(x, *edges)
    layer = compile_layer(module, backend="torch")
    for found in (
        layer(x, *edges),
        layer(x, edges[0], edge_type=edges[1]),
        layer(x, edges[0].int(), edges[1].int()),
        layer(x, graph),
    ):
        assert close(found, expected)


@pytest.mark.parametrize("make", [geometric.HGTConv, hetune.nn.HGT], ids=["HGTConv", "nn.HGT"])
def test_called_with_dictionaries(make, x, graph):
    module = randomized(make(8, 8, graph.metadata(), heads=2))
    x_dict = dict(zip(graph.ntype_names, x.split([30, 20]), strict=True))
    edge_dict = to_edge_index_dict(graph)
    expected = module(x_dict, edge_dict)
    layer = compile_layer(module, backend="torch")
    for edges in (edge_dict, graph):
        found = layer(x_dict, edges)
        assert found.keys() == expected.keys()
        assert all(close(found[name], expected[name]) for name in expected)
    # Dictionaries in another order, and one tensor for all nodes of a graph.
    turned = dict(reversed(x_dict.items())), edge_dict
    assert all(close(rows, expected[name]) for name, rows in layer(*turned).items())
    if isinstance(module, hetune.nn.HGT):  # PyG's own goes by the order of edge types
        turned = x_dict, dict(reversed(edge_dict.items()))
    assert all(close(rows, expected[name]) for name, rows in layer(*turned).items())
    assert close(layer(x, graph), torch.cat([expected[name] for name in graph.ntype_names]))


def test_edges_are_read_once(layer, x, edges, monkeypatch):
    built = []
    real = HeteroGraph.__init__

    def counted(self, *args, **kwargs):
        built.append(1)
        real(self, *args, **kwargs)

    monkeypatch.setattr(HeteroGraph, "__init__", counted)
    first = layer(x, *edges)
    assert torch.equal(layer(x, *edges), first)
    assert len(built) == 1
    edges[1].add_(1).remainder_(3)
    assert close(layer(x, *edges), layer.module(x, *edges))
    assert len(built) == 2


def test_modes_and_parameters_are_shared(layer, rgcn):
    assert layer.module is rgcn
    assert dict(layer.named_parameters()).keys() == {name for name, _ in rgcn.named_parameters()}
    layer.eval()
    assert not rgcn.training


BAD_CALLS = {
    "an id out of range": (
        lambda x, i, t: (x, i + 45, t),
        GraphError,
        "edge_index[0, ",
    ),
    "an edge type out of range": (lambda x, i, t: (x, i, t + 1), GraphError, "edge_type["),
    "a negative id": (lambda x, i, t: (x, i - 1, t), GraphError, "edge_index[0, "),
    "a missing edge type": (
        lambda x, i, t: (x, i, t[1:]),
        GraphError,
        "edge_type has shape [149] but",
    ),
    "another width": (lambda x, i, t: (x[:, 1:], i, t), InputError, "x has the shape [50, 7]"),
    "another number of nodes": (
        lambda x, i, t: (x[1:], HeteroGraph(*i, t, num_nodes=50), None),
        InputError,
        "x has the shape [49, 8]",
    ),
    "another number of edge types": (
        lambda x, i, t: (x, HeteroGraph(*i, t, num_etypes=4, num_nodes=50), None),
        InputError,
        "the graph has 4 edge types but the layer was made for 3",
    ),
    "too many arguments": (lambda x, i, t: (x, i, t, 1, 2), InputError, "RGCNConv: too many"),
}


@pytest.mark.parametrize(("spoil", "kind", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_calls(spoil, kind, message, layer, x, edges):
    with pytest.raises(kind) as caught:
        layer(*spoil(x, *edges))
    assert message in str(caught.value)


# Variants.


def test_every_variant_can_be_forced(layer, x, graph):
    expected = layer.module.double()(x.double(), torch.stack((graph.src, graph.dst)).long(),
                                     graph.etype.long())  # fmt: skip
    layer.module.float()
    assert {name.rpartition("/b")[2] for name in layer.variants} == {str(b) for b in BLOCK_NODES}
    for variant in layer.variants:
        assert close(layer(x, graph, variant=variant), expected)


@pytest.mark.parametrize(
    ("edges", "plan"), [([(0, 1, 60)], "src"), ([(1, 0, 60)], "dst+separate-sums")]
)
def test_on_graphs_of_one_side_hybrid_plans_run_the_plan_of_that_side(failing, edges, plan):
    one_sided = typed_graph((5, 45), edges)
    layer = compile_layer(randomized(hetune_nn.RGCN(8, 8, 1)), backend="torch")
    x = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    asked, runs = "hybrid+separate-sums/b256", f"{plan}/b256"
    assert torch.equal(layer(x, one_sided, variant=asked), layer(x, one_sided, variant=runs))
    assert failing.ran[0] is failing.ran[1]
    choice = layer.explain(x, one_sided)
    assert choice.candidate(asked) == choice.candidate(runs)
    assert asked not in {candidate.id for candidate in choice.candidates}
    with pytest.raises(MemoryLimitError, match=f"{re.escape(asked)} needs"):
        layer(x, one_sided, variant=asked, memory_limit=choice.candidate(runs).peak_bytes - 1)
    assert layer(x, one_sided, variant=asked, memory_limit=choice.candidate(runs).peak_bytes).any()


def test_a_variant_that_is_asked_for_indexes_what_it_needs_itself(layer, x, graph):
    layer(x, graph, variant="vanilla/b256")
    assert "relation_stats" not in GraphIndex.of(graph).build_seconds


def test_an_unknown_variant(layer, x, graph):
    with pytest.raises(VariantError) as caught:
        layer(x, graph, variant="fastest")
    assert str(caught.value) == f"no variant 'fastest': take one of {', '.join(layer.variants)}"
    with pytest.raises(VariantError, match="no variant 'fastest': take one of vanilla/b256, "):
        layer.explain(x, graph).candidate("fastest")


def test_an_unknown_backend(rgcn):
    with pytest.raises(VariantError) as caught:
        compile_layer(rgcn, backend="fortran")
    assert str(caught.value) == "no backend 'fortran': take 'cpp', 'torch' or 'triton'"


def test_ids_are_stable(rgcn):
    plans = dict.fromkeys(name.rpartition("/")[0] for name in compile_layer(rgcn).variants)
    assert list(plans) == [
        "vanilla",
        "src",
        "dst",
        "dst+separate-sums",
        "hybrid",
        "hybrid+separate-sums",
        "hybrid+separate-products",
    ]


def test_out(layer, x, graph):
    out = torch.empty(50, 8)
    found = layer(x, graph, out=out)
    assert found.data_ptr() == out.data_ptr()
    assert torch.equal(out, layer(x, graph))
    with pytest.raises(InputError, match="out shares memory with x"):
        layer(x, graph, out=x)


# Trying out.


@pytest.mark.parametrize(
    "error",
    [CompileError("no such instruction"), MemoryError("full"), RuntimeError("out of memory")],
    ids=repr,
)
def test_a_contender_that_fails_is_not_tried_again(rgcn, x, graph, edges, failing, error):
    layer = compile_layer(rgcn, backend="torch", explore=True)
    failing.fails, failing.error = (lambda executable: executable is failing.ran[0]), error
    with pytest.raises(type(error), match=str(error)):
        layer(x, graph)
    expected = rgcn(x, *edges)
    assert all(close(layer(x, graph), expected) for _ in range(12))
    assert failing.ran.count(failing.ran[0]) == 1


def test_a_mistake_of_the_caller_counts_against_no_contender(rgcn, x, graph, failing):
    layer = compile_layer(rgcn, backend="torch", explore=True)
    for _ in range(5):
        with pytest.raises(InputError, match="out has shape"):
            layer(x, graph, out=torch.empty(1))
    assert len(set(failing.ran)) == 1
    for _ in range(12):
        layer(x, graph)
    assert failing.ran.count(failing.ran[0]) >= 5 + 4
    assert len(set(failing.ran)) > 1


# Memory limits.


def test_a_limit_restricts_the_choice(layer, x, graph):
    candidates = layer.explain(x, graph).candidates
    least = min(c.peak_bytes for c in candidates)
    choice = layer.explain(x, graph, memory_limit=least)
    assert choice.chosen.peak_bytes == least
    assert {c.id for c in choice.candidates} == set(layer.variants)
    assert close(layer(x, graph, memory_limit=least), layer(x, graph))
    with pytest.raises(MemoryLimitError) as caught:
        layer(x, graph, memory_limit=least - 1)
    assert str(caught.value) == (
        f"every variant needs more than the limit of {least - 1} bytes: the smallest, "
        f"{choice.id}, needs {least}; raise memory_limit to at least that"
    )


def test_a_limit_of_the_layer_and_of_a_call(rgcn, x, graph):
    layer = compile_layer(rgcn, backend="torch", memory_limit=1)
    with pytest.raises(MemoryLimitError):
        layer(x, graph)
    assert layer(x, graph, memory_limit=10**9).shape == (50, 8)


# Explanations.


def test_a_limit_applies_to_forced_variants(layer, rgcn, x, graph):
    found = layer.explain(x, graph).candidates[0]
    limited = compile_layer(rgcn, backend="torch", memory_limit=found.peak_bytes - 1)
    limited(x, graph, variant=found.id, memory_limit=found.peak_bytes)
    message = f"needs {found.peak_bytes} bytes, and the limit is {found.peak_bytes - 1}: raise"
    with pytest.raises(MemoryLimitError, match=message):
        limited(x, graph, variant=found.id)


def test_arguments_of_no_use(layer, rgcn, x, graph):
    with pytest.raises(InputError, match=r"int is no torch\.nn\.Module: give it a layer"):
        compile_layer(3)
    with pytest.raises(InputError, match="expected_runs=nan: give a positive number"):
        compile_layer(rgcn, expected_runs=float("nan"))
    with pytest.raises(InputError, match="memory_limit='1 GB': give an integer of bytes, or None"):
        compile_layer(rgcn, memory_limit="1 GB")
    with pytest.raises(InputError, match=r"memory_limit=0\.5: give an integer of bytes"):
        layer(x, graph, memory_limit=0.5)
    with pytest.raises(InputError, match=r"memory_limit=0\.5: give an integer of bytes"):
        layer.explain(x, graph, memory_limit=0.5)
    with pytest.raises(InputError, match="expected_runs='3': give a positive number"):
        compile_layer(rgcn, expected_runs="3")
    assert layer.explain(x, graph, memory_limit=np.int64(10**9)).id in layer.variants


def test_explain(layer, x, graph):
    choice = layer.explain(x, graph)
    seconds = [c.seconds for c in choice.candidates]
    assert seconds == sorted(seconds)
    assert choice.id == choice.candidates[0].id
    assert all(c.seconds > 0 for c in choice.candidates)
    first, empty, head, *rows = str(choice).splitlines()
    assert first == f"{choice.id}: {choice.reason}"
    assert "roofline model" in choice.reason
    assert empty == ""
    assert head.split() == ["variant", "predicted", "ms", "peak", "MB"]
    assert [row.split()[0] for row in rows] == [c.id for c in choice.candidates]
    assert rows[0].endswith(" <- chosen")
    assert layer.explain(x, torch.stack((graph.src, graph.dst)).long(), graph.etype.long()).id


def test_explain_marks_what_a_limit_rules_out(layer, x, graph):
    peaks = {c.id: c.peak_bytes for c in layer.explain(x, graph).candidates}
    limit = min(peaks.values())
    lines = str(layer.explain(x, graph, memory_limit=limit)).splitlines()[3:]
    over = {line.split()[0] for line in lines if line.endswith(" (over the memory limit)")}
    assert over == {variant for variant, peak in peaks.items() if peak > limit}
    assert over


# Parameters.


def test_updates_of_parameters_are_seen(layer, rgcn, x, graph, edges):
    before = layer(x, graph)
    rgcn.weight.mul_(2)
    after = layer(x, graph)
    assert not torch.equal(after, before)
    assert close(after, rgcn(x, *edges))
    rgcn.root = torch.nn.Parameter(torch.zeros_like(rgcn.root))
    assert close(layer(x, graph), rgcn(x, *edges))
    rgcn.load_state_dict({name: value + 1 for name, value in rgcn.state_dict().items()})
    assert close(layer(x, graph), rgcn(x, *edges))


def test_an_optimizer_step_is_seen(layer, rgcn, x, graph, edges):
    layer(x, graph)
    optimizer = torch.optim.SGD(rgcn.parameters(), lr=0.1)
    with torch.enable_grad():
        rgcn(x, *edges).square().sum().backward()
    optimizer.step()
    assert close(layer(x, graph), rgcn(x, *edges))


@pytest.mark.parametrize(
    "make",
    [
        lambda: geometric.RGCNConv(8, 8, 3, num_bases=2),
        lambda: geometric.RGATConv(8, 8, 3, num_bases=2),
        lambda: geometric.RGATConv(8, 8, 3),
    ],
    ids=["RGCNConv of bases", "RGATConv of bases", "RGATConv"],
)
def test_writes_past_the_counter_are_seen(make, x, graph, edges):
    module = make().eval()
    layer = compile_layer(module, backend="torch")
    for variant in layer.variants:
        layer(x, graph, variant=variant)
    module.reset_parameters()
    for variant in layer.variants:
        assert close(layer(x, graph, variant=variant), module(x, *edges))
    for parameter in module.parameters():
        parameter.data.add_(0.1)
    for variant in layer.variants:
        assert close(layer(x, graph, variant=variant), module(x, *edges))


@pytest.mark.parametrize(
    "make",
    [lambda: geometric.RGCNConv(8, 8, 3), lambda: hetune.nn.RGCN(8, 8, 3)],
    ids=["RGCNConv", "nn.RGCN"],
)
def test_another_order_of_the_same_memory_is_seen(make, x, graph, edges):
    module = randomized(make())
    layer = compile_layer(module, backend="torch")
    for variant in layer.variants:
        layer(x, graph, variant=variant)
    for parameter in (module.weight, module.root):
        parameter.data = parameter.data.transpose(-1, -2)
    for variant in layer.variants:
        assert close(layer(x, graph, variant=variant), module(x, *edges))


def test_a_state_dict_has_the_names_of_the_module(layer, rgcn, x, graph):
    assert layer.state_dict().keys() == rgcn.state_dict().keys()
    model = torch.nn.Sequential(layer)
    saved = {name: value + 1 for name, value in model.state_dict().items()}
    assert saved.keys() == torch.nn.Sequential(rgcn).state_dict().keys()
    before = layer(x, graph)
    model.load_state_dict(saved)
    assert all(torch.equal(value, saved[f"0.{name}"]) for name, value in rgcn.state_dict().items())
    assert not torch.equal(layer(x, graph), before)
    layer.load_state_dict(rgcn.state_dict())
    with pytest.raises(RuntimeError, match="Unexpected key"):
        layer.load_state_dict({**rgcn.state_dict(), "other": torch.ones(1)})


@pytest.mark.filterwarnings("ignore::hetune.FallbackWarning")
def test_a_state_dict_of_what_wraps_a_layer():
    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = torch.nn.Linear(2, 2)

    layer = compile_layer(Wrapper())
    saved = {name: value + 1 for name, value in layer.state_dict().items()}
    assert set(saved) == {"module.weight", "module.bias"}
    layer.load_state_dict(saved)
    assert torch.equal(layer.module.module.weight, saved["module.weight"])


def test_compiled_code_is_not_pickled(layer):
    with pytest.raises(pickle.PicklingError, match="pickle the attribute `module`"):
        pickle.dumps(layer)


def test_copies_are_independent(layer, rgcn, x, graph):
    twin = copy.deepcopy(layer)
    assert torch.equal(twin(x, graph), layer(x, graph))
    twin.module.weight.zero_()
    assert not torch.equal(twin(x, graph), layer(x, graph))
    assert rgcn.weight.abs().sum() > 0
    assert twin.variants == layer.variants


def test_inside_of_models(x, graph):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = compile_layer(geometric.RGCNConv(8, 8, 3), backend="torch")
            self.second = compile_layer(geometric.RGCNConv(8, 8, 3), backend="torch")

        def forward(self, x, graph):
            return self.second(self.first(x, graph).relu(), graph)

    model = Model().eval()
    plain = [layer.module for layer in (model.first, model.second)]
    edges = torch.stack((graph.src, graph.dst)).long(), graph.etype.long()
    assert close(model(x, graph), plain[1](plain[0](x, *edges).relu(), *edges))
    model.load_state_dict(model.state_dict())


def test_a_module_that_was_moved_alone_is_refused(layer, rgcn, x, graph, edges):
    """Kernels would take its addresses for those of this device."""
    layer(x, graph)
    layer.to("meta")
    with pytest.raises(InputError, match="the module is on meta but x and the graph are on cpu"):
        layer(x, graph)
    layer.to_empty(device="cpu")
    randomized(layer.module)
    assert close(layer(x, graph), rgcn(x, *edges))
    rgcn.root = torch.nn.Parameter(rgcn.root.to("meta"))
    with pytest.raises(InputError, match="the module is on cpu and meta but"):
        layer(x, graph)


# What runs as it is.


def warned(call, *args, **kwargs):
    """A call's result, and the one warning that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call(*args, **kwargs)
    texts = [str(w.message) for w in caught if w.category is FallbackWarning]
    assert len(texts) <= 1
    assert all(w.filename == __file__ for w in caught if w.category is FallbackWarning)
    return found, texts[0] if texts else None


def decomposed():
    return geometric.RGCNConv(8, 8, 3, decomposed_layers=2)


UNSUPPORTED = {
    "RGCNConv runs uncompiled: decomposed_layers=2": decomposed,
    "RGCNConv runs uncompiled: weight is float64, not float32": lambda: geometric.RGCNConv(
        8, 8, 3
    ).double(),
}


@pytest.mark.parametrize(("message", "make"), UNSUPPORTED.items(), ids=[*UNSUPPORTED])
def test_unsupported_modules(message, make, x, edges):
    module = make()
    layer, text = warned(compile_layer, module, backend="torch")
    assert text == message
    assert layer.variants == ()
    x = x.to(next(module.parameters()).dtype)
    torch.manual_seed(0)
    expected = module(x, *edges)
    torch.manual_seed(0)
    found, again = warned(layer, x, *edges)
    assert torch.equal(found, expected)
    assert again is None  # said once


class Alone(torch.nn.Module):
    """A model of one layer, for one graph."""

    def __init__(self, layer, graph):
        super().__init__()
        self.layer, self.graph = layer, graph

    def forward(self, x):
        return self.layer(x, self.graph)


@pytest.mark.filterwarnings("ignore::hetune.FallbackWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_where_operators_do_not_just_run_the_module_does(x, graph):
    module = hetune_nn.RGCN(8, 8, 3).eval().requires_grad_(False)
    model, plain = (Alone(each, graph) for each in (compile_layer(module, backend="torch"), module))
    traced = torch.jit.trace(model, (x,), check_trace=False)
    for found in (traced, make_fx(model)(x)):
        assert close(found(2 * x), plain(2 * x))
    twice = torch.stack((x, 2 * x))
    assert close(torch.vmap(model)(twice), torch.stack([plain(each) for each in twice]))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        for each in (model, plain):
            assert forward_ad.unpack_dual(each(dual)).tangent is not None
    assert close(model(x), plain(x))


def test_autocast_leaves_no_trace(x, graph):
    module = hetune_nn.RGCN(8, 8, 3, num_bases=2).eval()
    layer = compile_layer(module, backend="torch")
    expected = module(x, graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert close(layer(x, graph), expected)
    assert close(layer(x, graph), expected)


@pytest.mark.filterwarnings("ignore::hetune.FallbackWarning")
@pytest.mark.parametrize("kind", ["RGCNConv", "FastRGCNConv", "RGATConv"])
def test_training_leaves_a_layer_compiled(kind, x, graph):
    layer = compile_layer(getattr(geometric, kind)(8, 8, 3), backend="torch")
    edges = torch.stack((graph.src, graph.dst)).long(), graph.etype.long()
    with torch.enable_grad():
        layer(x, *edges).sum().backward()
    assert close(layer(x, *edges, variant=layer.variants[0]), layer.module(x, *edges))


def test_out_is_a_tensor(layer, x, graph):
    with pytest.raises(InputError, match="out is a list: give a tensor"):
        layer(x, graph, out=[1])


def test_a_call_that_is_not_supported(edges):
    ids = torch.arange(50)
    layer = compile_layer(geometric.FastRGCNConv(50, 8, 3), backend="torch")
    found, text = warned(layer, ids, *edges)
    assert text == (
        "FastRGCNConv runs uncompiled: x is a int64 tensor of shape [50]: only float32 tensors "
        "[N, width] are supported"
    )
    assert torch.equal(found, layer.module(ids, *edges))


def test_what_turns_unsupported_later(layer, x, edges):
    layer(x, *edges)
    layer.module.double()
    found, text = warned(layer, x.double(), *edges)
    assert text == "RGCNConv runs uncompiled: weight is float64, not float32"
    assert found.dtype == torch.float64
    layer.module.float()
    _, text = warned(layer, x, *edges)
    assert text is None


def test_options_that_change_later(x, edges):
    module = geometric.RGATConv(8, 8, 3).eval()
    layer = compile_layer(module, backend="torch")
    layer(x, *edges)
    module.negative_slope = 0.9
    found, text = warned(layer, x, *edges)
    assert "negative_slope is 0.9, and was 0.2 when it was compiled: compile it anew" in text
    assert torch.equal(found, module(x, *edges))
    module.negative_slope = 0.2
    module.bias = None
    found, text = warned(layer, x, *edges)
    assert "bias was removed: compile it anew" in text
    assert torch.equal(found, module(x, *edges))


def test_a_module_that_is_replaced_later(layer, x, edges, graph):
    layer(x, *edges)
    layer.module = other = randomized(geometric.RGCNConv(8, 8, 3), seed=1)
    found, text = warned(layer, x, *edges)
    assert text == "RGCNConv runs uncompiled: its module was replaced: compile it anew"
    assert torch.equal(found, other(x, *edges))
    assert torch.equal(layer(x, graph), found)
    with pytest.raises(VariantError, match="its module was replaced: compile it anew"):
        layer.explain(x, *edges)
    assert close(copy.deepcopy(layer)(x, graph, variant=layer.variants[0]), found)
    layer.module = torch.nn.Identity()
    assert layer(x) is x


@pytest.mark.parametrize("is_compiled_before", [True, False], ids=["before", "after"])
def test_gradients_reach_what_a_weight_is_computed_from(is_compiled_before, rgcn, x, edges):
    layer = compile_layer(rgcn, backend="torch") if is_compiled_before else None
    factor = torch.ones(8, 8, requires_grad=True)
    base = rgcn.weight.detach()
    rgcn.requires_grad_(False)
    del rgcn.weight
    with torch.enable_grad():
        rgcn.weight = base + factor
        layer = layer or warned(compile_layer, rgcn, backend="torch")[0]
        warned(layer, x, *edges)[0].sum().backward()
    assert factor.grad.abs().sum() > 0
    rgcn.weight = base
    assert torch.equal(layer(x, *edges), rgcn(x, *edges))


def test_gradients_reach_what_a_buffer_is_computed_from(rgcn, x, edges):
    factor = torch.ones(8, 8, requires_grad=True)
    base = rgcn.weight.detach()
    rgcn.requires_grad_(False)
    del rgcn.weight
    rgcn.register_buffer("weight", base)
    layer = compile_layer(rgcn, backend="torch")
    assert close(layer(x, *edges), rgcn(x, *edges))
    with torch.enable_grad():
        rgcn.weight = base + factor
        warned(layer, x, *edges)[0].sum().backward()
    assert factor.grad.abs().sum() > 0
    assert close(layer(x, *edges), rgcn(x, *edges))


@pytest.mark.parametrize(
    "demand", [{"variant": "vanilla/b256"}, {"out": torch.empty(50, 8)}, {"memory_limit": 10}]
)
def test_demands_that_a_fallback_cannot_meet(demand, x, edges):
    layer, _ = warned(compile_layer, decomposed(), backend="torch")
    with pytest.raises(InputError) as caught:
        layer(x, *edges, **demand)
    assert str(caught.value) == (
        f"{next(iter(demand))}= cannot be honored, for the call runs in the original module: "
        "decomposed_layers=2"
    )


def test_a_limit_of_the_layer_that_a_fallback_cannot_meet(rgcn, x, graph):
    layer = compile_layer(rgcn, backend="torch", memory_limit=10**9)
    rgcn.register_full_backward_hook(lambda *_: None)
    assert layer(x, graph).shape == (50, 8)
    with torch.enable_grad(), pytest.raises(InputError) as caught:
        layer(x, graph)
    assert str(caught.value) == (
        "memory_limit= of hetune.compile cannot be honored, for the call runs in the original "
        "module: gradients are needed, and it has hooks for the backward: torch.no_grad() is for "
        "inference"
    )


def test_nothing_to_explain(x, edges):
    layer, _ = warned(compile_layer, decomposed(), backend="torch")
    with pytest.raises(VariantError, match="runs in the original module: decomposed"):
        layer.explain(x, *edges)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [((), "cpp"), (("cpu", "cpu"), "cpp"), (("cuda:1",), "triton"), (("cpu", "cuda"), "triton")],
)
def test_the_backend_follows_the_module(devices, expected):
    assert backend_for(map(torch.device, devices)).name == expected


def test_on_a_cpu_modules_run_in_cpp(rgcn):
    assert "backend='cpp'" in repr(compile_layer(rgcn))


def test_who_runs_where_is_said(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refusal = backend_named("triton").refusal(torch.device("cpu"))
    assert refusal.endswith("torch sees no GPU here, so compile with backend='cpp'")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    refusal = backend_named("triton").refusal(torch.device("cpu"))
    assert refusal.endswith("move module, graph and features to the GPU")
    refusal = backend_named("cpp").refusal(torch.device("cuda"))
    assert "compile the module once it is on the GPU" in refusal

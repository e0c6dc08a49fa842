"""Gradients through compiled layers are the layer's own, computed by compiled variants."""

import copy
import itertools
import re

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import hetune
from hetune import nn
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.layer_gradients import (
    GRADIENT_TOLERANCE,
    exact_gradients_of,
    gradient_error,
    gradient_tolerance,
    gradients_of,
)
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")

LAYERS = {
    "rgcn mean": lambda graph: nn.RGCN(6, 5, graph.num_etypes),
    "rgcn add": lambda graph: nn.RGCN(6, 6, graph.num_etypes, aggr="add", residual=True),
    "rgcn bases": lambda graph: nn.RGCN(6, 4, graph.num_etypes, num_bases=2, self_loop=False),
    "rgcn blocks": lambda graph: nn.RGCN(6, 4, graph.num_etypes, num_blocks=2, bias=False),
    "rgat across": lambda graph: nn.RGAT(6, 3, graph.num_etypes, heads=2),
    "rgat within": lambda graph: nn.RGAT(6, 5, graph.num_etypes, softmax="within"),
    "rgat shared": lambda graph: nn.RGAT(6, 3, graph.num_etypes, heads=2, attention="shared"),
    "hgt": lambda graph: nn.HGT(6, 6, graph.metadata(), 2),
    "hgt widths": lambda graph: nn.HGT(6, 4, graph.metadata(), 1),
}


def rows(graph, width=6):
    return torch.randn(graph.num_nodes, width, generator=torch.Generator().manual_seed(3))


def assert_same(layer, args, **options):
    """Gradients of a compiled layer are those of the layer in float64."""
    fast = compile_layer(layer, **{"backend": "torch", **options})
    found, exact = gradients_of(fast, args), exact_gradients_of(layer, args)
    assert fast.status().variant is not None, fast.status().reason
    assert gradient_error(found, exact) <= gradient_tolerance(gradients_of(layer, args), exact)
    return fast


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_the_layer(name):
    graph = typed_graph((30, 20), [(0, 1, 60), (1, 0, 50), (0, 0, 40), (1, 1, 0)])
    assert_same(randomized(LAYERS[name](graph)), (rows(graph), graph))


@pytest.mark.parametrize("name", ["rgcn mean", "rgat across", "hgt"])
def test_gradients_on_awkward_graphs(name):
    for graph in (build() for key, build in AWKWARD.items() if "thousands" not in key):
        assert_same(randomized(LAYERS[name](graph)), (rows(graph), graph))


def pyg_calls(graph, x):
    """PyG's layers in their option sets, each with a call."""
    edges = torch.stack((graph.src, graph.dst)).long(), graph.etype.long()
    from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict

    offsets = graph.node_offsets
    x_dict = {
        name: x[first:last]
        for name, first, last in zip(graph.ntype_names, offsets, offsets[1:], strict=False)
    }
    dicts = x_dict, to_edge_index_dict(graph)
    for make in (
        lambda: geometric.RGCNConv(8, 8, 3),
        lambda: geometric.RGCNConv(8, 6, 3, num_bases=2, aggr="add"),
        lambda: geometric.FastRGCNConv(8, 8, 3, num_blocks=2, root_weight=False),
        lambda: geometric.RGATConv(8, 4, 3, heads=2),
        lambda: geometric.RGATConv(8, 8, 3, attention_mechanism="within-relation"),
    ):
        yield make(), (x, *edges)
    yield geometric.RGCNConv(len(x), 4, 3), (None, *edges)
    numbers = torch.arange(len(x)).flip(0)
    yield geometric.RGCNConv(len(x), 4, 3, num_bases=2, aggr="add"), (numbers, *edges)
    yield geometric.HGTConv(8, 8, graph.metadata(), 2), dicts
    for make in (
        lambda: geometric.GCNConv(8, 4),
        lambda: geometric.GATConv(8, 4, heads=2),
        lambda: geometric.SAGEConv(8, 4, aggr="max"),
        lambda: geometric.GINConv(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())),
    ):
        yield make(), (x, edges[0])


def test_layers_of_pyg_train_by_compiled_variants(graph, x):
    for layer, args in pyg_calls(graph, x):
        assert_same(randomized(layer), args)


@pytest.mark.parametrize("name", ["rgcn mean", "rgat across", "hgt"])
def test_the_same_bits_in_two_runs_on_any_number_of_threads(name):
    found = []
    for threads in (1, 2, 2):
        torch.set_num_threads(threads)
        graph = AWKWARD["hub"]()
        fast = compile_layer(randomized(LAYERS[name](graph)), expected_runs=1)
        found.append(gradients_of(fast, (rows(graph), graph)))
        assert fast.status().variant is not None, fast.status().reason
    for one, other in itertools.pairwise(found):
        assert all(map(torch.equal, one, other))
    exact = exact_gradients_of(fast.module, (rows(graph), graph))
    assert gradient_error(found[0], exact) <= GRADIENT_TOLERANCE


@pytest.fixture
def fast(rgcn):
    return compile_layer(rgcn, backend="torch", expected_runs=1)


def test_frozen_parameters_cost_nothing(fast, rgcn, x, graph):
    rgcn.requires_grad_(False)
    rgcn.root.requires_grad_()
    fast(x, graph).sum().backward()
    assert rgcn.root.grad.any()
    assert rgcn.weight.grad is None
    assert [*fast._training._runners] == [("root", False)]
    (runner,) = fast._training._runners.values()
    assert runner.reads == ("x",)


def test_nothing_is_kept_without_gradients(fast, x, graph):
    with torch.no_grad():
        assert not fast(x, graph).requires_grad
    assert not fast.requires_grad_(False)(x, graph).requires_grad
    assert fast._training._runners == {}


def test_gradients_from_above_may_have_any_layout(fast, rgcn, x, edges):
    for loss in (
        torch.Tensor.sum,  # expanded
        lambda out: (out.t() @ torch.arange(float(len(x)))).sum(),
        lambda out: out[:, ::2].square().sum(),
        lambda out: torch.imag(torch.complex(out, out).conj()).sum(),  # negated lazily
    ):
        one, other = (
            torch.autograd.grad(loss(layer(x, *edges)), [*rgcn.parameters()])
            for layer in (fast, rgcn)
        )
        assert gradient_error(one, other) <= 1e-4


def test_graphs_are_retained_and_differentiated_once(fast, x, graph):
    leaf = x.clone().requires_grad_()
    total = fast(leaf, graph).square().sum()
    first = torch.autograd.grad(total, leaf, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(total, leaf, create_graph=True)[0], first)
    for loss in (lambda out: out.square().sum(), torch.sum):  # a linear one, too
        (gradient,) = torch.autograd.grad(loss(fast(leaf, graph)), leaf, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiated once"):
            gradient.sum().backward()


def test_a_write_before_the_backward_is_torchs_error(fast, rgcn, x, graph):
    leaf = x.clone().requires_grad_()
    out = fast(leaf, graph)
    with torch.no_grad():
        rgcn.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_checkpoints_hooks_and_accumulation(fast, rgcn, x, graph):
    leaf = x.clone().requires_grad_()
    expected = torch.autograd.grad(fast(leaf, graph).square().sum(), [leaf, *rgcn.parameters()])
    for is_reentrant in (True, False):
        out = checkpoint(fast, leaf, graph, use_reentrant=is_reentrant)
        out.square().sum().backward()
    for tensor, once in zip([leaf, *rgcn.parameters()], expected, strict=True):
        torch.testing.assert_close(tensor.grad, 2 * once)
    seen = []
    hook = rgcn.root.register_hook(lambda gradient: 3 * gradient)
    last = rgcn.root.register_post_accumulate_grad_hook(seen.append)
    rgcn.zero_grad()
    fast(x, graph).square().sum().backward()
    torch.testing.assert_close(rgcn.root.grad, 3 * expected[2])
    assert seen == [rgcn.root]
    hook.remove(), last.remove()


class Net(torch.nn.Module):
    """Two layers, and parameters of torch around them."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = geometric.RGCNConv(8, 6, 3), torch.nn.BatchNorm1d(6)
        self.second, self.out = geometric.RGATConv(6, 4, 3), torch.nn.Linear(4, 3)

    def forward(self, x, *edges):
        x = torch.relu(self.norm(self.first(x, *edges)))
        return self.out(torch.relu(self.second(x, *edges)))


def test_models_train_as_they_do_alone(x, edges):
    labels = torch.arange(len(x)) % 3
    losses = {}
    for is_compiled in (False, True):
        net = randomized(Net())
        model = hetune.compile(net, backend="torch", expected_runs=1) if is_compiled else net
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        losses[is_compiled] = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x, *edges), labels)
            loss.backward()
            optimizer.step()
            losses[is_compiled].append(loss.detach())
    torch.testing.assert_close(losses[True], losses[False], rtol=1e-4, atol=1e-5)
    assert losses[True][-1] < losses[True][0]
    report = str(model.report())
    assert report.count("compiled; the last call ran") == 2
    assert report.count("with gradients") == 2


def test_autocast_and_halves_train(rgcn, x, edges):
    fast = compile_layer(rgcn, backend="torch")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = fast(x, *edges)
        assert out.dtype == rgcn(x, *edges).dtype
        out.float().square().sum().backward()
    found = [parameter.grad for parameter in rgcn.parameters()]
    exact = copy.deepcopy(rgcn).double()
    exact(x.double(), *edges).square().sum().backward()
    assert gradient_error(found, [p.grad for p in exact.parameters()]) <= 0.02
    half = compile_layer(copy.deepcopy(rgcn).bfloat16(), backend="torch")
    half(x.bfloat16(), *edges).float().square().sum().backward()
    assert half.status().variant is not None
    halves = [parameter.grad for parameter in half.parameters()]
    assert all(each.dtype == torch.bfloat16 for each in halves)
    assert (
        gradient_error([each.float() for each in halves], [p.grad for p in exact.parameters()])
        <= 0.05
    )


class Detaching(geometric.MessagePassing):
    """A layer through whose weights no gradient goes."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x).detach()) + self.lin(x)


def test_calls_that_hetune_cannot_differentiate_run_in_the_module(rgcn, x, edges, graph):
    def refused(layer, match, *args, **options):
        fast = compile_layer(layer, backend="torch")
        with pytest.warns(FallbackWarning, match=f"gradients are needed, and {match}"):
            found = fast(*args)
        found.sum().backward()
        assert match in fast.status().reason

    refused(Detaching(), "its program has other gradients", x, edges[0])
    hooked = copy.deepcopy(rgcn)
    hooked.register_full_backward_hook(lambda *_: None)
    refused(hooked, "it has hooks for the backward", x.clone().requires_grad_(), *edges)
    weight = torch.rand(edges[0].shape[1]).requires_grad_()
    refused(
        geometric.GCNConv(8, 4), "what is computed once for a graph has none", x, edges[0], weight
    )
    assert weight.grad.any()
    fast = compile_layer(rgcn, backend="torch")
    with pytest.raises(hetune.errors.InputError, match=r"^out= cannot be honored.* out= has none"):
        fast(x, graph, out=torch.empty(len(x), 8))


def test_what_a_backward_runs_is_explained_and_prepared(fast, rgcn, x, graph):
    leaf = x.clone().requires_grad_()
    fast.warm(leaf, graph, gradients=True)
    choice = fast.explain(leaf, graph, gradients=True)
    (runner,) = fast._training._runners.values()
    assert len(choice.backward) == len(runner.stages) - 1 == 2  # the last one adds weights
    assert f"backward, stage 1 of 2\n{choice.backward[0].id}: " in str(choice)
    fast(leaf, graph).sum().backward()
    assert runner.stages[0]._runs.last.id == choice.backward[0].id
    assert choice.held == {"x": x.nbytes, "w": rgcn.weight.nbytes, "root": rgcn.root.nbytes}
    assert "\nkept for the backward: x, w, root (" in str(choice)
    assert choice.computed_again == ("count", "reciprocal", "share")
    assert fast.explain(x, graph).backward == ()
    fast.module.register_full_backward_hook(lambda *_: None)
    with pytest.raises(hetune.errors.VariantError, match="it has hooks for the backward"):
        fast.explain(leaf, graph, gradients=True)


def test_a_limit_of_memory_holds_for_forward_and_backward(fast, x, graph):
    """What stages hand on counts; what does not fit is said before the forward runs."""
    leaf, handed_on = x.clone().requires_grad_(), {}
    limit = forward = fast.explain(x, graph).chosen.peak_bytes
    with torch.no_grad():
        fast(x, graph, memory_limit=forward)
    for _ in range(3):
        try:
            found = torch.autograd.grad(fast(leaf, graph, memory_limit=limit).sum(), leaf)
            break
        except hetune.errors.MemoryLimitError as error:
            match = re.match(
                r"stage (\d) of 3 of the backward needs (\d+) bytes, (\d+)", str(error)
            )
            handed_on[match[1]], limit = int(match[3]), error.needed
    assert handed_on["1"] == 0
    assert handed_on["2"] > 0
    assert torch.equal(found[0], torch.autograd.grad(fast(leaf, graph).sum(), leaf)[0])


def test_orders_of_edges_that_stages_keep_count_in_the_limit():
    graph = typed_graph((30, 20), [(0, 1, 60), (1, 0, 50), (0, 0, 40)])
    layer, given = compile_layer(nn.RGAT(6, 6, 3)), rows(graph).requires_grad_()
    layer(given, graph).sum().backward()
    (runner,) = layer._training._runners.values()
    kept = 0
    for stage in runner.stages[:-1]:  # the last one adds weights
        executable = stage._runs.executable(stage._runs.last, stage._graph(graph))
        kept += sum(way.nbytes for _, way in executable._ways.values() if way is not None)
    assert 0 < kept <= runner._held(0, graph)


def test_products_of_weights_are_exact_again_after_a_step():
    graph = typed_graph((30, 20), [(0, 1, 60), (1, 0, 50), (0, 0, 40)])
    layer, given = randomized(nn.HGT(6, 6, graph.metadata(), 1)), rows(graph)
    one, other = (compile_layer(layer, backend="torch") for _ in range(2))
    folded = next(variant for variant in one.variants if "fold" in variant)
    with torch.no_grad():
        want = one(given, graph, variant=folded)
    trained = other(given, graph, variant=folded)
    assert not torch.equal(trained, want)  # float32's products, which no later step reads
    torch.testing.assert_close(trained, want, rtol=0, atol=1e-5 * want.abs().max().item())
    with torch.no_grad():
        assert torch.equal(other(given, graph, variant=folded), want)


def test_products_of_weights_count_in_every_step_that_trains_them():
    """Weights of many edge types cost more than the few edges of each."""
    graph = typed_graph((30, 20), [(i % 2, 1 - i % 2, 2) for i in range(100)])
    layer, given = randomized(nn.HGT(32, 32, graph.metadata(), 1)), rows(graph, 32)
    fast = compile_layer(layer, backend="torch")
    once, each = (fast.explain(given, graph, gradients=gradients) for gradients in (False, True))
    more = {c.id: each.candidate(c.id).seconds - c.seconds for c in once.candidates}
    assert more[once.id] > once.seconds  # its products, which inference keeps
    assert each.id != once.id
    assert more[each.id] < more[once.id]
    fast(given, graph).sum().backward()
    assert fast.status().variant in more
    layer.requires_grad_(False)
    frozen = fast.explain(given.clone().requires_grad_(), graph, gradients=True)
    assert (frozen.id, frozen.seconds) == (once.id, once.seconds)


def test_backwards_of_models_are_explained_and_prepared(x, edges):
    model = hetune.compile(randomized(Net()), backend="torch")
    assert model.warm(x, *edges, gradients=True).keys() == {"first", "second"}
    choices = model.explain(x, *edges, gradients=True)
    held = {name: tuple(choice.held) for name, choice in choices.items()}
    assert held["first"][0] == held["second"][0] == "x"
    assert all(choice.backward for choice in choices.values())
    runners = model.compiled_layers["second"]._training._runners
    assert [wanted[0] for wanted in runners] == ["x"]  # as in a training step

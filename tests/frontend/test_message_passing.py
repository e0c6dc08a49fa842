"""`hetune.compile` of message-passing layers: results, calls, and what runs uncompiled."""

from __future__ import annotations

import copy
import re
import warnings
from functools import cache
from unittest.mock import patch

import pytest
import torch
from tests.frontend.message_passing_cases import CASES, WIDTH, arguments_on, mlp, pyg
from torch import nn

import hetune
from hetune.variants.errors import GraphError, InputError
from hetune.variants.frontend.tracing import selected_columns
from hetune.variants.graph.index import GraphIndex
from hetune.variants.program.nodes import Linear
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.layer_gradients import (
    exact_gradients_of,
    gradient_error,
    gradient_tolerance,
    gradients_of,
)

EDGES = torch.randint(0, 90, (2, 700), generator=torch.Generator().manual_seed(0))
NODES, OTHERS = 99, EDGES.flip(0)
REASONS = (
    r"is a sum at sources",
    r"modules of type .* are not supported",
)
"""What no kernel computes yet."""


def exact(layer, arguments):
    """The layer's own results in float64."""
    return copy.deepcopy(layer).double()(**{name: as_double(v) for name, v in arguments.items()})


def as_double(value):
    if isinstance(value, tuple):
        return tuple(map(as_double, value))
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value


def near(found, expected):
    assert type(found) is type(expected)
    if isinstance(found, tuple):
        for one, other in zip(found, expected, strict=True):
            near(one, other)
    elif found.is_floating_point():
        assert (found - expected).abs().max() / expected.abs().max() < 1e-5
    else:
        assert torch.equal(found, expected)


def close(found, layer, arguments):
    near(found, exact(layer, arguments))


@cache
def compiled_cases(name):
    """Each case's layer, compiled, its arguments, and why some of it is not; tests share them."""
    torch.manual_seed(0)
    found = []
    for case in CASES[name]:
        layer = case.make().eval()
        arguments = arguments_on(EDGES, NODES, case.given)
        with torch.no_grad(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", FallbackWarning)
            layer(**arguments)  # lazy parameters
            compiled = compile_layer(layer, backend="torch")
            near(compiled(**arguments), exact(layer, arguments))
        found.append((layer, compiled, arguments, [str(warning.message) for warning in told]))
    return found


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_all_variants_give_the_layers_results(name):
    for layer, compiled, arguments, told in compiled_cases(name):
        expected = exact(layer, arguments)
        for reason in told:
            assert any(re.search(known, reason) for known in REASONS), reason
        for variant in compiled.variants:
            near(compiled(**arguments, variant=variant), expected)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_layers(name):
    layer, compiled, arguments, told = compiled_cases(name)[0]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", FallbackWarning)
        found = gradients_of(compiled, arguments)
    told = told + [str(warning.message) for warning in warned]
    assert compiled.status().has_gradients or told
    assert all("gradients" not in reason for reason in told)
    own, exact = gradients_of(layer, arguments), exact_gradients_of(layer, arguments)
    assert gradient_error(found, exact) <= gradient_tolerance(own, exact)


LAYERS = {
    "GCN": lambda: pyg.GCNConv(WIDTH, 4),
    "GAT": lambda: pyg.GATConv(WIDTH, 4, heads=2),
    "GIN": lambda: pyg.GINConv(mlp(WIDTH, 8, 4)),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@torch.no_grad()
def test_kernels_give_the_layers_results(make):
    layer = make().eval()
    compiled = compile_layer(layer)
    for seed in range(3):
        edges = torch.randint(0, NODES - 3, (2, 400 + seed))
        arguments = arguments_on(edges, NODES, ())
        close(compiled(**arguments), layer, arguments)
    assert compiled.explain(**arguments).id in compiled.variants


@torch.no_grad()
def test_new_parameters_and_edges_count():
    layer = pyg.GCNConv(WIDTH, 4)
    compiled = compile_layer(layer, backend="torch")
    arguments = arguments_on(EDGES.clone(), NODES, ("edge_weight",))
    close(compiled(**arguments), layer, arguments)
    layer.lin.weight.mul_(2)
    close(compiled(**arguments), layer, arguments)
    arguments["edge_weight"].add_(1)
    close(compiled(**arguments), layer, arguments)
    arguments["edge_index"][0, :50] = 3
    close(compiled(**arguments), layer, arguments)
    compiled.train()
    close(compiled(**arguments), layer, arguments)


WITH_EDGE_FEATURES = {
    "GraphConv": (lambda: pyg.GraphConv(WIDTH, 4), ("edge_weight",)),
    "GINEConv": (lambda: pyg.GINEConv(nn.Linear(WIDTH, 4), edge_dim=5), ("edge_attr",)),
    "GCNConv": (lambda: pyg.GCNConv(WIDTH, 4), ("edge_weight",)),
    "GATConv": (lambda: pyg.GATConv(WIDTH, 4, 2, edge_dim=5), ("edge_attr",)),
}


@pytest.mark.parametrize(("make", "given"), WITH_EDGE_FEATURES.values(), ids=WITH_EDGE_FEATURES)
@torch.no_grad()
def test_new_edge_features_keep_the_graph(make, given):
    layer = make().eval()
    compiled = compile_layer(layer)
    edges, (name,) = EDGES.clone(), given
    built = GraphIndex.__init__
    with patch.object(GraphIndex, "__init__", autospec=True, side_effect=built) as index:
        for _ in range(7):
            arguments = arguments_on(edges, NODES, given)
            arguments[name] += torch.rand(())
            for _ in range(3):
                close(compiled(**arguments), layer, arguments)
            arguments[name][5:] += 0.5
            close(compiled(**arguments), layer, arguments)
    assert index.call_count == 1


ATTENTION = {
    "GAT": lambda: pyg.GATConv(WIDTH, 4, heads=2),
    "GATv2": lambda: pyg.GATv2Conv(WIDTH, 4, heads=3, concat=False, add_self_loops=False),
    "Transformer": lambda: pyg.TransformerConv(WIDTH, 4, heads=2),
}


@pytest.mark.parametrize("make", ATTENTION.values(), ids=ATTENTION)
@torch.no_grad()
def test_attention_is_returned_for_the_layers_own_edges(make):
    layer = make().eval()
    compiled = compile_layer(layer)
    arguments = arguments_on(EDGES, NODES, ())
    close(compiled(**arguments), layer, arguments)
    arguments["return_attention_weights"] = True
    for _ in range(2):
        found = compiled(**arguments)
        close(found, layer, arguments)
        found[1][0].zero_() if found[1][0] is not EDGES else None  # the caller's own
    assert getattr(layer, "_alpha", None) is None


BIPARTITE = {
    "SAGE": lambda: pyg.SAGEConv((WIDTH, 5), 4),
    "SAGE of sources": lambda: pyg.SAGEConv((WIDTH, 5), 4, "max", root_weight=False, project=True),
    "GAT": lambda: pyg.GATConv((WIDTH, 5), 4, heads=2, edge_dim=3, add_self_loops=False),
    "GAT with loops": lambda: pyg.GATConv((WIDTH, 5), 4, heads=2),
    "GATv2": lambda: pyg.GATv2Conv((WIDTH, 5), 4, add_self_loops=False, residual=True),
    "Graph": lambda: pyg.GraphConv((WIDTH, 5), 4, "mean"),
    "Transformer": lambda: pyg.TransformerConv((WIDTH, 5), 4, heads=2),
    "GIN": lambda: pyg.GINConv(mlp(WIDTH, 8, 4)),
    "RGCN": lambda: pyg.RGCNConv((WIDTH, 5), 4, 3, num_bases=2),
    "RGCN of maxima": lambda: pyg.RGCNConv((WIDTH, 5), 4, 3, aggr="max", root_weight=False),
}
NOT_COMPILED = ("GATv2", "Transformer", "RGCN of maxima")


@pytest.mark.parametrize("name", BIPARTITE)
@torch.no_grad()
def test_pairs_of_features_have_sources_of_their_own(name):
    layer = BIPARTITE[name]().eval()
    compiled = compile_layer(layer, backend="torch" if name in NOT_COMPILED else "cpp")
    draw = torch.Generator().manual_seed(0)
    for sources, targets in ((70, 20), (9, 60)):
        ends = [torch.randint(most - 2, (300,), generator=draw) for most in (sources, targets)]
        x = [torch.randn(sources, WIDTH, generator=draw), torch.randn(targets, 5, generator=draw)]
        x[1] = None if name in ("SAGE of sources", "GIN") else x[1]
        arguments = {"x": tuple(x), "edge_index": torch.stack(ends), "size": (sources, targets)}
        if name == "Graph":
            arguments["edge_weight"] = torch.rand(300, generator=draw)
        if "edge_dim" in vars(layer) and layer.edge_dim:
            arguments["edge_attr"] = torch.rand(300, 3, generator=draw)
        if name.startswith("RGCN"):
            arguments["edge_type"] = torch.randint(3, (300,), generator=draw)
        if name in ("GATv2", "Transformer") or name.startswith("RGCN"):
            del arguments["size"]
        with warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            close(compiled(**arguments), layer, arguments)
        for variant in compiled.variants if compiled._runs.backend.name == "torch" else ():
            close(compiled(**arguments, variant=variant), layer, arguments)


def test_batch_norm_trains_after_the_program():
    layer = pyg.GINConv(mlp(WIDTH, 8, 4), eps=0.5, train_eps=True)
    compiled = compile_layer(layer, backend="torch")
    own, arguments = copy.deepcopy(layer), arguments_on(EDGES, NODES, ())
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for _ in range(2):
            found, exact = gradients_of(compiled, arguments), exact_gradients_of(layer, arguments)
            assert gradient_error(found, exact) <= gradient_tolerance(
                gradients_of(own, arguments), exact
            )
        with torch.no_grad():
            near(compiled(**arguments), own(**arguments).double())
        for one, other in zip(layer.buffers(), own.buffers(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        compiled.eval()
        with torch.no_grad():
            close(compiled(**arguments), layer, arguments)
    assert layer.nn[1].num_batches_tracked == 3


class NormedFirst(pyg.MessagePassing):
    """Sums what a batch norm gives."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.norm(x))


def test_batch_norm_before_a_sum_runs_uncompiled_in_training():
    layer = NormedFirst()
    own, compiled = copy.deepcopy(layer), compile_layer(layer, backend="torch")
    arguments = arguments_on(EDGES, NODES, ())
    with pytest.warns(FallbackWarning, match=r"call eval\(\) for inference"):
        near(compiled(**arguments), own(**arguments).double())
    assert layer.norm.num_batches_tracked == 1
    with torch.no_grad():
        close(compiled.eval()(**arguments), layer, arguments)


class Cut(pyg.MessagePassing):
    """Reads some columns of its features, and puts others beside what edges compute."""

    def forward(self, x, edge_index):
        pair = x if isinstance(x, tuple) else (x, x)
        parts = [rows.split([2, WIDTH - 2], -1) for rows in pair]
        rows, places = zip(*parts, strict=True)
        return self.propagate(edge_index, x=rows, pos=places) + pair[1][:, 1:3]

    def message(self, x_j, pos_i, pos_j):
        beside = torch.cat([(pos_i - pos_j)[:, 1:3].exp(), x_j], -1)
        return beside.view(-1, 2, 2).amax(1) * beside[:, 1:3]


@pytest.mark.parametrize("sources", [NODES, NODES + 9])
@torch.no_grad()
def test_columns_are_picked(sources):
    layer, compiled = Cut().eval(), compile_layer(Cut().eval(), backend="torch")
    arguments = arguments_on(EDGES, NODES, ())
    if sources != NODES:
        arguments["x"] = torch.randn(sources, WIDTH), arguments["x"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        close(compiled(**arguments), layer, arguments)
    for variant in compiled.variants:
        close(compiled(**arguments, variant=variant), layer, arguments)
    rows = arguments["x"] if sources == NODES else arguments["x"][0]
    rows[7, 5] = torch.inf  # which nobody reads
    with pytest.warns(FallbackWarning, match="features are not finite"):
        close(compiled(**arguments), layer, arguments)
    with patch.object(selected_columns, "WIDEST", 3):
        found = compile_layer(layer, backend="torch")
        with pytest.warns(FallbackWarning, match="side by side"):
            close(found(**arguments), layer, arguments)


class Filled(pyg.MessagePassing):
    """Returns none of the columns, too, and which numbers are positive."""

    def __init__(self, has_mask):
        super().__init__()
        self.has_mask = has_mask

    def forward(self, x, edge_index):
        src, dst = edge_index
        half = torch.full(size=(edge_index.size(1), 1), fill_value=0.5)
        out = torch.zeros(x.size(0), x.size(1)).index_add_(0, dst, x[src] * half)
        return (out, out[:, :0], out > 0) if self.has_mask else (out, out[:, :0])


@torch.no_grad()
def test_results_without_columns_are_returned_and_masks_by_the_layer():
    layer, arguments = Filled(False), arguments_on(EDGES, NODES, ())
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found = compile_layer(layer, backend="torch")(**arguments)
    torch.testing.assert_close(found, layer(**arguments))
    layer = Filled(True)
    with pytest.warns(FallbackWarning, match="has another form"):
        found = compile_layer(layer, backend="torch")(**arguments)
    assert all(map(torch.equal, found, layer(**arguments)))


@pytest.mark.parametrize("aggr", ["mean", "max"])
def test_rows_of_one_number_that_are_normalized_have_no_gradients(aggr):
    layer, arguments = pyg.SAGEConv(WIDTH, 1, aggr, normalize=True), arguments_on(EDGES, NODES, ())
    arguments["x"].requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        out = compile_layer(layer, backend="torch")(**arguments)
    assert torch.autograd.grad(out.sum(), arguments["x"])[0].abs().max() < 1e-4


class InPlace(pyg.MessagePassing):
    """Adds to tensors that it goes on with; new ones have torch's default dtype."""

    def __init__(self, dtype=None):
        super().__init__()
        self.dtype = dtype

    def forward(self, x, edge_index):
        src, dst = edge_index
        out, other = torch.zeros(x.size(0), x.size(1), dtype=self.dtype), x.clone()
        out.index_add_(0, dst, x[src])
        other.scatter_add_(0, dst.view(-1, 1).expand(-1, x.size(1)), x[src].relu())
        return out * other


@torch.no_grad()
def test_rows_are_added_in_place():
    layer, arguments = InPlace(), arguments_on(EDGES, NODES, ())
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        near(compile_layer(layer, backend="torch")(**arguments), layer(**arguments))


@torch.no_grad()
def test_what_float64_has_no_answer_for_runs_uncompiled():
    layer, arguments = InPlace(torch.float32), arguments_on(EDGES, NODES, ())
    with pytest.warns(FallbackWarning, match="must have the same scalar type"):
        found = compile_layer(layer, backend="torch")(**arguments)
    assert torch.equal(found, layer(**arguments))


class WithTail(pyg.MessagePassing):
    """Sums, and what no program has after them; two results."""

    def __init__(self):
        super().__init__()
        self.lin, self.memory = nn.Linear(WIDTH, 4), nn.LSTM(4, 3, batch_first=True)

    def forward(self, x, edge_index, batch=None):
        h = self.propagate(edge_index, x=self.lin(x)).relu()
        steps = torch.stack([h, self.propagate(edge_index, x=h)], 1)
        whole = torch.cumsum(self.memory(steps)[0].flatten(1), 1).log_softmax(-1)
        if batch is not None:
            whole = whole.new_zeros(2, 6).index_add(0, batch, whole)
        return {"whole": whole, "parts": (h, torch.cat([x, h], 1))}


@torch.no_grad()
def test_what_follows_the_last_sum_runs_in_torch():
    layer = WithTail().eval()
    compiled = compile_layer(layer)
    arguments = arguments_on(EDGES, NODES, ())
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for given in ({}, {"batch": torch.arange(NODES) % 2}):
            found, expected = compiled(**arguments, **given), layer(**arguments, **given)
            assert found.keys() == expected.keys()
            for one, other in zip(
                (found["whole"], *found["parts"]), (expected["whole"], *expected["parts"]),
                strict=True,
            ):  # fmt: skip
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="out= is for rows that a program returns"):
        compiled(**arguments, out=torch.empty(NODES, 6))


class LastTwo(pyg.MessagePassing):
    """Computes something else on some graphs."""

    def forward(self, x, edge_index):
        if edge_index.shape[1] == 2:
            x = -x
        return self.propagate(edge_index, x=x)


@torch.no_grad()
def test_a_graph_with_another_program_is_left_to_the_module():
    layer = LastTwo()
    compiled = compile_layer(layer, backend="torch")
    arguments = arguments_on(EDGES, NODES, ())
    close(compiled(**arguments), layer, arguments)
    arguments = arguments_on(torch.tensor([[0, 1], [1, 2]]), 3, ())
    with pytest.warns(FallbackWarning, match="its program depends on the graph"):
        close(compiled(**arguments), layer, arguments)
    arguments = arguments_on(torch.empty(2, 0, dtype=torch.int64), 3, ())
    with pytest.warns(FallbackWarning, match="the graph has no edges"):
        assert (compiled(**arguments) == 0).all()


@torch.no_grad()
def test_other_calls_run_uncompiled_or_are_refused():
    layer = pyg.GATConv(WIDTH, 4).eval()
    compiled = compile_layer(layer, backend="torch")
    arguments = arguments_on(EDGES, NODES, ())
    close(compiled(**arguments), layer, arguments)
    mixed = {**arguments, "x": arguments["x"].bfloat16(), "edge_attr": torch.rand(len(EDGES.T), 1)}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.warns(FallbackWarning, match="its arguments are bfloat16 and float32"):
            found = compiled(**mixed)
        assert found.dtype == layer(**mixed).dtype
    with pytest.raises(InputError, match="GATConv: missing a required argument: 'edge_index'"):
        compiled(arguments["x"])
    with pytest.raises(GraphError, match=r"edge_index\[1, 0\] is 99"):
        compiled(arguments["x"], torch.tensor([[0], [NODES]]))
    with torch.enable_grad():
        compiled(**arguments).sum().backward()
    assert compiled.status().has_gradients
    assert layer.bias.grad is not None


CACHED = {
    "GCN": lambda: pyg.GCNConv(WIDTH, 4, cached=True),
    "APPNP": lambda: pyg.APPNP(2, 0.2, cached=True),
    "no norm": lambda: pyg.GCNConv(WIDTH, 4, cached=True, normalize=False),
}


@pytest.mark.parametrize("make", CACHED.values(), ids=CACHED)
def test_cached_edges_are_kept_as_the_layer_keeps_them(make):
    arguments, layer = arguments_on(EDGES, NODES, ("edge_weight",)), make().eval()
    own, compiled = copy.deepcopy(layer), compile_layer(layer, backend="torch")
    compiled.explain(arguments["x"], OTHERS)  # keeps none
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for edges in (EDGES, EDGES, OTHERS, EDGES[:, :60], None, OTHERS, OTHERS, EDGES):
            if edges is None:
                for each in (layer, own):
                    each.reset_parameters()
                own.load_state_dict(layer.state_dict())
                continue
            given = arguments["x"], edges, arguments["edge_weight"][: edges.shape[1]]
            with torch.no_grad():
                near(compiled(*given), own(*given))
    assert compiled.status().is_compiled


SETS = {
    "GCN": lambda: pyg.GCNConv(WIDTH, 4),
    "SAGE": lambda: pyg.SAGEConv(WIDTH, 4, "max"),
    "GIN": lambda: pyg.GINConv(nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 4))),
    "TAG": lambda: pyg.TAGConv(WIDTH, 4, K=2),
}


@pytest.mark.parametrize("name", SETS)
def test_several_sets_of_features_share_a_graph(name):
    layer, shape = SETS[name]().eval(), (2, 3, NODES) if name == "GCN" else (3, NODES)
    compiled = compile_layer(layer, backend="cpp" if name == "GCN" else "torch")
    arguments = {"x": torch.randn(*shape, WIDTH), "edge_index": EDGES}
    for count in (NODES, NODES + 1):
        arguments["x"] = torch.randn(*shape[:-1], count, WIDTH)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("error", FallbackWarning)
            close(compiled(**arguments), layer, arguments)
    found, own = gradients_of(compiled, arguments), gradients_of(layer, arguments)
    exact = exact_gradients_of(layer, arguments)
    assert gradient_error(found, exact) <= gradient_tolerance(own, exact)


class Flattened(pyg.MessagePassing):
    """Takes rows of two axes of each node."""

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x.flatten(1))


@torch.no_grad()
def test_rows_of_two_axes_are_no_sets():
    layer, arguments = Flattened(), {"x": torch.randn(NODES, 3, WIDTH), "edge_index": EDGES}
    close(compile_layer(layer, backend="torch")(**arguments), layer, arguments)


def test_cached_weights_of_edges_have_the_gradients_that_the_layer_gives_them():
    layer, arguments = CACHED["GCN"]().eval(), arguments_on(EDGES, NODES, ("edge_weight",))
    own, weight = copy.deepcopy(layer), arguments["edge_weight"].requires_grad_()
    compiled = compile_layer(layer, backend="torch")
    with pytest.warns(FallbackWarning, match="cached=True keeps weights of edges that have grad"):
        found = compiled(**arguments)
    (gradient,) = torch.autograd.grad(found.square().sum(), weight)
    near(gradient, torch.autograd.grad(own(**arguments).square().sum(), weight)[0])
    layer.reset_parameters()
    compiled(arguments["x"], EDGES, weight.detach()).sum().backward()
    assert compiled.status().has_gradients


@torch.no_grad()
def test_cached_features_are_left_to_the_layer():
    arguments = arguments_on(EDGES, NODES, ())
    compiled = compile_layer(pyg.SGConv(WIDTH, 4, cached=True), backend="torch")
    with pytest.warns(FallbackWarning, match="cached=True keeps to its first graph"):
        first = compiled(**arguments)
    assert torch.equal(first, compiled(2 * arguments["x"], EDGES[:, :9]))


def test_models_of_such_layers_are_compiled():
    torch.manual_seed(0)
    model = pyg.Sequential(
        "x, edge_index",
        [
            (pyg.GCNConv(WIDTH, 8), "x, edge_index -> x"),
            nn.ReLU(),
            (pyg.SAGEConv(8, 4), "x, edge_index -> x"),
        ],
    ).eval()
    compiled = hetune.compile(model, backend="torch")
    arguments = arguments_on(EDGES, NODES, ())
    with torch.no_grad():
        found = compiled(arguments["x"], EDGES)
        torch.testing.assert_close(found, model(arguments["x"], EDGES), rtol=1e-5, atol=1e-5)


class CutFirst(pyg.MessagePassing):
    """Multiplies some columns of its features, whose weight is chosen by an index with a step."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(WIDTH - 1, 4)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x[:, 1:]), last=x[..., [-1]])

    def message(self, x_j, last_i):
        return x_j * last_i


def test_columns_are_picked_by_the_product_that_follows():
    layer, arguments = CutFirst(), arguments_on(EDGES, NODES, ())
    compiled = compile_layer(layer, backend="torch")
    found, exact = gradients_of(compiled, arguments), exact_gradients_of(layer, arguments)
    assert gradient_error(found, exact) <= gradient_tolerance(gradients_of(layer, arguments), exact)
    assert compiled.status().has_gradients
    program = compiled._adapter.program
    assert sum(isinstance(let.op, Linear) for let in program.lets) == 1
    arguments["x"][3, 0] = torch.nan  # which nobody reads
    with torch.no_grad(), pytest.warns(FallbackWarning, match="features are not finite"):
        close(compiled(**arguments), layer, arguments)

"""`hetune.compile` of message-passing layers: results, calls, and what runs uncompiled."""

from __future__ import annotations

import copy
import re
import warnings

import pytest
import torch
from tests.frontend.message_passing_cases import CASES, WIDTH, arguments_on, mlp, pyg
from torch import nn

import hetune
from hetune.variants.errors import GraphError, InputError
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

EDGES = torch.randint(0, 90, (2, 700), generator=torch.Generator().manual_seed(0))
NODES = 99
REASONS = (
    r"is a sum at sources",
    r"modules of type .* are not supported",
)
"""What no kernel computes yet."""


def exact(layer, arguments):
    """The layer's own results in float64."""
    exact = {
        name: value.double() if value.is_floating_point() else value
        for name, value in arguments.items()
    }
    return copy.deepcopy(layer).double()(**exact)


def near(found, expected):
    error = (found - expected).abs().max() / expected.abs().max()
    assert error < 1e-5


def close(found, layer, arguments):
    near(found, exact(layer, arguments))


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_all_variants_give_the_layers_results(name):
    torch.manual_seed(0)
    for case in CASES[name]:
        layer = case.make().eval()
        arguments = arguments_on(EDGES, NODES, case.given)
        layer(**arguments)  # lazy parameters
        expected = exact(layer, arguments)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", FallbackWarning)
            compiled = compile_layer(layer, backend="torch")
            near(compiled(**arguments), expected)
        for warning in told:
            reason = str(warning.message)
            assert any(re.search(known, reason) for known in REASONS), reason
        for variant in compiled.variants:
            near(compiled(**arguments, variant=variant), expected)


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


@torch.no_grad()
def test_batch_norm_in_training_runs_uncompiled():
    layer = pyg.GINConv(mlp(WIDTH, 8, 4)).eval()
    compiled = compile_layer(layer, backend="torch")
    arguments = arguments_on(EDGES, NODES, ())
    close(compiled(**arguments), layer, arguments)
    compiled.train()
    with pytest.warns(FallbackWarning, match=r"call eval\(\) for inference"):
        compiled(**arguments)
    compiled.eval()
    close(compiled(**arguments), layer, arguments)


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
    with pytest.warns(FallbackWarning, match="it returns a Tensor, not rows of nodes"):
        _, (_, alpha) = compiled(**arguments, return_attention_weights=True)
    assert alpha.shape[1] == 1
    with pytest.warns(FallbackWarning, match="x is a tuple: tensors and numbers compile"):
        compiled((arguments["x"], arguments["x"]), EDGES)
    with (
        pytest.warns(FallbackWarning, match="autocast is on"),
        torch.autocast("cpu", dtype=torch.bfloat16),
    ):
        assert compiled(**arguments).dtype == layer(**arguments).dtype
    with pytest.raises(InputError, match="GATConv: missing a required argument: 'edge_index'"):
        compiled(arguments["x"])
    with pytest.raises(GraphError, match=r"edge_index\[1, 0\] is 99"):
        compiled(arguments["x"], torch.tensor([[0], [NODES]]))
    with pytest.warns(FallbackWarning, match="gradients are needed"), torch.enable_grad():
        compiled(**arguments).sum().backward()
    assert layer.bias.grad is not None


@torch.no_grad()
def test_cached_layers_run_uncompiled():
    compiled = compile_layer(pyg.GCNConv(WIDTH, 4, cached=True), backend="torch")
    arguments = arguments_on(EDGES, NODES, ())
    with pytest.warns(FallbackWarning, match="cached=True keeps to its first graph"):
        first = compiled(**arguments)
    assert torch.equal(first, compiled(arguments["x"], EDGES[:, :9]))


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

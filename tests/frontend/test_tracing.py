"""Programs of message-passing layers that their own forward gives, on awkward graphs."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.frontend.message_passing_cases import CASES, WIDTH, arguments_on, mlp, pyg
from torch import nn

from hetune.variants.frontend.tracing.arguments import CallArguments, read_arguments
from hetune.variants.frontend.tracing.dropout import InDoubles
from hetune.variants.frontend.tracing.layer import trace
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recording import Recordings
from hetune.variants.frontend.tracing.validate import interpreted, validated
from hetune.variants.runtime.compile_layer import compile_layer

utils = pytest.importorskip("torch_geometric.utils")

HUB = torch.stack((torch.arange(29), torch.full((29,), 3)))
TWICE = torch.tensor([[0, 0, 1, 5, 5, 5, 7], [1, 1, 1, 6, 5, 6, 0]])
GRAPHS = (
    (torch.cat((HUB, TWICE), 1), 31),  # a hub, nodes without edges, loops, double edges
    (torch.randint(0, 23, (2, 90), generator=torch.Generator().manual_seed(1)), 23),
)


def check(module: nn.Module, given: tuple[str, ...]) -> bool:
    """The program, in float64, gives the layer's own numbers on every graph.

    Returns:
        Whether what it needs of the second graph is what was recorded on the first one.
    """
    module = module.eval()
    first = arguments_on(*GRAPHS[0], given)
    with torch.no_grad():
        module(**first)  # lazy parameters
        for parameter in module.parameters():
            parameter.copy_(torch.rand_like(parameter) - 0.3)
    confirmed, _ = validated(module, read_arguments(module, (), first))
    module = module.double()
    recordings, rows = Recordings(confirmed.recording), None
    for edge_index, num_nodes in GRAPHS:
        arguments = {
            name: value.double() if value.is_floating_point() else value
            for name, value in arguments_on(edge_index, num_nodes, given).items()
        }
        features = tuple(name for name in ("x", "x_0", "pos") if name in arguments)
        read = CallArguments(arguments, features, "edge_index", confirmed.edge_features)
        traced = trace(module, read)
        assert traced.key == confirmed.key
        with InDoubles():
            rows = recordings.run(num_nodes, None, arguments)
        if rows is not None:
            replayed = confirmed.on(num_nodes, None, rows)
            assert torch.equal(replayed.src, traced.src)
            assert torch.equal(replayed.dst, traced.dst)
            assert replayed.constants.keys() == traced.constants.keys()
            for name, constant in traced.constants.items():
                assert torch.equal(replayed.constants[name], constant)
        recordings.add(traced.recording)
        with torch.no_grad():
            found = interpreted(traced, module, read)
            with InDoubles():
                expected = copy.deepcopy(module)(**arguments)
        torch.testing.assert_close(
            found,
            expected,
            rtol=1e-9,
            atol=1e-9 * float(expected.abs().max()),
        )
    return rows is not None


@pytest.mark.parametrize("name", CASES)
def test_programs_give_the_numbers_of_pygs_layers(name):
    torch.manual_seed(0)
    replayed = [check(case.make(), case.given) for case in CASES[name]]
    assert all(replayed) or name == "EGConv"  # it reads the largest node of some edges


class Own(pyg.MessagePassing):
    """A user's layer: gated messages, its own softmax, and an update."""

    def __init__(self):
        super().__init__(aggr="add", node_dim=0)
        self.gate = nn.Parameter(torch.rand(2, 3))
        self.lin, self.up = nn.Linear(WIDTH, 6), mlp(12, 8, 5)
        self.norm = nn.LayerNorm(6)

    def forward(self, x, edge_index):
        h = self.norm(self.lin(x)).view(-1, 2, 3)
        alpha = self.edge_updater(edge_index, h=h)
        return self.propagate(edge_index, h=h, alpha=alpha)

    def edge_update(self, h_i, h_j, index, size_i):
        score = (torch.tanh(h_i + h_j) * self.gate).sum(-1)
        return utils.softmax(score, index, num_nodes=size_i)

    def message(self, h_j, alpha, index, size_i):
        largest = utils.scatter(h_j, index, 0, size_i, "max")
        return h_j.mul(alpha.unsqueeze(-1)) - largest[index].chunk(2, 1)[0]

    def update(self, inputs, h):
        both = torch.cat([inputs.flatten(1), h.reshape(-1, 6).abs() ** 1.5], dim=-1)
        return self.up(torch.where(both > 0.1, both, 2**-both))


def test_programs_give_the_numbers_of_a_users_layer():
    assert check(Own(), ())


class Refused(pyg.MessagePassing):
    def __init__(self, what):
        super().__init__()
        self.what, self.outside = what, [nn.Parameter(torch.ones(WIDTH))]
        self.inside = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x, edge_index):
        if self.what == "bool" and x:
            return x
        if self.what == "item":
            x = x * self.inside.max().item()
        if self.what == "outside":
            x = x * self.outside[0]
        if self.what == "dropout":
            x = torch.dropout(x, 0.5, True)
        if self.what == "function":
            x = torch.logcumsumexp(x, 1)
        if self.what == "edges":
            edge_index = edge_index[:, x[edge_index[0], 0] > 0]
        if self.what == "all":
            x = x - x.mean(0)
        if self.what == "nodes' mask":
            x = x[x[:, 0] > 0]
        if self.what == "key":
            x = x * {"a": 1}["c"]
        if self.what == "graph":
            x = x * float(edge_index.sum())
        if self.what == "nodes":
            edge_index = edge_index[:, edge_index[0] != edge_index[1]]
            x = self.propagate(edge_index.flip(1)[:, 1:], x=x)
        return self.propagate(edge_index, x=x)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("bool", "Python needs the number of a tensor"),
        ("item", "Python needs the number of a tensor"),
        ("outside", "a parameter is none of the module's own: register it there"),
        ("function", "the function logcumsumexp has no meaning in a program"),
        ("edges", "a mask takes some of the rows: multiply by the mask"),
        ("nodes' mask", "a mask takes some of the rows: multiply by the mask"),
        ("key", "its forward raises KeyError: 'c'"),
        ("all", "the mean of all nodes or edges: reduce rows by an end of the edges"),
        ("graph", "its program depends on the graph: branch on options alone"),
        ("nodes", "one set of edges compiles"),
    ],
)
def test_what_is_no_program_is_refused_with_its_line(what, reason):
    layer = Refused(what)
    arguments = read_arguments(layer, (), arguments_on(*GRAPHS[0], ()))
    with pytest.raises(NotTraceable, match=reason) as refused:
        validated(layer, arguments)
    if what != "graph":
        assert "test_tracing.py:" in str(refused.value) or "message_passing.py:" in str(
            refused.value
        )


def test_training_mode_is_traced_where_it_matters():
    layer = pyg.GINConv(mlp(WIDTH, 8, 4))
    arguments = read_arguments(layer, (), arguments_on(*GRAPHS[0], ()))
    training, fixed = (validated(layer.train(mode), arguments)[0] for mode in (True, False))
    names = ("running_mean", "running_var", "num_batches_tracked")
    assert training.updated == {f"nn.1.{name}" for name in names}
    assert not fixed.updated


def test_wrong_programs_are_found_out(monkeypatch):
    from hetune.variants.frontend.tracing import interpreter

    layer = pyg.GINConv(nn.Linear(WIDTH, 4))
    arguments = read_arguments(layer, (), arguments_on(*GRAPHS[0], ()))
    wrong = interpreter.HANDLERS["sub"]
    monkeypatch.setitem(interpreter.HANDLERS, "__add__", wrong)
    monkeypatch.setitem(interpreter.HANDLERS, "add", wrong)
    with pytest.raises(NotTraceable, match="gives other numbers: they differ by"):
        validated(layer, arguments)


def test_gradients_on_edges_of_int32_are_those_on_edges_of_int64():
    """Which torch's of `scatter_add` are not."""
    random = torch.Generator().manual_seed(0)
    layer, edges = pyg.SAGEConv(WIDTH, 5), torch.randint(0, 23, (2, 90), generator=random)
    x = torch.randn(23, WIDTH, generator=random, requires_grad=True)
    compiled = compile_layer(layer, backend="torch")
    found, expected = (
        torch.autograd.grad(f(x, ids).square().sum(), x)[0]
        for f, ids in ((compiled, edges.int()), (layer, edges))
    )
    assert compiled.status().has_gradients
    torch.testing.assert_close(found, expected)

"""What a traced layer takes for granted beside its parameters: a change is seen, or refused."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from tests.frontend.message_passing_cases import WIDTH, arguments_on, pyg
from torch import nn

import hetune
from hetune.variants.frontend import traced_graphs
from hetune.variants.frontend.tracing.arguments import read_arguments
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.python_state import PythonState
from hetune.variants.frontend.tracing.validate import validated
from hetune.variants.runtime.fallback import FallbackWarning

GAIN = 2.0
INNER = 1.0
OWN = 1.0
STATIC = 1.0
TABLE = torch.ones(WIDTH)
EDGES = torch.randint(0, 23, (2, 90), generator=torch.Generator().manual_seed(1))


def gained(x):
    return x * GAIN


class Stateful(pyg.MessagePassing):
    bound = 1.0

    def __init__(self, writes=""):
        super().__init__()
        self.act = nn.Sequential(nn.LeakyReLU(0.1))
        self.writes, self.calls, self.scales, self._shift = writes, 0, [1.0, 2.0], 1.0
        self.config = SimpleNamespace(inner={"gain": 1.0})
        self.register_buffer("seen", torch.zeros(WIDTH))

    def forward(self, x, edge_index):
        match self.writes:
            case "calls":
                self.calls += 1
            case "seen":
                self.seen.add_(1)
            case "x":
                x.relu_()
            case "table":
                x = x * TABLE
        return self.propagate(edge_index, x=x)

    @property
    def own(self):
        return OWN

    @staticmethod
    def static():
        return STATIC

    def message(self, x_j):
        scaled = gained(x_j) * self.scales[0] + self._shift + self.bound
        scaled = (lambda rows: rows * INNER)(scaled) * self.own * self.static()
        return self.act(scaled) * self.config.inner["gain"]


CHANGES = {
    "scales": lambda layer: layer.scales.__setitem__(0, 5.0),
    "_shift": lambda layer: setattr(layer, "_shift", 5.0),
    "act.0.negative_slope": lambda layer: setattr(layer.act[0], "negative_slope", 0.9),
    "config.inner.gain": lambda layer: layer.config.inner.update(gain=5.0),
    "extra": lambda layer: setattr(layer, "extra", 1),
    "Stateful.bound": lambda layer: None,
    **{f"{name} of {__name__}": lambda layer: None for name in ("GAIN", "INNER", "OWN", "STATIC")},
}


@pytest.mark.parametrize("path", CHANGES)
def test_assignments_after_tracing_are_seen(path, monkeypatch):
    layer = Stateful()
    state = PythonState(layer)
    layer.train().eval()
    layer.weight = nn.Parameter(torch.ones(1))
    assert state.change() is None
    CHANGES[path](layer)
    if path.startswith("Stateful"):
        monkeypatch.setattr(Stateful, "bound", 5.0)
    if " of " in path:
        monkeypatch.setitem(globals(), path.partition(" ")[0], 5.0)
    assert state.change() == path


@pytest.mark.parametrize("path", ["calls", "seen", "x"])
def test_a_forward_that_writes_is_refused(path):
    layer = Stateful(writes=path).eval()
    with pytest.raises(NotTraceable, match=f"its forward writes to {path}"):
        validated(layer, read_arguments(layer, (), arguments_on(EDGES, 23, ())))


def test_a_tensor_of_nobody_is_refused():
    layer = Stateful(writes="table").eval()
    with pytest.raises(NotTraceable, match="a tensor is none of the module's own"):
        validated(layer, read_arguments(layer, (), arguments_on(EDGES, 23, ())))


def test_a_layer_that_was_changed_runs_as_it_is_now():
    layer, x = Stateful().eval(), torch.randn(23, WIDTH)
    fast = hetune.compile(layer)
    with torch.no_grad():
        fast(x, EDGES)
        assert fast.variants
        layer.scales[0] = 5.0
        with pytest.warns(FallbackWarning, match="scales was changed: compile it anew"):
            found = fast(x, EDGES)
        torch.testing.assert_close(found, layer(x, EDGES))


class ModeScaled(pyg.GraphConv):
    def forward(self, x, edge_index, edge_weight):
        return super().forward(x, edge_index, edge_weight * 2 if self.training else edge_weight)


def test_tracing_leaves_pygs_classes_as_they_are():
    """A new class's `explain` and `decomposed_layers` go back to what its base has."""
    hetune.compile(Stateful())(torch.randn(23, WIDTH), EDGES)
    assert pyg.MessagePassing.propagate.__module__ == "torch_geometric.nn.conv.message_passing"


def test_constants_belong_to_their_call():
    layer, x = ModeScaled(WIDTH, WIDTH).eval(), torch.randn(23, WIDTH)
    fast, weights = hetune.compile(layer), (torch.rand(90), torch.rand(90), torch.rand(90))
    with torch.no_grad():
        for is_training in (False, True, False):
            for i in (0, 1, 0, 2, 1):
                found = fast.train(is_training)(x, EDGES, weights[i])
                torch.testing.assert_close(found, layer(x, EDGES, weights[i]))
    assert fast.status().reason is None


class NodeWeighted(pyg.GraphConv):
    def forward(self, x, edge_index, node_weight):
        return super().forward(x * node_weight.view(-1, 1), edge_index)


@torch.no_grad()
def test_constants_of_equal_tensors_do_not_change_with_one_of_them():
    layer, x, weight = NodeWeighted(WIDTH, WIDTH), torch.randn(23, WIDTH), torch.rand(23)
    fast, other = hetune.compile(layer, backend="torch"), weight.clone()
    for each in (weight, other):
        torch.testing.assert_close(fast(x, EDGES, each), layer(x, EDGES, each))
    weight.mul_(3)
    for each in (weight, other):
        torch.testing.assert_close(fast(x, EDGES, each), layer(x, EDGES, each))
    assert fast.status().reason is None


def test_constants_belong_to_their_thread(monkeypatch):
    known = traced_graphs._known
    monkeypatch.setattr(traced_graphs, "_known", lambda *args: time.sleep(0.02) or known(*args))
    layer, x = pyg.GraphConv(WIDTH, WIDTH), torch.randn(23, WIDTH)
    fast, weights = hetune.compile(layer, backend="torch"), [torch.rand(90) for _ in range(4)]

    @torch.no_grad()
    def run(i):
        return fast(x, edges, weights[i])

    with ThreadPoolExecutor(4) as threads, torch.no_grad():
        fast(x, EDGES, weights[0])
        for _ in range(3):
            edges = EDGES.clone()
            for i, found in enumerate(threads.map(run, range(4))):
                torch.testing.assert_close(found, layer(x, edges, weights[i]))

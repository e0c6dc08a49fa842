"""`hetune.compile(model, mode="whole")`: models as one program, compared with PyG's own."""

from __future__ import annotations

import pytest
import torch
from tests.frontend.message_passing_cases import mlp, pyg
from torch import nn
from torch.nn import functional

import hetune
from hetune.variants.errors import InputError

NODES = 61
EDGES = torch.randint(0, NODES - 4, (2, 400), generator=torch.Generator().manual_seed(0))
WIDTHS = {"in_channels": 6, "hidden_channels": 8, "num_layers": 2, "out_channels": 4}
DEGREES = torch.bincount(torch.bincount(EDGES[1], minlength=NODES))


class Citations(nn.Module):
    """A user's net: residuals, norms, dropout, and a head."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(6, 8), pyg.GCNConv(8, 8)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x, edge_index):
        h = functional.dropout(self.first(x, edge_index).relu(), training=self.training)
        h = h + self.norm(self.second(h, edge_index))
        return functional.log_softmax(self.head(h), dim=1)


class Molecules(nn.Module):
    """Graphs told apart by what they add up to."""

    def __init__(self):
        super().__init__()
        self.gnn = pyg.GIN(**WIDTHS, norm="batch_norm", jk="cat")
        self.head = mlp(4, 8, 2)

    def forward(self, x, edge_index, batch):
        return self.head(pyg.global_add_pool(self.gnn(x, edge_index), batch, size=3))


MODELS = {
    "GCN": Citations,
    "SAGE": lambda: pyg.GraphSAGE(**WIDTHS, jk="cat", norm="batch_norm"),
    "GIN": Molecules,
    "GAT": lambda: pyg.GAT(**WIDTHS, jk="lstm", heads=2),
    "PNA": lambda: pyg.PNA(
        **WIDTHS, jk="max", aggregators=["mean", "std"], scalers=["amplification"], deg=DEGREES
    ),
    "EdgeCNN": lambda: pyg.EdgeCNN(**WIDTHS),
}


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_whole_models_give_pygs_results(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for parameter in model.parameters():
        parameter.add_(torch.rand_like(parameter) * 0.1)
    given = [torch.randn(NODES, 6), EDGES]
    if name == "GIN":
        given.append(torch.arange(NODES) % 3)
    whole = hetune.compile(model, mode="whole", backend="cpp" if name == "GCN" else "torch")
    torch.testing.assert_close(whole(*given), model(*given), rtol=1e-5, atol=1e-5)
    (status,) = whole.report().layers
    assert status.is_compiled
    assert status.variant is not None, whole.report()
    assert list(whole.explain(*given)) == [""]


@torch.no_grad()
def test_what_is_no_program_runs_layer_by_layer():
    model = pyg.GraphSAGE(**WIDTHS, norm="layer_norm").eval()  # of all nodes together
    whole = hetune.compile(model, mode="whole", backend="torch")
    x = torch.randn(NODES, 6)
    torch.testing.assert_close(whole(x, EDGES), model(x, EDGES), rtol=1e-5, atol=1e-5)
    first, *layers = whole.report().layers
    assert str(first).startswith("layers: it is no program: the mean of all elements")
    assert "x = x - x.mean()" in str(first)
    assert [layer.is_compiled for layer in layers] == [True, True]
    with pytest.raises(InputError, match="take 'layers' or 'whole'"):
        hetune.compile(model, mode="model")


def test_modes_and_gradients_of_whole_models_are_the_models():
    model = Citations().eval()
    whole = hetune.compile(model, mode="whole", backend="torch")
    x = torch.randn(NODES, 6)
    with torch.no_grad():
        whole(x, EDGES)
        model.first.bias.add_(1)
        torch.testing.assert_close(whole(x, EDGES), model(x, EDGES), rtol=1e-5, atol=1e-5)
    whole(x, EDGES).square().sum().backward()
    assert whole.report().layers[0].has_gradients
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model(x, EDGES).square().sum().backward()
    for one, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-4, atol=1e-4)
    whole.train()
    assert model.first.training
    dropped = whole(x, EDGES)
    assert str(whole.report().layers[0]).endswith("with gradients")
    assert not torch.equal(whole(x, EDGES), dropped)

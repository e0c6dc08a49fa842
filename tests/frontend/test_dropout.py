"""Dropout in training: drawn by element, the same in the backward, and the layer's own."""

import pytest
import torch
from tests.frontend.message_passing_cases import pyg
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import hetune
from hetune.variants.program.dropout import dropout_mask
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.layer_gradients import (
    exact_gradients_of,
    gradient_error,
    gradient_tolerance,
    gradients_of,
)
from hetune.variants.testing.layers import randomized

CPU = torch.device("cpu")
NODES, COUNT = 24, 1 << 16
EDGES = torch.randint(0, NODES - 2, (2, 90), generator=torch.Generator().manual_seed(0))
TYPES = torch.arange(90) % 3


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_each_element_is_dropped_on_its_own(share):
    """Neither seeds nor neighbours tell anything of an element; masks have the right mean."""
    masks = torch.stack([dropout_mask((COUNT,), share, seed, CPU) for seed in range(40)])
    assert masks.unique().tolist() == [0.0, pytest.approx(1 / (1 - share))]
    unit = (masks * (1 - share) - (1 - share)) / (share * (1 - share)) ** 0.5
    of_means = unit.mean(1) * COUNT**0.5
    of_seeds = (unit @ unit.T / COUNT**0.5)[*torch.triu_indices(40, 40, 1)]
    lags = [(unit[:, lag:] * unit[:, :-lag]).sum(1) / COUNT**0.5 for lag in (1, 2, 8, 64, 1000)]
    for scores in (of_means, of_seeds, *lags):
        assert scores.abs().max() < 5
        assert 0.6 < scores.std() < 1.4


def test_masks_depend_on_seed_and_place_alone():
    mask = dropout_mask((40, 3), 0.5, 7, CPU)
    assert torch.equal(dropout_mask((1000, 3), 0.5, 7, CPU)[:40], mask)
    assert not torch.equal(dropout_mask((40, 3), 0.5, 8, CPU), mask)
    assert dropout_mask((5,), 0.0, 7, CPU).eq(1).all()
    assert dropout_mask((5,), 1.0, 7, CPU).eq(0).all()


LAYERS = {
    "rgat": lambda: (pyg.RGATConv(6, 4, 3, dropout=0.5), (EDGES, TYPES)),
    "rgat within": lambda: (
        pyg.RGATConv(6, 4, 3, heads=2, attention_mechanism="within-relation", dropout=0.5),
        (EDGES, TYPES),
    ),
    "gat": lambda: (pyg.GATConv(6, 4, heads=2, dropout=0.6, add_self_loops=False), (EDGES,)),
}


def with_masks_of(seed, monkeypatch):
    """Has layers of one dropout draw what compiled ones draw after this seed."""
    torch.manual_seed(seed)
    drawn = int(torch.randint(2**63 - 1, ()))

    def dropout(rows, p, training):
        return rows * dropout_mask(rows.shape, p, drawn, CPU) if training else rows

    monkeypatch.setattr(functional, "dropout", dropout)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_the_layer_with_the_same_mask(name, monkeypatch):
    layer, edges = LAYERS[name]()
    fast = compile_layer(randomized(layer), backend="torch", expected_runs=1)
    args, found = (torch.randn(NODES, 6), *edges), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(gradients_of(fast, args))
        assert str(fast.status()).endswith("with gradients")
    assert all(map(torch.equal, *found[:2]))
    assert not torch.equal(found[0][0], found[2][0])
    with_masks_of(1, monkeypatch)
    exact = exact_gradients_of(layer, args)
    assert gradient_error(found[0], exact) <= gradient_tolerance(gradients_of(layer, args), exact)
    layer.eval()
    torch.testing.assert_close(fast(*args), layer(*args), rtol=1e-5, atol=1e-5)
    assert fast.status().variant is not None


def test_kernels_drop_the_same_elements_in_both_directions(monkeypatch):
    layer = randomized(pyg.RGATConv(8, 4, 3, heads=2, dropout=0.5))
    args = torch.randn(NODES, 8), EDGES, TYPES
    variant = "hybrid+weights-first/b256"
    fast = Named(compile_layer(layer, expected_runs=1), variant)
    torch.manual_seed(1)
    found = gradients_of(fast, args)
    assert str(fast.layer.status()).endswith(f"{variant}, with gradients")
    with_masks_of(1, monkeypatch)
    exact = exact_gradients_of(layer, args)
    assert gradient_error(found, exact) <= gradient_tolerance(gradients_of(layer, args), exact)


class Named(torch.nn.Module):
    def __init__(self, layer, variant):
        super().__init__()
        self.layer, self.variant = layer, variant

    def forward(self, *args):
        return self.layer(*args, variant=self.variant)


def test_masks_are_drawn_again_in_the_backward_and_in_checkpoints():
    layer = randomized(pyg.RGATConv(6, 4, 3, dropout=0.5))
    fast = compile_layer(layer, backend="torch", expected_runs=1)
    args, held = (torch.randn(NODES, 6), EDGES, TYPES), []
    torch.manual_seed(3)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(len(t)) or t, lambda t: t):
        expected = gradients_of(fast, args)
    assert held
    assert EDGES.shape[1] not in held
    saving = Checkpointed(fast)
    torch.manual_seed(3)
    assert all(map(torch.equal, gradients_of(saving, args), expected))


class Checkpointed(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *args):
        return checkpoint(self.layer, *args, use_reentrant=False)


class OfTypes(torch.nn.Module):
    """Dropout of each type's rows and, in attention, of each relation's edges."""

    def __init__(self):
        super().__init__()
        relations = [("a", "r", "a"), ("a", "s", "b"), ("b", "t", "a")]
        self.conv = pyg.HeteroConv(
            {key: pyg.GATConv((6, 6), 4, dropout=0.5, add_self_loops=False) for key in relations}
        )

    def forward(self, x_dict, edge_index_dict):
        x_dict = {k: functional.dropout(x, 0.3, self.training) for k, x in x_dict.items()}
        return self.conv(x_dict, edge_index_dict)


def test_dropout_in_whole_models_and_of_what_the_graph_gives():
    """Traces confirm that each mask is where it is in the model: see `InDoubles`."""
    torch.manual_seed(0)
    x_dict = {"a": torch.randn(9, 6), "b": torch.randn(7, 6)}
    edge_dict = {
        key: torch.randint(0, 7, (2, 20))
        for key in (("a", "r", "a"), ("a", "s", "b"), ("b", "t", "a"))
    }
    x = torch.randn(NODES, 6)
    for model, args in (
        (OfTypes(), (x_dict, edge_dict)),
        (pyg.APPNP(2, 0.1, dropout=0.5), (x, EDGES)),  # of norms of edges, again and again
    ):
        fast, found = hetune.compile(model, backend="torch"), []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            with torch.no_grad():
                result = fast(*args)
            found.append(result["a"] if isinstance(result, dict) else result)
        assert torch.equal(found[0], found[1])
        assert not torch.equal(found[0], found[2])
        status = fast.report().layers[0] if isinstance(model, OfTypes) else fast.status()
        assert status.variant is not None, status


def test_dropout_in_place_is_left_to_the_layer():
    class InPlace(pyg.GCNConv):
        def forward(self, x, edge_index):
            return functional.dropout(super().forward(x, edge_index), 0.5, True, inplace=True)

    fast = hetune.compile(InPlace(6, 4), backend="torch")
    with pytest.warns(FallbackWarning, match="inplace=False compiles"):
        fast(torch.randn(NODES, 6), EDGES)

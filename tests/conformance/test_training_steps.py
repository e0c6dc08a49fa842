"""200 steps of training, compiled and by PyG, from the same weights: the same losses."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import hetune

pyg = pytest.importorskip("torch_geometric.nn")

STEPS, WIDTH, HEADS = 200, 8, 2
SIZES = {"paper": 20, "author": 15}
TRIPLES = [
    ("paper", "cites", "paper"),
    ("author", "writes", "paper"),
    ("paper", "is by", "author"),
    ("author", "knows", "author"),
]


class Net(nn.Module):
    """Two layers, whose rows are those of all nodes or of each node type."""

    def __init__(self, *convs):
        super().__init__()
        self.convs = nn.ModuleList(convs)

    def forward(self, x, *edges):
        first, second = self.convs
        rows = first(x, *edges)
        if isinstance(rows, dict):
            return second({name: part.relu() for name, part in rows.items()}, *edges)["paper"]
        return second(rows.relu(), *edges)[: SIZES["paper"]]


def net(layer):
    torch.manual_seed(0)
    match layer:
        case "rgcn":
            return Net(*(pyg.RGCNConv(WIDTH, WIDTH, len(TRIPLES), num_bases=2) for _ in range(2)))
        case "rgat":
            own = WIDTH // HEADS
            return Net(*(pyg.RGATConv(WIDTH, own, len(TRIPLES), heads=HEADS) for _ in range(2)))
        case "gcn":
            return Net(*(pyg.GCNConv(WIDTH, WIDTH) for _ in range(2)))
        case "gat":
            return Net(*(pyg.GATConv(WIDTH, WIDTH // HEADS, heads=HEADS) for _ in range(2)))
        case _:
            types = (list(SIZES), TRIPLES)
            return Net(*(pyg.HGTConv(WIDTH, WIDTH, types, HEADS) for _ in range(2)))


def call(layer):
    """Arguments of a call: 60 edges of each type, both numbered within types and over all."""
    generator = torch.Generator().manual_seed(1)
    first = {"paper": 0, "author": SIZES["paper"]}
    x = torch.randn(sum(SIZES.values()), WIDTH, generator=generator)
    local = {
        triple: torch.stack(
            [torch.randint(SIZES[end], (60,), generator=generator) for end in triple[::2]]
        )
        for triple in TRIPLES
    }
    if layer == "hgt":
        return dict(zip(SIZES, x.split(list(SIZES.values())), strict=True)), local
    shifts = [torch.tensor([[first[t[0]]], [first[t[2]]]]) for t in TRIPLES]
    edges = torch.cat([ids + by for ids, by in zip(local.values(), shifts, strict=True)], dim=1)
    if layer in ("gcn", "gat"):
        return x, edges
    return x, edges, torch.arange(len(TRIPLES)).repeat_interleave(60)


def losses(model, arguments, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    labels = torch.arange(SIZES["paper"]) % WIDTH
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(*arguments), labels)
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


RATES = {"rgcn": 0.002, "rgat": 0.002, "hgt": 0.001, "gcn": 0.005, "gat": 0.002}
"""At which rounding stays rounding. With one head RGAT's loss jumps at 0.01, and HGT's at 0.002:
PyG's own float32 is then up to 0.02 and 0.6 from its float64.
"""


@pytest.mark.parametrize("layer", RATES)
def test_losses_are_pyg_s(layer):
    plain, arguments = net(layer), call(layer)
    compiled = hetune.compile(copy.deepcopy(plain))
    want, got = (losses(model, arguments, RATES[layer]) for model in (plain, compiled))
    assert all(status.has_gradients for status in compiled.report().layers)
    assert want[-1] < 0.8 * want[0]
    torch.testing.assert_close(got, want, atol=1e-4, rtol=0)

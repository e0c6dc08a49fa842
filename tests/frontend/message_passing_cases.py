"""PyG's message-passing layers, each in three sets of options, with what they are called with.

A new layer is a line for each set of options here, and costs a quarter of a second: all its
variants are interpreted by torch, and nothing is compiled. Its kernels are those of other layers;
what is new in kind about them is tested once, as launches, in tests/backends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pyg = pytest.importorskip("torch_geometric.nn")

WIDTH, EDGE_WIDTH = 6, 5
NODE_TYPES, EDGE_TYPES = 3, 2


@dataclass(frozen=True)
class Case:
    """A layer and its call: names of what `arguments_on` gives, after x and edge_index."""

    make: Callable[[], nn.Module]
    given: tuple[str, ...] = ()


def arguments_on(edge_index: Tensor, num_nodes: int, given: tuple[str, ...]) -> dict[str, Any]:
    """Arguments of a call by name, float32."""
    random = torch.Generator().manual_seed(num_nodes)
    edges = edge_index.shape[1]
    rows = torch.randn(num_nodes, 2 * WIDTH, generator=random)
    others = {
        "x_0": rows[:, WIDTH:].contiguous(),
        "edge_weight": torch.rand(edges, generator=random) + 0.1,
        "edge_attr": torch.randn(edges, EDGE_WIDTH, generator=random),
        "node_type": torch.randint(0, NODE_TYPES, (num_nodes,), generator=random),
        "edge_type": torch.randint(0, EDGE_TYPES, (edges,), generator=random),
    }
    others["pos"] = others["x_0"]
    named = {name: others[name] for name in given}
    return {"x": rows[:, :WIDTH].contiguous(), "edge_index": edge_index, **named}


def mlp(*widths: int) -> nn.Sequential:
    """A user's network: products with batch norm between them."""
    first, middle, last = widths
    return nn.Sequential(
        nn.Linear(first, middle), nn.BatchNorm1d(middle), nn.ReLU(), nn.Linear(middle, last)
    )


def heat(**options: Any) -> nn.Module:
    return pyg.HEATConv(WIDTH, 4, NODE_TYPES, EDGE_TYPES, 3, EDGE_WIDTH, 4, **options)


DEGREES = torch.tensor([4, 6, 5, 3, 0, 2])
W, A, X0 = ("edge_weight",), ("edge_attr",), ("x_0",)
TYPES = ("node_type", "edge_type", "edge_attr")

CASES: dict[str, tuple[Case, ...]] = {
    "GCNConv": (
        Case(lambda: pyg.GCNConv(WIDTH, 4)),
        Case(lambda: pyg.GCNConv(-1, 4, improved=True, bias=False), W),
        Case(lambda: pyg.GCNConv(WIDTH, 4, normalize=False, flow="target_to_source"), W),
    ),
    "SAGEConv": (
        Case(lambda: pyg.SAGEConv(WIDTH, 4)),
        Case(lambda: pyg.SAGEConv(WIDTH, 4, ["max", "std", "softmax"], normalize=True)),
        Case(lambda: pyg.SAGEConv(WIDTH, 4, "sum", root_weight=False, project=True)),
    ),
    "GINConv": (
        Case(lambda: pyg.GINConv(mlp(WIDTH, 8, 4))),
        Case(lambda: pyg.GINConv(mlp(WIDTH, 8, 4), eps=0.5, train_eps=True)),
        Case(lambda: pyg.GINConv(nn.Linear(WIDTH, 3), aggr="max")),
    ),
    "GINEConv": (
        Case(lambda: pyg.GINEConv(nn.Linear(WIDTH, 4), 0.5, edge_dim=EDGE_WIDTH), A),
        Case(lambda: pyg.GINEConv(mlp(WIDTH, 8, 4), edge_dim=EDGE_WIDTH), A),
        Case(lambda: pyg.GINEConv(mlp(WIDTH, 8, 4), train_eps=True, edge_dim=EDGE_WIDTH), A),
    ),
    "GraphConv": (
        Case(lambda: pyg.GraphConv(WIDTH, 4)),
        Case(lambda: pyg.GraphConv(WIDTH, 4, aggr="mean", bias=False), W),
        Case(lambda: pyg.GraphConv(WIDTH, 4, aggr="max"), W),
    ),
    "GATConv": (
        Case(lambda: pyg.GATConv(WIDTH, 4, heads=3)),
        Case(lambda: pyg.GATConv(WIDTH, 4, 2, concat=False, residual=True, edge_dim=EDGE_WIDTH), A),
        Case(lambda: pyg.GATConv(WIDTH, 4, aggr="max", add_self_loops=False, bias=False)),
    ),
    "GATv2Conv": (
        Case(lambda: pyg.GATv2Conv(WIDTH, 4, heads=3)),
        Case(lambda: pyg.GATv2Conv(WIDTH, 4, 2, share_weights=True, edge_dim=EDGE_WIDTH), A),
        Case(lambda: pyg.GATv2Conv(WIDTH, 4, 2, concat=False, add_self_loops=False, residual=True)),
    ),
    "TransformerConv": (
        Case(lambda: pyg.TransformerConv(WIDTH, 4, heads=2)),
        Case(lambda: pyg.TransformerConv(WIDTH, 4, 2, beta=True, edge_dim=EDGE_WIDTH), A),
        Case(lambda: pyg.TransformerConv(WIDTH, 4, 3, concat=False, root_weight=False)),
    ),
    "SGConv": (
        Case(lambda: pyg.SGConv(WIDTH, 4)),
        Case(lambda: pyg.SGConv(WIDTH, 4, K=3, bias=False)),
        Case(lambda: pyg.SGConv(WIDTH, 4, K=2, add_self_loops=False), W),
    ),
    "SSGConv": (
        Case(lambda: pyg.SSGConv(WIDTH, 4, alpha=0.1)),
        Case(lambda: pyg.SSGConv(WIDTH, 4, alpha=0.3, K=3)),
        Case(lambda: pyg.SSGConv(WIDTH, 4, alpha=0.0, K=2, bias=False), W),
    ),
    "TAGConv": (
        Case(lambda: pyg.TAGConv(WIDTH, 4)),
        Case(lambda: pyg.TAGConv(WIDTH, 4, K=1, normalize=False), W),
        Case(lambda: pyg.TAGConv(WIDTH, 4, K=2, bias=False), W),
    ),
    "APPNP": (
        Case(lambda: pyg.APPNP(K=3, alpha=0.1)),
        Case(lambda: pyg.APPNP(K=2, alpha=0.5, add_self_loops=False), W),
        Case(lambda: pyg.APPNP(K=2, alpha=0.1, normalize=False), W),
    ),
    "GCN2Conv": (
        Case(lambda: pyg.GCN2Conv(WIDTH, alpha=0.1), X0),
        Case(lambda: pyg.GCN2Conv(WIDTH, 0.1, theta=0.5, layer=2), X0),
        Case(lambda: pyg.GCN2Conv(WIDTH, 0.1, 0.5, 3, shared_weights=False), X0 + W),
    ),
    "ChebConv": (
        Case(lambda: pyg.ChebConv(WIDTH, 4, K=3)),
        Case(lambda: pyg.ChebConv(WIDTH, 4, K=2, normalization=None)),
        Case(lambda: pyg.ChebConv(WIDTH, 4, K=4, normalization="rw", bias=False), W),
    ),
    "ARMAConv": (
        Case(lambda: pyg.ARMAConv(WIDTH, 4)),
        Case(lambda: pyg.ARMAConv(WIDTH, 4, num_stacks=3, num_layers=2), W),
        Case(lambda: pyg.ARMAConv(WIDTH, 4, 2, 3, shared_weights=True, act=nn.Tanh())),
    ),
    "LEConv": (
        Case(lambda: pyg.LEConv(WIDTH, 4)),
        Case(lambda: pyg.LEConv(WIDTH, 4, bias=False), W),
        Case(lambda: pyg.LEConv(WIDTH, 1), W),
    ),
    "ClusterGCNConv": (
        Case(lambda: pyg.ClusterGCNConv(WIDTH, 4)),
        Case(lambda: pyg.ClusterGCNConv(WIDTH, 4, diag_lambda=0.5)),
        Case(lambda: pyg.ClusterGCNConv(WIDTH, 4, diag_lambda=1.0, bias=False)),
    ),
    "ResGatedGraphConv": (
        Case(lambda: pyg.ResGatedGraphConv(WIDTH, 4)),
        Case(lambda: pyg.ResGatedGraphConv(WIDTH, 4, edge_dim=EDGE_WIDTH), A),
        Case(lambda: pyg.ResGatedGraphConv(WIDTH, 4, act=nn.Tanh(), root_weight=False)),
    ),
    "FiLMConv": (
        Case(lambda: pyg.FiLMConv(WIDTH, 4)),
        Case(lambda: pyg.FiLMConv(WIDTH, 4, act=None, aggr="add")),
        Case(lambda: pyg.FiLMConv(WIDTH, 4, nn=nn.Linear(WIDTH, 8))),
    ),
    "PNAConv": (
        Case(lambda: pyg.PNAConv(WIDTH, 4, ["mean", "max", "std"], ["identity"], DEGREES)),
        Case(
            lambda: pyg.PNAConv(
                WIDTH, 4, ["min", "var", "sum"], ["amplification", "attenuation"], DEGREES, towers=2
            )
        ),
        Case(
            lambda: pyg.PNAConv(
                WIDTH,
                4,
                ["mean"],
                ["linear", "inverse_linear"],
                DEGREES,
                EDGE_WIDTH,
                2,
                2,
                2,
                divide_input=True,
            ),
            A,
        ),
    ),
    "EdgeConv": (
        Case(lambda: pyg.EdgeConv(nn.Linear(2 * WIDTH, 4))),
        Case(lambda: pyg.EdgeConv(mlp(2 * WIDTH, 8, 4), aggr="mean")),
        Case(lambda: pyg.EdgeConv(mlp(2 * WIDTH, 8, 4), aggr="add")),
    ),
    "GENConv": (
        Case(lambda: pyg.GENConv(WIDTH, 4)),
        Case(lambda: pyg.GENConv(WIDTH, 4, "powermean", p=2.0, learn_p=True)),
        Case(
            lambda: pyg.GENConv(WIDTH, 4, "max", msg_norm=True, norm="layer", edge_dim=EDGE_WIDTH),
            A,
        ),
    ),
    "AGNNConv": (
        Case(lambda: pyg.AGNNConv()),
        Case(lambda: pyg.AGNNConv(requires_grad=False)),
        Case(lambda: pyg.AGNNConv(add_self_loops=False)),
    ),
    "SimpleConv": (
        Case(lambda: pyg.SimpleConv()),
        Case(lambda: pyg.SimpleConv("mean", combine_root="self_loop"), W),
        Case(lambda: pyg.SimpleConv("max", combine_root="cat")),
    ),
    "LGConv": (
        Case(lambda: pyg.LGConv()),
        Case(lambda: pyg.LGConv(normalize=False)),
        Case(lambda: pyg.LGConv(), W),
    ),
    "FAConv": (
        Case(lambda: pyg.FAConv(WIDTH), X0),
        Case(lambda: pyg.FAConv(WIDTH, eps=0.4, add_self_loops=False), X0),
        Case(lambda: pyg.FAConv(WIDTH, normalize=False), X0 + W),
    ),
    "SuperGATConv": (
        Case(lambda: pyg.SuperGATConv(WIDTH, 4, heads=2)),
        Case(lambda: pyg.SuperGATConv(WIDTH, 4, 2, concat=False, attention_type="SD")),
        Case(lambda: pyg.SuperGATConv(WIDTH, 4, add_self_loops=False, bias=False)),
    ),
    "CGConv": (
        Case(lambda: pyg.CGConv(WIDTH)),
        Case(lambda: pyg.CGConv(WIDTH, EDGE_WIDTH, batch_norm=True), A),
        Case(lambda: pyg.CGConv(WIDTH, EDGE_WIDTH, aggr="max"), A),
    ),
    "NNConv": (
        Case(lambda: pyg.NNConv(WIDTH, 4, nn.Linear(EDGE_WIDTH, WIDTH * 4)), A),
        Case(lambda: pyg.NNConv(WIDTH, 4, nn.Linear(EDGE_WIDTH, WIDTH * 4), "mean"), A),
        Case(lambda: pyg.NNConv(WIDTH, 4, mlp(EDGE_WIDTH, 8, WIDTH * 4), root_weight=False), A),
    ),
    "GMMConv": (
        Case(lambda: pyg.GMMConv(WIDTH, 4, EDGE_WIDTH, kernel_size=2), A),
        Case(lambda: pyg.GMMConv(WIDTH, 4, EDGE_WIDTH, 3, separate_gaussians=True), A),
        Case(lambda: pyg.GMMConv(WIDTH, 4, EDGE_WIDTH, 1, aggr="max", bias=False), A),
    ),
    "FeaStConv": (
        Case(lambda: pyg.FeaStConv(WIDTH, 4)),
        Case(lambda: pyg.FeaStConv(WIDTH, 4, heads=3)),
        Case(lambda: pyg.FeaStConv(WIDTH, 4, heads=2, add_self_loops=False, bias=False)),
    ),
    "GeneralConv": (
        Case(lambda: pyg.GeneralConv(WIDTH, 4)),
        Case(lambda: pyg.GeneralConv(WIDTH, 4, EDGE_WIDTH, attention=True, heads=2), A),
        Case(
            lambda: pyg.GeneralConv(
                WIDTH, 4, attention=True, attention_type="dot_product", l2_normalize=True
            )
        ),
    ),
    "EGConv": (
        Case(lambda: pyg.EGConv(WIDTH, 4, num_heads=2)),
        Case(lambda: pyg.EGConv(WIDTH, 4, ["sum", "max", "std"], 2, num_bases=3)),
        Case(lambda: pyg.EGConv(WIDTH, 4, ["mean", "symnorm"], 1, 2, bias=False)),
    ),
    "PointTransformerConv": (
        Case(lambda: pyg.PointTransformerConv(WIDTH, 4, nn.Linear(WIDTH, 4)), ("pos",)),
        Case(lambda: pyg.PointTransformerConv(WIDTH, 4, mlp(WIDTH, 8, 4)), ("pos",)),
        Case(
            lambda: pyg.PointTransformerConv(
                WIDTH, 4, nn.Linear(WIDTH, 4), nn.Linear(4, 4), add_self_loops=False
            ),
            ("pos",),
        ),
    ),
    "AntiSymmetricConv": (
        Case(lambda: pyg.AntiSymmetricConv(WIDTH)),
        Case(lambda: pyg.AntiSymmetricConv(WIDTH, num_iters=2, act="relu")),
        Case(lambda: pyg.AntiSymmetricConv(WIDTH, pyg.GraphConv(WIDTH, WIDTH), bias=False)),
    ),
    "MixHopConv": (
        Case(lambda: pyg.MixHopConv(WIDTH, 4)),
        Case(lambda: pyg.MixHopConv(WIDTH, 4, powers=[0, 2])),
        Case(lambda: pyg.MixHopConv(WIDTH, 4, powers=[1], add_self_loops=False, bias=False), W),
    ),
    "DirGNNConv": (
        Case(lambda: pyg.DirGNNConv(pyg.SAGEConv(WIDTH, 4))),
        Case(lambda: pyg.DirGNNConv(pyg.GraphConv(WIDTH, 4), alpha=0.2, root_weight=False)),
        Case(lambda: pyg.DirGNNConv(pyg.GATConv(WIDTH, 4, add_self_loops=False))),
    ),
    "GatedGraphConv": (
        Case(lambda: pyg.GatedGraphConv(WIDTH, num_layers=1)),
        Case(lambda: pyg.GatedGraphConv(WIDTH + 2, num_layers=2), W),
        Case(lambda: pyg.GatedGraphConv(WIDTH, num_layers=2, aggr="max", bias=False)),
    ),
    "PDNConv": (
        Case(
            lambda: pyg.PDNConv(WIDTH, 4, EDGE_WIDTH, 3, add_self_loops=False, normalize=False), A
        ),
        Case(lambda: pyg.PDNConv(WIDTH, 4, EDGE_WIDTH, 3, add_self_loops=False, bias=False), A),
        Case(lambda: pyg.PDNConv(WIDTH, 4, EDGE_WIDTH, 3), A),
    ),
    "PointNetConv": (
        Case(lambda: pyg.PointNetConv(nn.Linear(2 * WIDTH, 4)), ("pos",)),
        Case(lambda: pyg.PointNetConv(mlp(2 * WIDTH, 8, 4), nn.Linear(4, 3)), ("pos",)),
        Case(lambda: pyg.PointNetConv(nn.Linear(2 * WIDTH, 4), add_self_loops=False), ("pos",)),
    ),
    "PointGNNConv": (
        Case(
            lambda: pyg.PointGNNConv(
                nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, 4), nn.Linear(4, WIDTH)
            ),
            ("pos",),
        ),
    ),
    "HEATConv": (
        Case(lambda: heat(heads=2), TYPES),
        Case(lambda: heat(heads=3, concat=False), TYPES),
        Case(lambda: heat(root_weight=False, bias=False), TYPES),
    ),
    "MFConv": (
        Case(lambda: pyg.MFConv(WIDTH, 4)),
        Case(lambda: pyg.MFConv(WIDTH, 4, max_degree=6, bias=False)),
        Case(lambda: pyg.MFConv(WIDTH, 4, max_degree=8, aggr="max")),
    ),
    "WLConvContinuous": (
        Case(lambda: pyg.WLConvContinuous()),
        Case(lambda: pyg.WLConvContinuous(), W),
    ),
}

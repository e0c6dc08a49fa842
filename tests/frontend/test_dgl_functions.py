"""`hetune.dgl.message_passing`: Graphiler's programs, and functions that are none."""

from __future__ import annotations

import os
import warnings

import pytest
import torch
from torch import nn

import hetune.dgl
from hetune.variants.runtime.fallback import FallbackWarning

os.environ.setdefault("DGLBACKEND", "pytorch")
dgl = pytest.importorskip("dgl")
fn = pytest.importorskip("dgl.function")

NODES, EDGES, WIDTH, TYPES = 40, 200, 6, 4
RANDOM = torch.Generator().manual_seed(0)
WEIGHT = torch.randn(TYPES, WIDTH, 5, generator=RANDOM)


def graph():
    """Some nodes have no incoming edges; two fields are read by nobody."""
    ends = torch.randint(NODES - 4, (2, EDGES), generator=RANDOM)
    g = dgl.graph(tuple(ends), num_nodes=NODES)
    g.ndata["h"] = torch.randn(NODES, WIDTH, generator=RANDOM)
    g.ndata["norm"] = g.out_degrees().clamp(min=1).pow(-0.5).unsqueeze(1)
    g.ndata["label"] = torch.arange(NODES)
    g.edata["_TYPE"] = torch.randint(TYPES, (EDGES,), generator=RANDOM)
    g.edata["norm"] = torch.rand(EDGES, 1, generator=RANDOM)
    g.edata["unused"] = torch.rand(EDGES, 3, dtype=torch.float64, generator=RANDOM)
    return g


class Attention(nn.Module):
    """Graphiler's GAT: one head."""

    def __init__(self):
        super().__init__()
        self.fc, self.attn = nn.Linear(WIDTH, 5, bias=False), nn.Linear(10, 1, bias=False)

    def message(self, edges):
        z_src, z_dst = self.fc(edges.src["h"]), self.fc(edges.dst["h"])
        a = self.attn(torch.cat([z_src, z_dst], dim=1))
        return {"z": z_src, "e": torch.relu(a)}

    def reduce(self, nodes):
        alpha = torch.softmax(nodes.mailbox["e"], dim=1)
        return {"h": torch.sum(alpha * nodes.mailbox["z"], dim=1)}


class Transformer(nn.Module):
    """Graphiler's HGT, but for types of nodes: keys and values by relation, a gated update."""

    def __init__(self):
        super().__init__()
        self.att, self.val = (nn.Parameter(torch.randn(TYPES, WIDTH, WIDTH)) for _ in range(2))
        self.out, self.skip = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.ones(1))

    def message(self, edges):
        rows, kinds = edges.src["h"].unsqueeze(1), edges.data["_TYPE"]
        key = torch.bmm(rows, self.att[kinds]).squeeze(1)
        score = (key * edges.dst["h"]).sum(-1, keepdim=True) / WIDTH**0.5
        return {"v": torch.bmm(rows, self.val[kinds]).squeeze(1), "t": score}

    def reduce(self, nodes):
        share = torch.softmax(nodes.mailbox["t"], dim=1)
        return {"t": torch.sum(share * nodes.mailbox["v"], 1)}

    def update(self, nodes):
        return {"h": torch.sigmoid(self.skip) * self.out(nodes.data["t"])}


def gcn_message(edges):
    return {"m": edges.src["h"] * edges.src["norm"]}


def gcn_reduce(nodes):
    return {"h": nodes.mailbox["m"].sum(dim=1)}


def rgcn_message(edges):
    rows = torch.bmm(edges.src["h"].unsqueeze(1), WEIGHT[edges.data["_TYPE"]]).squeeze()
    return {"m": rows * edges.data["norm"]}


def spread_reduce(nodes):
    largest, _ = nodes.mailbox["m"].max(dim=1)
    return {"h": largest - nodes.mailbox["m"].mean(1) + nodes.data["h"]}


def hinge_reduce(nodes):
    """C-GAT's: pairs of messages."""
    e = nodes.mailbox["m"]
    return {"h": torch.relu(e.unsqueeze(1) - e.unsqueeze(2)).sum(1).sum(1)}


def of_module(kind, *names):
    torch.manual_seed(0)
    module = kind()
    return tuple(getattr(module, name) for name in names)


PROGRAMS = {
    "gcn": lambda: (gcn_message, gcn_reduce),
    "gcn_builtin": lambda: (gcn_message, fn.mean("m", "mean")),
    "gat": lambda: of_module(Attention, "message", "reduce"),
    "rgcn": lambda: (rgcn_message, fn.sum("m", "h")),
    "hgt": lambda: of_module(Transformer, "message", "reduce", "update"),
    "spread": lambda: (fn.copy_u("h", "m"), spread_reduce),
}


def expected(g, functions):
    """What DGL sets, in float64 as far as its own functions allow."""
    with g.local_scope():
        g.update_all(*functions)
        return dict(g.ndata.items())


@pytest.mark.parametrize("name", PROGRAMS)
@torch.no_grad()
def test_functions_set_what_dgl_sets(name):
    functions = PROGRAMS[name]()
    send = hetune.dgl.message_passing(*functions)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for _ in range(2):
            g = graph()
            wanted = expected(g, functions)
            send(g)
            assert g.ndata.keys() == wanted.keys()
            for field, rows in wanted.items():
                assert torch.allclose(g.ndata[field], rows, atol=1e-5), field


@torch.no_grad()
def test_pairs_of_messages_run_in_dgl():
    g, functions = graph(), (fn.copy_u("h", "m"), hinge_reduce)
    wanted = expected(g, functions)["h"]
    with pytest.warns(FallbackWarning, match="unsqueeze of all messages of a node"):
        hetune.dgl.message_passing(*functions)(g)
    assert torch.equal(g.ndata["h"], wanted)


@torch.no_grad()
def test_numbers_around_functions_count():
    factor = 2.0

    def message(edges):
        return {"m": edges.src["h"] * factor}

    send, g = hetune.dgl.message_passing(message, fn.sum("m", "out")), graph()
    send(g)
    before = g.ndata["out"]
    factor = 3.0
    send(g)
    assert torch.allclose(g.ndata["out"], before * 1.5, atol=1e-5)

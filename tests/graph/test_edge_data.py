"""Values that edges have by name, which follow them."""

import os
import pickle

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import (
    HeteroGraph,
    from_dgl,
    from_networkx,
    from_pyg,
    from_scipy,
    to_dgl,
    to_networkx,
    to_pyg,
)


def graph() -> HeteroGraph:
    return HeteroGraph(
        torch.tensor([0, 1, 2]),
        torch.tensor([1, 2, 0]),
        torch.tensor([0, 1, 0]),
        torch.tensor([0, 0, 1]),
        edge_data={"weight": torch.tensor([0.5, 1.5, 2.5]), "time": torch.tensor([7, 8, 9])},
    )


def weights(g: HeteroGraph) -> list[float]:
    return g.edge_data["weight"].tolist()


def test_values_follow_the_edges():
    g = graph()
    assert weights(g.canonicalize()) == weights(g.unindexed()) == [0.5, 1.5, 2.5]
    assert weights(g.add_inverse()) == [0.5, 1.5, 2.5] * 2
    assert g.add_inverse().edge_data["time"].tolist() == [7, 8, 9] * 2
    assert dict(g.add_self_loops().edge_data) == {}
    again = pickle.loads(pickle.dumps(g))
    assert weights(again) == weights(g)
    assert g.to("meta").edge_data["weight"].device.type == "meta"


def test_values_are_no_part_of_what_a_graph_is():
    g = graph()
    bare = HeteroGraph(g.src, g.dst, g.etype, g.ntype)
    assert bare.fingerprint == g.fingerprint
    assert dict(bare.edge_data) == {}
    with pytest.raises(TypeError):
        g.edge_data["x"] = torch.zeros(3)  # type: ignore[index]


@pytest.mark.parametrize("values", [torch.zeros(2), torch.tensor(1.0), np.zeros(3)])
def test_values_have_a_row_for_each_edge(values: object):
    g = graph()
    with pytest.raises(GraphError, match=r"edge_data\['w'\] is .* but there are 3 edges"):
        HeteroGraph(g.src, g.dst, edge_data={"w": values})


@pytest.mark.parametrize("kind", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("form", ["array", "matrix"])
def test_every_sparse_form_of_scipy(kind: str, form: str):
    make = getattr(scipy.sparse, f"{kind}_{form}")
    for dense in (np.eye(3), np.zeros((3, 3)), np.ones((2, 3))):
        g = from_scipy(make(dense))
        assert g.num_edges == np.count_nonzero(dense)
        assert from_scipy({"a": make(dense)}).etype_names == ("a",)


def in_order(g: HeteroGraph) -> list[tuple[object, ...]]:
    """Each edge with its values, grouped by type."""
    order = torch.argsort(g.etype, stable=True)
    columns = (g.src, g.dst, g.etype, *g.edge_data.values())
    return list(zip(*(column[order].tolist() for column in columns), strict=True))


def assert_kept(back: HeteroGraph, g: HeteroGraph) -> None:
    assert in_order(back) == in_order(g)
    dtypes = [{name: v.dtype for name, v in graph.edge_data.items()} for graph in (back, g)]
    assert dtypes[0] == dtypes[1]


def test_values_go_to_pyg_and_back():
    g = graph().canonicalize()
    data = to_pyg(g)
    relation = g.canonical_etypes[int(g.etype[1])]
    assert data[relation].weight.tolist() == [1.5]
    assert_kept(from_pyg(data), g)
    assert_kept(from_pyg(to_pyg(g, homogeneous=True)), g)
    del data[relation].time
    assert list(from_pyg(data).edge_data) == ["weight"]
    bare = HeteroGraph(g.src, g.dst, edge_data={"edge_index": torch.zeros(3)})
    with pytest.raises(GraphError, match="'edge_index', which PyG keeps for itself: rename it"):
        to_pyg(bare)


def test_values_go_to_networkx_and_back():
    g = graph()
    made = to_networkx(g)
    assert made.edges[1, 2, 1]["weight"] == 1.5
    assert_kept(from_networkx(made), g)
    assert weights(from_networkx(networkx.Graph(made))) == [0.5, 0.5, 2.5, 2.5, 1.5, 1.5]
    made.edges[0, 1, 0]["weight"] = "heavy"
    del made.edges[1, 2, 1]["time"]
    assert dict(from_networkx(made).edge_data) == {}
    with pytest.raises(GraphError, match="'etype', which the converter keeps for itself"):
        to_networkx(HeteroGraph(g.src, g.dst, edge_data={"etype": torch.zeros(3)}))


@pytest.mark.dgl
@pytest.mark.filterwarnings("ignore")
def test_values_go_to_dgl_and_back():
    os.environ.setdefault("DGLBACKEND", "pytorch")
    pytest.importorskip("dgl")
    g = graph().canonicalize()
    made = to_dgl(g)
    assert made.edges[g.canonical_etypes[int(g.etype[1])]].data["weight"].tolist() == [1.5]
    assert_kept(from_dgl(made), g)


def test_names_of_nodes_and_edge_data_cannot_be_replaced():
    ends = torch.tensor([0]), torch.tensor([1])
    g = HeteroGraph(*ends, node_names={"node": ["a", "b"]}, edge_data={"weight": torch.ones(1)})
    for kept, value in ((g.node_names, ("c", "d")), (g.edge_data, torch.zeros(1))):
        with pytest.raises(TypeError, match="does not support item assignment"):
            kept["node"] = value
    assert pickle.loads(pickle.dumps(g)).node_names == {"node": ("a", "b")}

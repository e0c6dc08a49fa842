"""Values that edges have by name, which follow them."""

import pickle

import numpy as np
import pytest
import scipy.sparse
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import HeteroGraph, from_scipy


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

"""Conversions keep every node, edge and type, in both directions."""

import os
import warnings

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import (
    HeteroGraph,
    from_dgl,
    from_edge_index_dict,
    from_networkx,
    from_pyg,
    from_scipy,
    index_native,
    to_dgl,
    to_edge_index_dict,
    to_networkx,
    to_pyg,
    to_scipy,
)
from hetune.variants.graph.convert import edge_index_dict

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch_geometric calls deprecated parts of torch
    from torch_geometric.data import Data, HeteroData

WRITES = ("author", "writes", "paper")
CITES = ("paper", "cites", "paper")
REVIEWS = ("author", "reviews", "paper")


def pairs(*edges: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()


def citations() -> dict[tuple[str, str, str], torch.Tensor]:
    return {CITES: pairs((0, 1), (2, 0)), WRITES: pairs((1, 2), (0, 0), (1, 0))}


def edges_of(graph: HeteroGraph) -> list[tuple[int, int, int]]:
    columns = (graph.src, graph.dst, graph.etype)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def same(a: HeteroGraph, b: HeteroGraph) -> bool:
    return a.fingerprint == b.fingerprint


def test_edge_index_dict_is_type_major():
    g = from_edge_index_dict(citations())
    assert g.ntype_names == ("paper", "author")
    assert g.canonical_etypes == (CITES, WRITES)
    assert g.etype_names == ("cites", "writes")
    assert g.node_offsets == (0, 3, 5)
    assert edges_of(g) == [(0, 1, 0), (2, 0, 0), (4, 2, 1), (3, 0, 1), (4, 0, 1)]
    g.validate()


def test_metadata_sets_order_and_adds_empty_types():
    metadata = (["author", "paper", "venue"], [WRITES, REVIEWS, CITES])
    g = from_edge_index_dict(citations(), {"venue": 2, "author": 4}, metadata=metadata)
    assert g.metadata() == metadata
    assert g.node_offsets == (0, 4, 7, 9)
    assert edges_of(g) == [(1, 6, 0), (0, 4, 0), (1, 4, 0), (4, 5, 2), (6, 4, 2)]
    g.validate()


def test_counts_come_from_features():
    x_dict = {"author": torch.zeros(7, 2), "paper": torch.zeros(3, 4)}
    g = from_edge_index_dict(citations(), x_dict=x_dict)
    assert g.ntype_names == ("author", "paper")
    assert g.node_offsets == (0, 7, 10)


def test_one_relation_name_between_several_types():
    key = ("author", "cites", "paper")
    g = from_edge_index_dict({CITES: pairs((0, 0)), key: pairs((0, 0))})
    assert g.etype_names == ("paper|cites|paper", "author|cites|paper")
    assert g.canonical_etypes == (CITES, key)


def test_edge_index_dict_round_trip():
    back = to_edge_index_dict(from_edge_index_dict(citations()))
    assert list(back) == [CITES, WRITES]
    for key, edge_index in citations().items():
        assert torch.equal(back[key], edge_index)


def test_empty_dictionaries():
    g = from_edge_index_dict({}, {"a": 2, "b": 1})
    assert (g.num_nodes, g.num_edges, g.ntype_names) == (3, 0, ("a", "b"))
    empty = from_edge_index_dict({WRITES: pairs()})
    assert (empty.num_nodes, empty.num_edges, empty.num_etypes) == (0, 0, 1)
    assert to_edge_index_dict(empty)[WRITES].shape == (2, 0)
    assert to_edge_index_dict(g) == {}


@pytest.mark.parametrize(
    ("edge_index_dict", "options", "message"),
    [
        ({"cites": pairs((0, 0))}, {}, "key 'cites': keys are"),
        ({CITES: torch.zeros(4, 2, dtype=torch.int64)}, {}, r"shape \[4, 2\].*\.t\(\)"),
        ({CITES: np.zeros((2, 1))}, {}, "is a ndarray: give an int64 tensor"),
        ({CITES: torch.zeros(2, 1)}, {}, "dtype torch.float32"),
        ({CITES: pairs((0, 5))}, {"num_nodes_dict": {"paper": 3}}, r"\)\]\[1\]\[0\] is 5.*3 paper"),
        ({CITES: pairs((-1, 0))}, {}, r"\[0\]\[0\] is -1"),
        ({CITES: pairs((0, 0))}, {"num_nodes_dict": {"paper": -2}}, "is -2: give a count"),
        ({CITES: pairs((0, 3 << 30))}, {}, "3221225473 paper nodes, .* give num_nodes_dict"),
        ({CITES: pairs((0, 0))}, {"num_nodes_dict": {"paper": 1 << 40}}, "number of nodes is 1099"),
        ({CITES: pairs((0, 0))}, {"metadata": (["paper"], [])}, "which metadata lacks"),
        ({CITES: torch.stack([torch.zeros(1).long()] * 2), WRITES: "x"}, {}, "is a str"),
    ],
)
def test_edge_index_dict_refuses(edge_index_dict, options, message):
    with pytest.raises(GraphError, match=message):
        from_edge_index_dict(edge_index_dict, **options)


def test_pyg_hetero_round_trip():
    data = HeteroData()
    data["paper"].x = torch.zeros(3, 8)
    data["author"].num_nodes = 6
    for key, edge_index in citations().items():
        data[key].edge_index = edge_index
    g = from_pyg(data)
    assert g.metadata() == data.metadata()
    assert g.node_offsets == (0, 3, 9)
    back = to_pyg(g)
    assert back.validate(raise_on_error=True)
    assert back.metadata() == data.metadata()
    assert [back[t].num_nodes for t in back.node_types] == [3, 6]
    assert all(torch.equal(back[key].edge_index, citations()[key]) for key in citations())
    assert same(from_pyg(back), g)


def test_pyg_hetero_infers_missing_counts():
    data = HeteroData()
    data[CITES].edge_index = pairs((0, 4))
    assert from_pyg(data).num_nodes == 5


def test_pyg_data_round_trip():
    data = Data(edge_index=pairs((0, 2), (1, 0)), edge_type=torch.tensor([1, 0]), num_nodes=4)
    g = from_pyg(data)
    assert edges_of(g) == [(0, 2, 1), (1, 0, 0)]
    assert (g.num_nodes, g.num_etypes, g.num_ntypes) == (4, 2, 1)
    assert same(from_pyg(to_pyg(g, homogeneous=True)), g)
    assert from_pyg(Data(edge_index=pairs((0, 2)))).num_nodes == 3


def test_pyg_data_without_edges_is_explained():
    with pytest.raises(GraphError, match="without edge_index"):
        from_pyg(Data(x=torch.zeros(2, 2)))
    data = HeteroData()
    data[CITES].edge_attr = torch.zeros(1)
    with pytest.raises(GraphError, match=r"no edge_index but \['edge_attr'\]"):
        from_pyg(data)
    with pytest.raises(GraphError, match=r"shape \[1, 2\]"):
        from_pyg(Data(edge_index=torch.zeros(1, 2, dtype=torch.int64)))


def test_scipy_entries_are_edges():
    matrix = scipy.sparse.coo_array(([1.0, 0.0], ([0, 2], [1, 2])), shape=(4, 4))
    g = from_scipy(matrix)
    assert (g.num_nodes, edges_of(g)) == (4, [(0, 1, 0), (2, 2, 0)])
    back = to_scipy(g)
    assert back.shape == (4, 4)
    assert back.toarray()[0, 1] == 1
    assert from_scipy(scipy.sparse.csc_matrix(matrix)).num_edges == 2


def test_scipy_relations_and_bipartite():
    g = from_scipy({"a": scipy.sparse.eye_array(3), "b": scipy.sparse.coo_array((3, 3))})
    assert g.etype_names == ("a", "b")
    assert to_scipy(g, "a").nnz == 3
    assert to_scipy(g, 1).nnz == 0
    two = from_scipy(scipy.sparse.coo_array(([1], ([1], [2])), shape=(2, 3)))
    assert two.metadata() == (["row", "col"], [("row", "0", "col")])
    assert edges_of(two) == [(1, 4, 0)]


def test_scipy_refuses():
    with pytest.raises(GraphError, match=r"got a ndarray.*coo_array"):
        from_scipy(np.eye(2))
    eye = scipy.sparse.eye_array
    with pytest.raises(GraphError, match=r"shapes \[\(2, 2\), \(3, 3\)\]"):
        from_scipy({"a": eye(2), "b": eye(3)})
    with pytest.raises(GraphError, match="empty dictionary"):
        from_scipy({})
    with pytest.raises(GraphError, match=r"no edge type 'z': one of \['0'\]"):
        to_scipy(from_scipy(eye(2)), "z")
    with pytest.raises(GraphError, match="no edge type 4"):
        to_scipy(from_scipy(eye(2)), 4)


def test_networkx_round_trip():
    G = networkx.MultiDiGraph()
    for name, ntype in [("p", "paper"), ("a", "author"), ("q", "paper")]:
        G.add_node(name, ntype=ntype)
    G.add_edge("a", "q", etype="writes")
    G.add_edge("a", "q", etype="likes")
    G.add_edge("q", "p", etype="cites")
    g = from_networkx(G)
    assert g.ntype_names == ("paper", "author")
    assert g.etype_names == ("writes", "likes", "cites")
    assert edges_of(g) == [(2, 1, 0), (2, 1, 1), (1, 0, 2)]
    back = from_networkx(to_networkx(g))
    assert back.ntype_names == g.ntype_names
    assert set(back.canonical_etypes) == set(g.canonical_etypes)
    named = [
        sorted((u, v, graph.etype_names[r]) for u, v, r in edges_of(graph)) for graph in (g, back)
    ]
    assert named[0] == named[1]


def test_networkx_undirected_and_untyped():
    g = from_networkx(networkx.Graph([(0, 1), (1, 1)]))
    assert sorted(edges_of(g)) == [(0, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert (g.ntype_names, g.etype_names) == (("node",), ("edge",))
    empty = from_networkx(networkx.DiGraph())
    assert (empty.num_nodes, empty.num_edges) == (0, 0)


def test_networkx_refuses_partly_typed():
    G = networkx.DiGraph([(0, 1)])
    G.nodes[0]["ntype"] = "a"
    with pytest.raises(GraphError, match="node 1 has no attribute 'ntype'"):
        from_networkx(G)
    with pytest.raises(GraphError, match="got a list"):
        from_networkx([(0, 1)])


class FakeDGLGraph:
    """What `from_dgl` reads of a homogeneous DGLGraph."""

    canonical_etypes = (("_N", "_E", "_N"),)
    ntypes = ("_N",)
    ndata: dict[str, torch.Tensor] = {}  # noqa: RUF012
    edata = {"rel_type": torch.tensor([1, 0])}  # noqa: RUF012

    def edges(self, order: str) -> tuple[torch.Tensor, torch.Tensor]:
        assert order == "eid"
        return torch.tensor([0, 1]), torch.tensor([2, 2])

    def num_nodes(self) -> int:
        return 4


def test_dgl_needs_no_dgl_to_read():
    g = from_dgl(FakeDGLGraph(), etype_names=["a", "b"])
    assert (g.num_nodes, edges_of(g)) == (4, [(0, 2, 1), (1, 2, 0)])
    with pytest.raises(GraphError, match=r"g\.edata has no field 'kind' but \['rel_type'\]"):
        from_dgl(FakeDGLGraph(), etype="kind")
    with pytest.raises(GraphError, match="got a list"):
        from_dgl([])


@pytest.mark.dgl
@pytest.mark.filterwarnings("ignore")
def test_dgl_names_of_a_single_type_are_kept():
    os.environ.setdefault("DGLBACKEND", "pytorch")
    dgl = pytest.importorskip("dgl")
    ends = torch.tensor([0, 1]), torch.tensor([1, 2])
    follows = ("user", "follows", "user")
    g = from_dgl(dgl.heterograph({follows: ends}, num_nodes_dict={"user": 4}))
    assert (g.ntype_names, g.etype_names, g.canonical_etypes) == (
        ("user",),
        ("follows",),
        (follows,),
    )
    assert (g.num_nodes, edges_of(g)) == (4, [(0, 1, 0), (1, 2, 0)])
    assert to_dgl(g).canonical_etypes == [follows]
    with pytest.raises(GraphError, match="types and names of its own: leave etype_names out"):
        from_dgl(to_dgl(g), etype_names=["likes"])
    assert from_dgl(dgl.graph(ends), etype_names=["likes"]).etype_names == ("likes",)


@pytest.mark.dgl
@pytest.mark.filterwarnings("ignore")
def test_dgl_round_trip():
    os.environ.setdefault("DGLBACKEND", "pytorch")
    dgl = pytest.importorskip("dgl")
    g = from_edge_index_dict(citations(), {"paper": 3, "author": 9})
    made = to_dgl(g)
    assert made.num_nodes("author") == 9
    back = from_dgl(made)
    assert back.num_edges == 5
    assert back.metadata() == g.metadata()
    for key, edge_index in to_edge_index_dict(back).items():
        assert torch.equal(edge_index, citations()[key])

    flat = dgl.to_homogeneous(made)
    h = from_dgl(flat, etype_names=made.etypes, ntype_names=made.ntypes, like=back)
    assert h.ntype_names == back.ntype_names
    assert h.canonical_etypes == back.canonical_etypes
    assert sorted(edges_of(h)) == sorted(edges_of(back))


LIKE = HeteroGraph(
    np.array([0, 1, 2]),
    np.array([1, 0, 0]),
    np.array([0, 1, 1]),
    np.array([0, 0, 0, 0, 1]),
    ntype_names=["user", "item"],
)


def test_an_edge_index_dict_goes_there_and_back_like_its_graph():
    back = from_edge_index_dict(to_edge_index_dict(LIKE), like=LIKE)
    assert same(back, LIKE)  # nodes and types without edges, too
    edges = {("user", "0", "user"): pairs((5, 0))}
    assert from_edge_index_dict(edges, like=LIKE).node_offsets == (0, 6, 7)
    given = from_edge_index_dict(to_edge_index_dict(LIKE), {"user": 3}, like=LIKE)
    assert given.node_offsets == (0, 3, 4)


def test_scipy_goes_there_and_back_like_its_graph():
    matrices = {name: to_scipy(LIKE, name) for name in LIKE.etype_names}
    assert same(from_scipy(matrices, like=LIKE), LIKE)
    with pytest.raises(GraphError, match=r"no edge types, .* '0', '1': .*to_scipy\(graph, name"):
        from_scipy(to_scipy(LIKE), like=LIKE)
    with pytest.raises(GraphError, match=r"no node types, .* 'user', 'item': give ntype.* 5 nodes"):
        from_scipy(matrices, vocabulary=LIKE.vocabulary())
    larger = {"0": scipy.sparse.coo_array((6, 6))}
    with pytest.raises(GraphError, match="give ntype, the type of each of the 6 nodes"):
        from_scipy(larger, like=LIKE)
    assert from_scipy(larger, np.array([0, 0, 0, 1, 1, 1]), like=LIKE).node_offsets == (0, 3, 6)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_ids_are_joined_by_one_call_as_type_by_type(dtype):
    draw = torch.Generator().manual_seed(0)
    counts, offsets = {"a": 40, "b": 7}, {"a": 0, "b": 40}
    sizes = {("a", "x", "b"): 9, ("b", "y", "a"): 0, ("b", "z", "b"): 30}
    edges = {
        (source, name, target): tuple(
            torch.randint(0, counts[ntype], (count, 2), generator=draw).to(dtype)[:, 0]
            for ntype in (source, target)
        )
        for (source, name, target), count in sizes.items()
    }
    index_native.own_ids(torch.zeros(1, dtype=dtype), 1)
    found = edge_index_dict._joined_at_once(edges, counts, offsets)
    for ids, expected in zip(found, edge_index_dict._joined(edges, counts, offsets), strict=True):
        assert ids.dtype is torch.int32
        assert ids.tolist() == expected.tolist()
    for wrong in (-1, 7):
        edges["b", "z", "b"][1][3] = wrong
        assert edge_index_dict._joined_at_once(edges, counts, offsets) is None

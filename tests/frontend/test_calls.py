"""Calls of modules: what is read from their arguments, and what runs as it is."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch._subclasses import FakeTensorMode

from hetune.variants.errors import GraphError, InputError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Unsupported
from hetune.variants.frontend.calls import read_call
from hetune.variants.frontend.nn import HGT, RGCN
from hetune.variants.graph import HeteroGraph
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

from .conftest import METADATA, TYPED

geometric = pytest.importorskip("torch_geometric.nn")
EdgeIndex = pytest.importorskip("torch_geometric").EdgeIndex
Index = pytest.importorskip("torch_geometric").Index

X = torch.arange(32.0).view(4, 8)
EDGES = torch.tensor([[0, 1, 2], [3, 3, 0]])
TYPES = torch.tensor([0, 1, 1])
FLAT = [geometric.RGCNConv(8, 4, 2), geometric.RGATConv(8, 4, 2), RGCN(8, 4, 2)]


@pytest.mark.parametrize("module", FLAT, ids=lambda module: type(module).__name__)
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X, EDGES, TYPES), {}),
        ((X, EDGES), {"edge_type": TYPES}),
        ((X, HeteroGraph(*EDGES, TYPES)), {}),
    ],
    ids=["positional", "keyword", "graph"],
)
def test_flat(module, args, kwargs):
    adapter = adapt(module)
    call = read_call(adapter, args, kwargs)
    graph = call.graph()
    assert (graph.num_nodes, graph.num_etypes) == (4, 2)
    assert graph.src.tolist() == [0, 1, 2]
    assert graph.dst.tolist() == [3, 3, 0]
    assert call.inputs(graph)["x"] is X
    out = torch.ones(4, 4)
    assert call.result(graph, (out,)) is out


def test_ids_that_are_wrapped_are_those_within():
    raw, types = EDGES.clone(), TYPES.clone()
    call = read_call(
        adapt(FLAT[0]),
        (X, EdgeIndex(raw, sparse_size=(4, 4)), Index(types, dim_size=2)),
        {},
    )
    assert call.tensors[0] is raw
    assert call.tensors[1] is types
    x_dict, edges = TYPED["relation_without_edges"]
    x_dict = {name: x.float() for name, x in x_dict.items()}
    wrapped = {key: EdgeIndex(value) for key, value in edges.items()}
    call = read_call(adapt(HGT(8, 4, METADATA)), (x_dict, wrapped), {})
    assert set(map(id, call.tensors)) == set(map(id, edges.values()))


def test_tensors_without_memory_are_not_read():
    adapter = adapt(FLAT[0])
    with FakeTensorMode():
        x, edges, types = torch.ones(4, 8), torch.ones(2, 3).long(), torch.ones(3).long()
    for name, args in (
        ("x", (x, EDGES, TYPES)),
        ("x", (x, HeteroGraph(*EDGES, TYPES))),
        ("edge_index", (X, edges, TYPES)),
        ("edge_type", (X, EDGES, types)),
    ):
        reason = f"{name} is a FakeTensor, which has no memory that kernels could read"
        assert read_call(adapter, args, {}) == Unsupported(reason)


def test_reversed_flow_turns_edges_and_graphs_around():
    adapter = adapt(geometric.RGCNConv(8, 4, 2, flow="target_to_source"))
    given = HeteroGraph(*EDGES, TYPES)
    for edges in ((EDGES, TYPES), (given,)):
        graph = read_call(adapter, (X, *edges), {}).graph()
        assert graph.src.tolist() == [3, 3, 0]
        assert graph.dst.tolist() == [0, 1, 2]
    assert graph is read_call(adapter, (X, given), {}).graph()


@pytest.mark.parametrize("make", [HGT, geometric.HGTConv])
def test_hetero(make):
    x_dict, edges = TYPED["relation_without_edges"]
    x_dict = {name: x.float() for name, x in x_dict.items()}
    adapter = adapt(make(8, 4, METADATA))
    call = read_call(adapter, (x_dict, edges), {})
    assert set(map(id, call.tensors)) == set(map(id, edges.values()))
    graph = call.graph()
    assert graph.metadata() == METADATA
    x = call.inputs(graph)["x"]
    again = read_call(adapter, (x_dict, graph), {})
    assert torch.equal(again.inputs(again.graph())["x"], x)
    result = call.result(graph, (x,))
    assert all(torch.equal(result[name], x_dict[name]) for name in METADATA[0])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
def test_sparse_matrices_stand_for_edges():
    random = torch.Generator().manual_seed(0)
    whole, square = (
        torch.rand(count, 30, generator=random).gt(0.8).float().to_sparse() for count in (30, 20)
    )
    types = torch.randint(0, 2, (whole._nnz(),), generator=random)
    rgat, x = geometric.RGATConv(8, 4, 2).eval(), torch.randn(30, 8, generator=random)
    hgt = geometric.HGTConv(8, 8, (["a", "b"], [("a", "to", "b")]), 2).eval()
    by_type = {"a": x, "b": x[:20]}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for layer, *given in (
            (rgat, x, whole, types),
            (rgat, x, whole.to_sparse_csr(), types),
            (hgt, by_type, {("a", "to", "b"): square}),
            (hgt, by_type, {("a", "to", "b"): square.to_sparse_csr()}),
        ):
            compiled = compile_layer(layer, backend="torch")
            for _ in range(2):
                found, expected = compiled(*given), copy.deepcopy(layer)(*given)
                if layer is hgt:
                    found, expected = found["b"], expected["b"]
                torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


SPARSE = torch.eye(4).to_sparse()
RUN_AS_THEY_ARE = [
    (0, (None, EDGES, TYPES), "x is None: only float tensors [N, width] are supported"),
    (0, ((X, X), EDGES, TYPES), "x is a tuple: only float tensors"),
    (0, (torch.arange(4), EDGES, TYPES), "x is a int64 tensor of shape [4]: only float32 tensors"),
    (0, (X.double(), EDGES, TYPES), "x is a float64 tensor of shape [4, 8]: only float32 tensors"),
    (0, (X, SPARSE, TYPES), "edge_index is a sparse float32 tensor of shape [4, 4]: only tensors"),
    (
        0,
        (X, "edges", TYPES),
        "edge_index is a str: only tensors [2, E] of int16, int32 or int64",
    ),
    (0, (X, EDGES), "edge_type is None: only tensors of int16, int32 or int64 are supported"),
    (1, (X, EDGES, TYPES, torch.ones(3)), "the argument edge_attr is not supported"),
    (1, (X, EDGES, TYPES, None, (4, 4)), "the argument size is not supported"),
    (1, (X, EDGES, TYPES, None, None, True), "the argument return_attention_weights is not"),
]


@pytest.mark.parametrize(("module", "args", "reason"), RUN_AS_THEY_ARE, ids=lambda v: str(v)[:30])
def test_unsupported(module, args, reason):
    found = read_call(adapt(FLAT[module].eval()), args, {})
    assert isinstance(found, Unsupported)
    assert found.reason.startswith(reason)


def test_unsupported_dictionaries():
    x_dict, edges = TYPED["random"]
    adapter = adapt(geometric.HGTConv(8, 4, METADATA))
    reasons = [
        read_call(adapter, args, {}).reason
        for args in (
            (x_dict, edges),
            ({"paper": None}, edges),
            (None, edges),
            ({}, {METADATA[1][0]: SPARSE}),
            ({}, SPARSE),
        )
    ]
    assert reasons[0].startswith("x_dict['paper'] is a float64 tensor of shape [7, 8]: only")
    assert reasons[1] == "x_dict['paper'] is None: only tensors are supported"
    assert reasons[2] == "x_dict is None: only dictionaries of tensors are supported"
    assert reasons[3].startswith("edge_index_dict[('author', 'writes', 'paper')] is a sparse")
    assert reasons[4].startswith("edge_index_dict is a sparse float32 tensor of shape [4, 4]: only")


def test_errors_say_what_does_not_fit():
    adapter = adapt(FLAT[0])

    def rows(*args):
        call = read_call(adapter, args, {})
        return call.inputs(call.graph())["x"]

    with pytest.raises(InputError, match="RGCNConv: missing a required argument: 'edge_index'"):
        read_call(adapter, (X,), {})
    with pytest.raises(InputError, match="RGCNConv: got an unexpected keyword argument 'edge'"):
        read_call(adapter, (X, EDGES), {"edge": EDGES})
    with pytest.raises(InputError, match=r"x has the shape \[4, 7\]: give one row of 8 for each"):
        rows(X[:, :7], EDGES, TYPES)
    with pytest.raises(InputError, match="the graph has 3 edge types but the layer was made for 2"):
        rows(X, HeteroGraph(*EDGES, TYPES, num_etypes=3))
    with pytest.raises(GraphError, match=r"edge_index\[1, 0\] is 3, but x has 3 rows"):
        rows(X[:3], EDGES, TYPES)
    with pytest.raises(GraphError, match=r"edge_type\[1\] is 2, but the layer was made for 2"):
        rows(X, EDGES, TYPES + 1)

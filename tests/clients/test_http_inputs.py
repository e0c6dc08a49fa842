"""What clients accept as graphs, features and nodes, and what they say of the rest."""

import json

import numpy as np
import pyarrow as pa
import pytest
import torch

import hetune
from hetune.clients.http import calls
from hetune.clients.http.inputs import edges_of, features_of, graph_of, nodes_of
from hetune.service.core.formats.message import unpack
from hetune.variants.errors import GraphError, InputError, MalformedError
from hetune.variants.graph import from_edge_index_dict, to_dgl, to_pyg

WRITES, READS = ("author", "writes", "paper"), ("author", "reads", "paper")
EDGES = {
    READS: torch.tensor([[0, 2], [1, 0]]),
    WRITES: torch.tensor([[0, 1, 2], [0, 1, 1]]),
}
X = {"author": torch.randn(4, 3), "paper": torch.randn(2, 3)}
GRAPH = from_edge_index_dict(EDGES, x_dict=X)


def hetero_data(x=X):
    pytest.importorskip("torch_geometric")
    data = to_pyg(GRAPH)
    for name, rows in x.items():
        data[name].x = rows
    return data


def data(**fields):
    pyg = pytest.importorskip("torch_geometric.data")
    return pyg.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, **fields)


def dgl_graph():
    pytest.importorskip("dgl")
    return to_dgl(GRAPH)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GRAPH,
        lambda: EDGES,
        lambda: {key: ends.numpy() for key, ends in EDGES.items()},
        hetero_data,
        pytest.param(dgl_graph, marks=pytest.mark.dgl),
    ],
    ids=["HeteroGraph", "edge_index_dict", "arrays", "HeteroData", "DGLGraph"],
)
def test_graphs(make):
    assert graph_of(make(), X).fingerprint == GRAPH.fingerprint


def test_a_table_of_arrow_s_has_an_edge_a_row():
    names = [GRAPH.etype_names[number] for number in GRAPH.etype.tolist()]
    table = pa.table(
        {
            "src": GRAPH.src.numpy(),
            "dst": GRAPH.dst.numpy(),
            "etype": pa.array(names).dictionary_encode(),
        }
    )
    header = {"nodes": {"author": 4, "paper": 2}, "etype_names": GRAPH.etype_names}
    table = table.replace_schema_metadata({"document": json.dumps(header)})
    assert graph_of(table).fingerprint == GRAPH.fingerprint
    assert sent(calls.upload_graph(table)).tensors["src"].tolist() == GRAPH.src.tolist()
    with pytest.raises(MalformedError, match="the column dst is missing"):
        graph_of(table.drop_columns(["dst"]))


def test_graphs_of_one_type():
    given = data(edge_type=torch.tensor([1, 0]))
    expected = hetune.HeteroGraph(*given.edge_index, given.edge_type, num_nodes=3)
    assert graph_of(given).fingerprint == expected.fingerprint


def test_without_features_a_dictionary_has_the_nodes_that_its_edges_name():
    assert graph_of(EDGES).num_nodes == 5
    assert graph_of(EDGES, {name: rows.numpy() for name, rows in X.items()}).num_nodes == 6


def sent(call):
    """The document and tensors that a call sends."""
    return unpack(b"".join(call.pieces()))


def test_all_nodes_of_a_type_are_named_in_the_document():
    message = sent(calls.infer("m", "id", X, nodes={"paper": None, "author": [1]}))
    assert json.loads(message.document)["nodes"] == {"paper": None}
    assert message.tensors["nodes/author"].tolist() == [1]
    assert "nodes/paper" not in message.tensors
    assert "nodes" not in json.loads(sent(calls.infer("m", "id", X, nodes={"paper": [1]})).document)


@pytest.mark.parametrize("given", [X, {name: rows.numpy() for name, rows in X.items()}, None])
def test_a_run_by_types(given):
    graph = hetero_data() if given is None else EDGES
    message = sent(calls.infer("m", graph, given, nodes={"paper": [1, 0]}))
    for name, rows in X.items():
        assert torch.equal(message.tensors[f"x/{name}"], rows)
    assert message.tensors["nodes/paper"].tolist() == [1, 0]
    assert torch.equal(message.tensors["graph/src"], GRAPH.src)
    assert torch.equal(message.tensors["graph/ntype"], GRAPH.ntype)


def test_pyg_graphs_bring_their_features():
    x = torch.randn(3, 2)
    assert features_of(None, data(x=x)) is x
    assert features_of(None, hetero_data()).keys() == X.keys()
    other = torch.randn(3, 5)
    assert features_of(other, data(x=x)) is other


ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        ROWS.astype(">f4"),
        np.ascontiguousarray(ROWS[::-1])[::-1],
        np.asfortranarray(ROWS),
        np.frombuffer(ROWS.tobytes(), np.float32).reshape(3, 2),
        torch.from_numpy(ROWS).requires_grad_(),
    ],
    ids=range(6),
)
def test_rows_of_every_layout(rows):
    message = sent(calls.infer("m", "0" * 32, rows))
    assert torch.equal(message.tensors["x"], torch.from_numpy(ROWS))
    assert message.document == '{"explain": false, "graph": "' + "0" * 32 + '"}'


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (None, None),
        ([2, 0], [2, 0]),
        ((), []),
        (np.array([], dtype=np.float64), []),
        (np.array([2, 0], dtype=">i4"), [2, 0]),
        (torch.tensor([2, 0], dtype=torch.int16), [2, 0]),
    ],
    ids=range(6),
)
def test_nodes(nodes, expected):
    found = nodes_of(nodes)
    assert found is None if expected is None else found.tolist() == expected


@pytest.mark.parametrize(
    ("do", "error", "says"),
    [
        (lambda: graph_of(torch.tensor([[0], [1]])), GraphError, r"a Tensor is no graph: .*"),
        (lambda: graph_of([0, 1]), GraphError, r"hetune\.HeteroGraph\(edge_index\[0\]"),
        (lambda: graph_of({"writes": EDGES[WRITES]}), GraphError, "keys are"),
        (lambda: graph_of({WRITES: [[0], [1]]}), GraphError, "give an int64 tensor"),
        (lambda: graph_of({WRITES: np.zeros((2, 1))}), GraphError, "convert with"),
        (lambda: graph_of({WRITES: np.zeros((2, 1), object)}), InputError, "astype"),
        (lambda: graph_of({WRITES: EDGES[WRITES].t()}), GraphError, "transpose"),
        (lambda: graph_of(EDGES, {"author": X["author"][:1]}), GraphError, "author"),
        (lambda: features_of([[1.0]], GRAPH), InputError, "are a list: give a torch tensor"),
        (lambda: features_of(ROWS.astype(float), GRAPH), InputError, r"astype\(numpy\.float32\)"),
        (lambda: features_of(torch.zeros(3, 2).double(), GRAPH), InputError, r"\.float\(\)"),
        (lambda: features_of({"a": torch.zeros(3).int()}, GRAPH), InputError, "'a' are int32"),
        (lambda: features_of(ROWS[0], GRAPH), InputError, r"\[nodes, width\]"),
        (lambda: features_of(torch.zeros(2, 2).to_sparse(), GRAPH), InputError, "to_dense"),
        (lambda: nodes_of([0, [1]]), InputError, "list of integers"),
        (lambda: nodes_of(["a"]), InputError, "list of integers"),
    ],
    ids=range(16),
)
def test_what_is_wrong_and_how_to_mend_it(do, error, says):
    with pytest.raises(error, match=says):
        do()


def test_an_edge_type_has_its_edges_in_one_place():
    found = edges_of("add", {WRITES: EDGES[WRITES].numpy(), "reads": EDGES[READS]})
    assert torch.equal(found["author|writes|paper"], EDGES[WRITES])
    with pytest.raises(InputError, match="twice: join its edges"):
        edges_of("add", {WRITES: EDGES[WRITES], "author|writes|paper": EDGES[WRITES]})
    with pytest.raises(InputError, match="give a torch tensor or a NumPy array"):
        edges_of("add", {"reads": [[0], [1]]})


def test_features_that_nobody_gives_are_left_to_the_model():
    for graph in (GRAPH, EDGES, data(), hetero_data({}), "0" * 32):
        assert features_of(None, graph) is None

"""Any module with message-passing layers, traced by the client and served as programs."""

import json
import re
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

import hetune
from hetune.clients import Client
from hetune.errors import InputError, TooLargeError
from hetune.service.core.models.describe_traced import describe_traced
from hetune.service.server.app import application
from hetune.variants.graph.convert import from_edge_index_dict

from ._serving import LIMITS, client_of, make_service, serving

pyg = pytest.importorskip("torch_geometric.nn")

WIDTH, CLASSES, RELATIONS, NODES = 6, 3, 4, 30


class Net(nn.Module):
    """A user's net of two layers."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edge_index):
        x = functional.dropout(x, p=0.5, training=self.training)
        x = functional.elu(self.first(x, edge_index))
        return functional.log_softmax(self.second(x, edge_index), dim=1)


class Entities(nn.Module):
    """Relational layers on embeddings, with an input projection, a norm and a residual sum."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(NODES, WIDTH)
        self.first = pyg.RGCNConv(WIDTH, 8, RELATIONS, num_bases=2)
        self.second = pyg.RGATConv(8, 4, RELATIONS, heads=2)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, CLASSES)

    def forward(self, edge_index, edge_type):
        x = self.first(self.table.weight, edge_index, edge_type).relu()
        x = x + self.norm(self.second(x, edge_index, edge_type))
        return self.head(x)


class OnEdges(nn.Module):
    """Edge weights of the caller's."""

    def __init__(self):
        super().__init__()
        self.conv = pyg.GraphConv(WIDTH, CLASSES)

    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index, edge_weight), x.tanh()


def perceptron(width):
    return nn.Sequential(nn.Linear(width, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))


MODELS = {
    "gcn": lambda: Net(pyg.GCNConv(WIDTH, 8), pyg.GCNConv(8, CLASSES, add_self_loops=False)),
    "gat": lambda: Net(pyg.GATConv(WIDTH, 4, heads=2), pyg.GATv2Conv(8, CLASSES)),
    "sage": lambda: pyg.GraphSAGE(WIDTH, 8, 2, CLASSES, norm="batch_norm", jk="cat"),
    "gin": lambda: Net(pyg.GINConv(perceptron(WIDTH)), pyg.GINConv(perceptron(8))),
    "entities": Entities,
}


def graph(relations):
    random = torch.Generator().manual_seed(0)
    ends = torch.randint(0, NODES - 2, (2, 120), generator=random)
    ends[:, :3] = ends[0, :3]
    types = torch.randint(0, relations, (120,), generator=random)
    return hetune.HeteroGraph(*ends, types, num_nodes=NODES, num_etypes=relations)


def edges_of(graph):
    return torch.stack([graph.src, graph.dst]).long()


X = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    service = make_service(tmp_path_factory.mktemp("traced"))
    with serving(application(service)) as url:
        yield url


@pytest.fixture(scope="module")
def client(url):
    with Client(url) as client:
        yield client


@pytest.mark.parametrize("name", MODELS)
def test_any_model_is_served_and_gives_its_own_output(client, name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MODELS[name]()
    client.put_model(name, model)
    is_typed = name == "entities"
    given = graph(RELATIONS if is_typed else 1)
    edges = edges_of(given)
    arguments = (edges, given.etype.long()) if is_typed else (X, edges)
    with torch.no_grad():
        expected = model.eval()(*arguments)
    x = None if is_typed else X
    answer = client.infer(name, given, x)
    torch.testing.assert_close(answer.out, expected, rtol=1e-5, atol=1e-5)
    some = client.infer(name, given, x, nodes=[7, 2], subset="auto")
    torch.testing.assert_close(some.out, expected[[7, 2]], rtol=1e-5, atol=1e-5)
    if name == "gin":  # whose layers read near nodes alone
        near = client.infer(name, given, x, nodes=[7, 2], subset="reach")
        torch.testing.assert_close(near.out, expected[[7, 2]], rtol=1e-5, atol=1e-5)
    if name == "gcn":  # whose sources bring their degrees along
        with pytest.raises(InputError, match="reads more than"):
            client.infer(name, given, x, nodes=[7, 2], subset="reach")


def test_edge_weights_and_several_results(client):
    model, given = OnEdges(), graph(1)
    weights = torch.rand(given.num_edges)
    edges = edges_of(given)
    client.put_model("weights", model, example=(X, edges, weights))
    answer = client.infer("weights", given, X, inputs={"edge_weight": weights})
    with torch.no_grad():
        rows, other = model(X, edges, weights)
    torch.testing.assert_close(answer.outputs[0], rows, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(answer.outputs[1], other, rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="edge_weight is missing"):
        client.infer("weights", given, X)
    with pytest.raises(InputError, match=r"\[119, 1\]: give \[120, 1\]"):
        client.infer("weights", given, X, inputs={"edge_weight": weights[1:]})
    with pytest.raises(InputError, match="no input 'pos'"):
        client.infer("weights", given, X, inputs={"edge_weight": weights, "pos": X})


def test_rows_of_the_model_s_own_are_for_its_graph(client):
    client.put_model("own", Entities())
    with pytest.raises(InputError, match="has rows of its own as x"):
        client.infer("own", graph(RELATIONS), X)
    small = hetune.HeteroGraph(
        torch.tensor([0]), torch.tensor([1]), num_nodes=2, num_etypes=RELATIONS
    )
    with pytest.raises(InputError, match="2 nodes but the model has rows for 30"):
        client.infer("own", small)


class Odd(Net):
    def forward(self, x, edge_index):
        x = self.first(x, edge_index)
        return self.second(x.sort(dim=0)[0], edge_index)


class Asking(Net):
    def forward(self, x, edge_index, batch):
        return super().forward(x, edge_index)


class Beside(Entities):
    """Embeddings beside the caller's features."""

    def forward(self, rows, edge_index, edge_type):
        return super().forward(edge_index, edge_type) + rows


def test_features_come_before_tables():
    example = (X[:, :CLASSES], torch.zeros(2, 1).long(), torch.zeros(1).long())
    description, _ = describe_traced(Beside(), example)
    assert description.in_channels == CLASSES
    assert [*description.tables] == ["table_0"]
    with pytest.raises(InputError, match="its argument edge_weight is"):
        describe_traced(OnEdges(), (X, torch.zeros(2, 1).long(), torch.tensor(1.0)))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (lambda: Odd(pyg.GCNConv(WIDTH, 8), pyg.GCNConv(8, 2)), r"sort .*\(test_traced_models"),
        (lambda: Asking(pyg.GCNConv(WIDTH, 8), pyg.GCNConv(8, 2)), "argument batch is: give"),
        (lambda: Net(pyg.ChebConv(WIDTH, 8, 3), pyg.GCNConv(8, 2)), "the layer first: "),
        (lambda: Net(pyg.GCNConv(-1, 8), pyg.GCNConv(8, 2)), "call it once"),
        (lambda: Net(pyg.GCNConv(WIDTH, 8, cached=True), pyg.GCNConv(8, 2)), "cached=True keeps"),
        (lambda: nn.Linear(2, 2), "edge_index"),
    ],
    ids=["sort", "argument", "constants", "lazy", "cached", "no edges"],
)
def test_a_model_that_is_no_sequence_of_programs(model, says):
    with pytest.raises(InputError, match=says):
        describe_traced(model())


def test_a_description_is_text_alone():
    description, weights = describe_traced(MODELS["gcn"]())
    layers = json.loads(description.model_dump_json())["layers"]
    assert [layer["loops"] for layer in layers if "loops" in layer] == ["replaced"]
    assert all(re.match(r"program GCNConv\(", layer["program"]) for layer in layers)
    assert [layer["inputs"] for layer in layers] == [["x"], ["0"]]
    assert all(rows.dtype is torch.float32 for rows in weights.values())


def test_a_model_of_dictionaries_is_served_on_graphs_with_its_types(client, url):
    kinds = [("a", "to", "b"), ("b", "back", "a"), ("a", "of", "a")]
    random = torch.Generator().manual_seed(0)
    sizes = {"a": 12, "b": 7}
    x = {name: torch.randn(count, 6, generator=random) for name, count in sizes.items()}
    edges = {
        (src, name, dst): torch.stack(
            [torch.randint(0, sizes[end], (40,), generator=random) for end in (src, dst)]
        )
        for src, name, dst in kinds
    }
    model = pyg.to_hetero(pyg.GraphSAGE(6, 8, 2, 3), (list(sizes), kinds)).eval()
    client.put_model("typed", model, example=(x, edges))
    with torch.no_grad():
        expected = model(x, edges)
    given = from_edge_index_dict(edges, x_dict=x)
    answer = client.infer("typed", given, x)
    assert list(answer.out) == list(expected)
    for name, rows in expected.items():
        torch.testing.assert_close(answer.out[name], rows, rtol=1e-5, atol=1e-5)
    other = from_edge_index_dict({("a", "to", "b"): edges[kinds[0]]}, x_dict=x)
    with pytest.raises(InputError, match="give the graph with the names"):
        client.infer("typed", other, x)
    wide = {"a": x["a"], "b": torch.randn(7, 5, generator=random)}
    relations = pyg.HeteroConv({kind: pyg.SAGEConv((-1, -1), 3) for kind in kinds})
    with torch.no_grad():
        expected = relations(wide, edges)
    client.put_model("wide", relations, example=(wide, edges))
    id = client.upload_graph(given)
    kept = client.put_features(id, "base", wide)
    assert (kept.width, kept.widths) == (6, {"a": 6, "b": 5})
    as_json = {name: rows.tolist() for name, rows in wide.items()}
    for graph, features in ((given, wide), (id, "base")):
        answer = client.infer("wide", graph, features)
        for name, rows in expected.items():
            torch.testing.assert_close(answer.out[name], rows, rtol=1e-5, atol=1e-5)
    with client_of(url) as plain:
        answer = plain.post("/v1/models/wide/infer", json={"graph": id, "x": as_json}).json()
        oip = plain.get("/v2/models/wide").json()
    torch.testing.assert_close(torch.tensor(answer["outputs"]["0"]["a"]), expected["a"])
    assert [each["shape"] for each in oip["inputs"][:2]] == [[-1, 6], [-1, 5]]
    with pytest.raises(InputError, match=r"of 'b' have the shape \[7, 6\]: give \[7, 5"):
        client.infer("wide", id, {"a": x["a"], "b": x["b"]})
    with pytest.raises(InputError, match="give rows of 6 for 'a', rows of 5 for 'b'"):
        client.infer("wide", id, torch.ones(19, 6))


@pytest.mark.parametrize("largest", [torch.Tensor.amax, torch.Tensor.amin])
def test_zeros_behind_narrow_rows_are_no_numbers_of_theirs(largest):
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = pyg.HeteroConv({kind: pyg.SAGEConv((-1, -1), 3) for kind in kinds})

        def forward(self, x_dict, edges):
            shifted = {k: x - largest(x, 1, keepdim=True) for k, x in x_dict.items()}
            return self.conv(shifted, edges)

    kinds = [("a", "of", "b"), ("b", "to", "a")]
    x = {"a": torch.ones(2, 20), "b": torch.ones(2, 16)}
    example = x, {kind: torch.zeros(2, 1).long() for kind in kinds}
    model = Shifted().eval()
    model(*example)
    with pytest.raises(InputError, match="its program gives other numbers"):
        describe_traced(model, example)


def test_rows_of_some_nodes_need_no_room_for_those_of_all(tmp_path):
    kinds = [("a", "to", "b"), ("b", "back", "a")]
    wide = {"a": torch.randn(900, 6), "b": torch.randn(100, 5)}
    edges = {kind: torch.zeros(2, 1, dtype=torch.int64) for kind in kinds}
    relations = pyg.HeteroConv({kind: pyg.SAGEConv((-1, -1), 30) for kind in kinds}).eval()
    with torch.no_grad():
        expected = relations(wide, edges)
    service = make_service(tmp_path, limits=replace(LIMITS, run_bytes=60_000))
    service.models.add("wide", 1, *describe_traced(relations, (wide, edges)))
    given = from_edge_index_dict(edges, x_dict=wide), wide
    nodes = {"b": torch.tensor([0, 7])}
    answer = service.inference.run("wide", *given, nodes=nodes, subset="reach")
    torch.testing.assert_close(answer.out["b"], expected["b"][[0, 7]], rtol=1e-5, atol=1e-5)
    with pytest.raises(TooLargeError, match="bytes for features and outputs"):
        service.inference.run("wide", *given)

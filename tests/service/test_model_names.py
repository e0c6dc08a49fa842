"""Models that know the names of their types: in-process, over HTTP and over the protocol."""

import json

import pytest
import torch
from tests.service._serving import asking, make_service, serving

import hetune
from hetune import nn
from hetune.clients import Client
from hetune.service.core.inference.answers import Answer
from hetune.service.core.models.stack import describe
from hetune.service.server.app import application
from hetune.variants.errors import InputError
from hetune.variants.graph import HeteroGraph, Vocabulary, renumbered

TRIPLES = [("author", "writes", "paper"), ("paper", "cites", "paper")]
CITATIONS = HeteroGraph(
    torch.tensor([0, 1, 1, 2]),
    torch.tensor([2, 3, 4, 4]),
    torch.tensor([0, 0, 0, 1]),
    torch.tensor([0, 0, 1, 1, 1]),
    ntype_names=["author", "paper"],
    etype_names=["writes", "cites"],
    canonical_etypes=TRIPLES,
)
SWAPPED = renumbered(CITATIONS, {"relations": ["cites", "writes"]})
BOTH_SWAPPED = renumbered(SWAPPED, {"node_types": ["paper", "author"]})
OTHER = HeteroGraph(
    CITATIONS.src, CITATIONS.dst, CITATIONS.etype, num_nodes=5, etype_names=["writes", "reads"]
)
X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
BY_TYPE = {"author": X[:2], "paper": X[2:]}


def layers_of() -> list[torch.nn.Module]:
    torch.manual_seed(0)
    return [nn.RGCN(4, 4, 2), torch.nn.ReLU(), nn.RGCN(4, 3, 2)]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """It keeps "named", with all names, "related", with those of relations, and "hgt"."""
    service = make_service(tmp_path_factory.mktemp("data"))
    named = {"relations": ["writes", "cites"]}
    service.models.add("named", 1, *describe(layers_of(), vocabulary=CITATIONS))
    service.models.add("related", 1, *describe(layers_of(), vocabulary=named))
    torch.manual_seed(0)
    service.models.add("hgt", 1, *describe([nn.HGT(4, 4, CITATIONS.metadata())]))
    service.models.add("numbered", 1, *describe(layers_of()))
    return service


@pytest.fixture(scope="module")
def expected() -> torch.Tensor:
    first, relu, last = layers_of()
    with torch.no_grad():
        return last(relu(first(X, CITATIONS)), CITATIONS)


def out_of(answer: Answer) -> torch.Tensor:
    (out,) = answer.outputs.values()
    return out


def by_type(answer: Answer) -> torch.Tensor:
    rows = out_of(answer)
    return torch.cat([rows["author"], rows["paper"]]) if "author" in rows else rows["paper"]


@pytest.mark.parametrize("model", ["named", "related"])
def test_relations_in_another_order_give_the_same_rows(service, expected, model):
    for graph in (CITATIONS, SWAPPED, service.graphs.add(SWAPPED)):
        torch.testing.assert_close(out_of(service.inference.run(model, graph, X)), expected)
        part = service.inference.run(model, graph, X, nodes=torch.tensor([4]), subset="reach")
        torch.testing.assert_close(out_of(part), expected[4:])
    rows = service.inference.run(model, BOTH_SWAPPED, BY_TYPE)
    torch.testing.assert_close(by_type(rows), expected)


def test_types_of_nodes_in_another_order_give_the_same_rows(service):
    one, other = (service.inference.run("hgt", g, BY_TYPE) for g in (CITATIONS, BOTH_SWAPPED))
    torch.testing.assert_close(by_type(one), by_type(other))


@pytest.mark.parametrize("model", ["named", "related", "hgt"])
def test_other_names_are_refused(service, model):
    message = "relations are not those .* it has 'reads', which the layer lacks, and lacks 'cites'"
    for call in (service.inference.run, lambda m, g, x: service.selection.select(m, g)):
        with pytest.raises(InputError, match=message if model != "hgt" else "'reads'"):
            call(model, OTHER, X)


def test_over_http(service, expected):
    with serving(application(service)) as url, Client(url) as client:
        client.put_model("sent", layers_of(), vocabulary=CITATIONS.vocabulary())
        assert client.model("sent", 1).vocabulary == CITATIONS.vocabulary()
        compiled = hetune.compile(layers_of()[0], vocabulary={"relations": ["writes", "cites"]})
        client.put_model("compiled", [compiled])
        assert client.model("compiled", 1).relations == ("writes", "cites")
        for graph in (SWAPPED, client.upload_graph(SWAPPED)):
            torch.testing.assert_close(out_of(client.infer("sent", graph, X)), expected)
        one, other = (client.infer("hgt", graph, BY_TYPE) for graph in (CITATIONS, BOTH_SWAPPED))
        torch.testing.assert_close(by_type(one), by_type(other))
        with pytest.raises(InputError, match="it has 'reads', which the layer lacks"):
            client.infer("sent", OTHER, X)
        with pytest.raises(InputError, match="it has 'reads', which the layer lacks"):
            client.select("compiled", OTHER)
    with asking(application(service)) as http:
        graph = {"src": [0], "dst": [1], "etype": [0], "etype_names": ["writes", "reads"]}
        body = {"graph": graph | {"num_nodes": 2}, "x": X[:2].tolist()}
        answer = http.post("/v1/models/sent/infer", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["type"] == "urn:hetune:error:InputError"
        assert "it has 'reads', which the layer lacks, and lacks 'cites'" in answer.json()["detail"]


def tensor(name: str, values: torch.Tensor) -> dict[str, object]:
    datatype = "FP32" if values.is_floating_point() else "INT64"
    shape = list(values.shape)
    return {"name": name, "shape": shape, "datatype": datatype, "data": values.tolist()}


@pytest.mark.parametrize("model", ["named", "related"])
def test_over_the_protocol(service, expected, model):
    writes = tensor("edge_index/author/writes/paper", torch.tensor([[0, 1, 1], [0, 1, 2]]))
    cites = tensor("edge_index/paper/cites/paper", torch.tensor([[0], [2]]))
    rows = [tensor(f"x/{name}", x) for name, x in BY_TYPE.items()]

    with asking(application(service)) as http:

        def infer(*inputs):
            return http.post(f"/v2/models/{model}/infer", content=json.dumps({"inputs": inputs}))

        for edges in ((writes, cites), (cites, writes)):
            found = infer(*rows, *edges).json()["outputs"]
            out = {o["name"]: torch.tensor(o["data"]).view(o["shape"]) for o in found}
            torch.testing.assert_close(torch.cat([out["out/author"], out["out/paper"]]), expected)
        assert infer(*rows, writes).status_code == 200  # as a graph without those edges
        reads = cites | {"name": "edge_index/paper/reads/paper"}
        refused = infer(*rows, writes, reads)
        assert refused.status_code == 400
        assert "reads" in refused.json()["error"]
        flat = [tensor("edge_index", torch.stack([CITATIONS.src, CITATIONS.dst]))]
        found = infer(tensor("x", X), *flat, tensor("edge_type", CITATIONS.etype)).json()
        (out,) = found["outputs"]
        torch.testing.assert_close(torch.tensor(out["data"]).view(out["shape"]), expected)


def test_over_the_protocol_advice_is_in_its_words(service):
    edges = tensor("edge_index", torch.stack([CITATIONS.src, CITATIONS.dst]))
    one = tensor("edge_index/author/writes/paper", torch.tensor([[0, 1], [0, 1]]))
    rows = [tensor(f"x/{name}", x) for name, x in BY_TYPE.items()]
    none = tensor("edge_index/paper/cites/paper", torch.zeros(2, 0, dtype=torch.int64))
    more = [none | {"name": f"edge_index/paper/{name}/paper"} for name in ("cites", "reads")]

    with asking(application(service)) as http:

        def infer(model, *inputs):
            found = http.post(f"/v2/models/{model}/infer", content=json.dumps({"inputs": inputs}))
            return found.status_code, found.text

        for model, inputs, mend in (
            (
                "numbered",
                (*rows, one),
                "all 2 edge types in the model's order, of the shape [2, ",
            ),
            ("numbered", (*rows, one, *more), "of 2 edge types, or take the model"),
            (
                "hgt",
                (tensor("x", X), edges),
                "x/<node type> of each node type, and edge_index/<s",
            ),
        ):
            status, text = infer(model, *inputs)
            assert status == 400
            assert mend in text
            assert "num_etypes" not in text
            assert "etype_names" not in text
        assert infer("numbered", *rows, one, none)[0] == 200
        assert infer("hgt", *rows, one)[0] == 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relations": ["a"]}, "there are 1 relations but num_relations is 2"),
        ({"relations": ["a", "a"]}, "relations holds 'a' twice"),
        ({"node_types": ["paper", "author"]}, "node_types are not the metadata's ntypes"),
    ],
)
def test_names_that_do_not_fit_are_refused(service, change, message):
    description, _ = describe(layers_of(), vocabulary=CITATIONS)
    document = json.loads(description.model_dump_json()) | change
    with pytest.raises(ValueError, match=message):
        type(description).model_validate_json(json.dumps(document))


def test_what_is_kept_without_names_is_as_before():
    description, _ = describe(layers_of())
    assert not {"relations", "node_types"} & description.model_dump().keys()
    assert description.vocabulary is None
    assert isinstance(describe(layers_of(), vocabulary=CITATIONS)[0].vocabulary, Vocabulary)

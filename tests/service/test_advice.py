"""What a message advises works: each is followed here."""

import json
import re

import pytest
import torch

import hetune
from hetune import nn
from hetune.service.core.models.stack import describe

from .test_http import is_problem

RUN = "/v1/models/{}/infer"
EDGES = {"src": [0, 1], "dst": [1, 2]}
X = [[0.0, 1.0, 2.0, 3.0]] * 3
TYPES = hetune.HeteroGraph(
    torch.tensor([0, 1]),
    torch.tensor([2, 2]),
    torch.tensor([0, 1]),
    torch.tensor([0, 0, 1]),
    ntype_names=["author", "paper"],
    etype_names=["writes", "reads"],
)


def test_a_graph_of_too_few_types_is_given_with_their_number(http):
    """It was answered "make it with num_relations=1": the end of a trained model."""
    found = http.post(RUN.format("m"), json={"graph": EDGES, "x": X})
    says = is_problem(found, 422, "InputError")
    assert "give the graph with num_etypes=2" in says
    assert "make it with" not in says
    mended = EDGES | {"num_etypes": 2}
    assert http.post(RUN.format("m"), json={"graph": mended, "x": X}).status_code == 200
    id = http.post("/v1/graphs", json=mended).json()["id"]
    assert http.post(RUN.format("m"), json={"graph": id, "x": X}).status_code == 200


def test_a_graph_of_more_types_is_another_model_s(http):
    graph = EDGES | {"etype": [0, 5]}
    says = is_problem(http.post(RUN.format("m"), json={"graph": graph, "x": X}), 422, "InputError")
    assert "take a graph whose edge types are 0 to 1" in says


def test_a_graph_of_other_types_is_given_with_the_model_s(http, service):
    service.models.add("h", 1, *describe([nn.HGT(4, 4, TYPES.metadata())]))
    graph = {"src": [0, 1], "dst": [2, 2], "etype": [0, 1], "ntype": [0, 0, 1]}
    says = is_problem(http.post(RUN.format("h"), json={"graph": graph, "x": X}), 422, "InputError")
    assert "as ntype_names, etype_names and" in says
    graph["ntype_names"] = ["author", "paper"]
    graph["canonical_etypes"] = [list(etype) for etype in TYPES.canonical_etypes]
    graph["etype_names"] = list(TYPES.etype_names)
    assert http.post(RUN.format("h"), json={"graph": graph, "x": X}).status_code == 200


def over_the_protocol(http, model, **tensors):
    inputs = []
    for name, (shape, data) in tensors.items():
        kind = "FP32" if name.startswith("x") else "INT64"
        inputs.append({"name": name, "shape": shape, "datatype": kind, "data": data})
    return http.post(f"/v2/models/{model}/infer", content=json.dumps({"inputs": inputs}))


FLAT = {
    "x": ([3, 4], [0.5] * 12),
    "edge_index": ([2, 2], [0, 1, 1, 2]),
    "edge_type": ([2], [0, 1]),
}
TYPED = {
    "x/author": ([2, 4], [0.5] * 8),
    "x/paper": ([1, 4], [0.5] * 4),
    "edge_index/author/writes/paper": ([2, 1], [0, 0]),
}


@pytest.mark.parametrize(
    ("model", "tensors", "change", "says", "mended"),
    [
        ("m", FLAT, {"edge_type": ([2], [0, 4])}, "edge_type has 4, which .* less than 2", {}),
        (
            "m",
            FLAT,
            {"edge_index": ([2, 2], [0, 1, 1, 3])},
            "edge_index has 3, .* give x a row for each node",
            {"edge_index": ([2, 2], [0, 1, 1, 3]), "x": ([4, 4], [0.5] * 16)},
        ),
        (
            "h",
            TYPED,
            {"edge_index/author/writes/paper": ([2, 1], [1, 1])},
            "edge_index/author/writes/paper, row 1, has 1, .* give x/paper a row",
            {"edge_index/author/writes/paper": ([2, 1], [1, 1]), "x/paper": ([2, 4], [0.5] * 8)},
        ),
        (
            "h",
            TYPED,
            {"edge_index/paper/cites/paper": ([2, 1], [0, 0])},
            "edge_index/paper/cites/paper: the model has no such edge type, leave it out",
            {},
        ),
    ],
    ids=range(4),
)
def test_the_protocol_is_advised_of_its_own_tensors(
    http, service, model, tensors, change, says, mended
):
    service.models.add("h", 1, *describe([nn.HGT(4, 4, TYPES.metadata())]))
    found = over_the_protocol(http, model, **tensors | change)
    assert found.status_code == 400
    assert re.search(says, found.json()["error"]), found.text
    assert "pass num_" not in found.text
    assert over_the_protocol(http, model, **tensors | mended).status_code == 200


@pytest.mark.parametrize("rows", [X, {"node": X}])
def test_features_are_x_wherever_they_are_rows(http, rows):
    graph = EDGES | {"num_etypes": 2}
    assert http.post(RUN.format("m"), json={"graph": graph, "x": rows}).status_code == 200
    named = http.post(RUN.format("m"), json={"graph": graph, "features": rows})
    assert "features: " in is_problem(named, 400, "MalformedError")
    both = {"graph": graph, "x": rows, "features": "base"}
    says = is_problem(http.post(RUN.format("m"), json=both), 400, "MalformedError")
    assert says == "there are both x and features: give one"
    neither = is_problem(http.post(RUN.format("m"), json={"graph": graph}), 422, "InputError")
    assert neither.startswith("features are missing: give rows as x")


def test_x_is_no_name(http):
    found = http.post(RUN.format("m"), json={"graph": EDGES, "x": "base"})
    assert "x: " in is_problem(found, 400, "MalformedError")

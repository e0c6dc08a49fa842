"""Rows of some nodes over the Open Inference Protocol: Triton's client gets what /v1 answers."""

import json

import httpx
import numpy as np
import pytest
import torch

from hetune import nn
from hetune.service.core.formats.message import MEDIA_TYPE, pack, unpack
from hetune.service.core.models.stack import describe
from hetune.service.server.app import application

from ._serving import make_service, serving, tiny_features, tiny_graph

triton = pytest.importorskip("tritonclient.http")
GRAPH = tiny_graph()
X = tiny_features()
FLAT = {"x": X}
TYPED = {"x/author": X[:3], "x/paper": X[3:]}
METADATA = (["a/b", "c"], [("a/b", "to", "c")])
WAYS = ("auto", "full", "reach")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The URL of a service that keeps the graph, the graph's id, and the service."""
    service = make_service(tmp_path_factory.mktemp("data"))
    service.models.add("typed", 1, *describe([nn.HGT(4, 4, METADATA)]))
    with serving(application(service, hosts={"127.0.0.1"})) as url:
        yield url, service.graphs.add(GRAPH), service


@pytest.fixture(scope="module")
def client(served):
    with triton.InferenceServerClient(served[0].removeprefix("http://")) as client:
        yield client


@pytest.fixture
def ask(client, served):
    """Runs the model by Triton's client."""

    def ask(tensors, outputs=None, *, binary=True, **parameters):
        inputs = [
            triton.InferInput(
                name, list(t.shape), "FP32" if t.is_floating_point() else "INT64"
            ).set_data_from_numpy(t.numpy(), binary)
            for name, t in tensors.items()
        ]
        wanted = [triton.InferRequestedOutput(name, binary_data=binary) for name in outputs or ()]
        parameters |= {"graph_id": served[1]}
        return client.infer("m", inputs, outputs=wanted or None, parameters=parameters)

    return ask


@pytest.fixture
def natively(served):
    """Runs the model over /v1; the tensors of the answer, as the protocol calls them."""

    def ask(tensors, **document):
        content = pack(json.dumps({"graph": served[1], **document}), tensors)
        headers = {"Content-Type": MEDIA_TYPE}
        found = httpx.post(
            f"{served[0]}/v1/models/m/infer",
            content=content,
            headers=headers,
            trust_env=False,
            timeout=60,
        )
        assert found.status_code == 200, found.text
        rows = unpack(found.content).tensors
        return {name.replace("out/1", "out"): tensor.numpy() for name, tensor in rows.items()}

    return ask


@pytest.mark.parametrize("subset", WAYS)
@pytest.mark.parametrize("nodes", [{"paper": None}, {"paper": None, "author": [2, 0]}], ids=len)
def test_all_rows_of_a_type_are_the_same_over_both_protocols(ask, natively, served, nodes, subset):
    ids = {name: torch.tensor(given) for name, given in nodes.items() if given is not None}
    tensors = FLAT | {f"nodes/{name}": given for name, given in ids.items()}
    whole = {name: None for name in nodes if name not in ids}
    expected = natively(tensors, nodes=whole, subset=subset)
    assert expected.keys() == {f"out/{name}" for name in nodes}
    assert len(expected["out/paper"]) == 4
    typed = TYPED | {f"nodes/{name}": given for name, given in ids.items()}
    same(ask(typed, list(expected), subset=subset), expected)
    body = {"graph": served[1], "x": X.tolist(), "nodes": nodes, "subset": subset}
    found = httpx.post(
        f"{served[0]}/v1/models/m/infer", json=body, trust_env=False, timeout=60
    ).json()
    assert found["outputs"]["1"] == {
        name.removeprefix("out/"): rows.tolist() for name, rows in expected.items()
    }


def same(found, expected):
    """Checks that an answer has these outputs alone, bit by bit."""
    assert {output["name"] for output in found.get_response()["outputs"]} == set(expected)
    for name, rows in expected.items():
        assert found.as_numpy(name).tobytes() == rows.tobytes()


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("subset", WAYS)
@pytest.mark.parametrize(
    "tensors",
    [
        FLAT | {"nodes": torch.tensor([5, 0, 5])},
        TYPED | {"nodes/paper": torch.tensor([3, 1])},
        TYPED | {"nodes/paper": torch.tensor([0]), "nodes/author": torch.tensor([2, 1])},
    ],
    ids=["flat", "one type", "two types"],
)
def test_rows_are_those_of_v1(ask, natively, tensors, subset, binary):
    names = [name.replace("nodes", "out") for name in tensors if name.startswith("nodes")]
    found = ask(tensors, None if binary else names, binary=binary, subset=subset)
    same(found, natively(tensors, subset=subset))
    said = found.get_response()["parameters"]
    assert said["subset"] == ("full" if subset == "auto" else subset)


@pytest.mark.parametrize("subset", WAYS)
def test_outputs_that_are_not_asked_for_are_not_computed(ask, natively, subset):
    papers = {"nodes/paper": torch.arange(4)}
    found = ask(TYPED, ["out/paper"], subset=subset)
    same(found, natively(TYPED | papers, subset=subset))
    assert "subset" in found.get_response()["parameters"]


def test_all_outputs_are_a_whole_run(ask, natively):
    found = ask(TYPED, ["out/paper", "out/author"])
    same(found, natively(TYPED))
    assert "subset" not in found.get_response()["parameters"]


def test_rows_of_one_type_and_all_of_another(ask, natively):
    papers = {"nodes/paper": torch.tensor([2])}
    found = ask(TYPED | papers, ["out/author", "out/paper"], subset="reach")
    authors = {"nodes/author": torch.arange(3)}
    same(found, natively(TYPED | papers | authors, subset="reach"))


def test_no_rows(ask):
    found = ask(FLAT | {"nodes": torch.tensor([], dtype=torch.int64)}, subset="reach")
    assert found.as_numpy("out").shape == (0, 4)


def test_of_a_graph_among_the_tensors(client, natively):
    tensors = {
        "x": (X.numpy(), "FP32"),
        "edge_index": (torch.stack([GRAPH.src, GRAPH.dst]).int().numpy(), "INT32"),
        "edge_type": (GRAPH.etype.int().numpy(), "INT32"),
        "nodes": (np.array([6, 3], np.int16), "INT16"),
    }
    inputs = [
        triton.InferInput(name, list(rows.shape), datatype).set_data_from_numpy(rows)
        for name, (rows, datatype) in tensors.items()
    ]
    found = client.infer("m", inputs, parameters={"subset": "reach"})
    same(found, natively(FLAT | {"nodes": torch.tensor([6, 3])}, subset="reach"))


@pytest.mark.parametrize(
    ("tensors", "outputs", "parameters", "reason"),
    [
        (FLAT | {"nodes": torch.tensor([7])}, None, {}, "7 is no id"),
        (FLAT | {"nodes": torch.tensor([-1])}, None, {}, "-1 is no id"),
        (FLAT | {"nodes": torch.tensor([[1]])}, None, {}, "list of integers"),
        (FLAT | {"nodes": X[0]}, None, {}, "list of integers"),
        (FLAT | {"nodes/paper": torch.tensor([1])}, None, {}, "give one form"),
        (TYPED | {"nodes": torch.tensor([1])}, None, {}, "give one form"),
        (TYPED | {"nodes/paper": torch.tensor([4])}, None, {}, "4 is no id"),
        (TYPED | {"nodes/venue": torch.tensor([0])}, None, {}, "no node type 'venue'"),
        (TYPED | {"nodes/paper": torch.tensor([0])}, ["out/author"], {}, "not asked for"),
        (TYPED, ["out/venue"], {}, "no node type 'venue'"),
        (TYPED, ["out"], {}, "no output 'out'"),
        (TYPED, ["out/"], {}, "no output 'out/'"),
        (TYPED, ["out/p%61per"], {}, "no output 'out/p%61per'"),
        (FLAT, None, {"subset": "some"}, "give auto, full, reach"),
        (FLAT, None, {"subset": 1}, "give a str"),
        (FLAT, None, {"subset": "reach"}, "nodes are missing"),
    ],
    ids=range(16),
)
def test_what_cannot_be_given_is_refused(ask, tensors, outputs, parameters, reason):
    with pytest.raises(triton.InferenceServerException, match=reason) as caught:
        ask(tensors, outputs, **parameters)
    assert caught.value.status() == "400"


@pytest.mark.parametrize(
    ("model", "names"), [("m", ["nodes"]), ("typed", ["nodes/a%2Fb", "nodes/c"])]
)
def test_models_tell_that_nodes_may_be_given(client, model, names):
    inputs = client.get_model_metadata(model)["inputs"]
    found = [tensor for tensor in inputs if tensor["name"].startswith("nodes")]
    assert found == [{"name": name, "datatype": "INT64", "shape": [-1]} for name in names]
    config = client.get_model_config(model)["input"]
    assert {tensor["name"] for tensor in config if tensor["optional"]} >= set(names)

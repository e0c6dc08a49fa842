"""The Open Inference Protocol as Triton's own client speaks it: sync, aio, compressed and not."""

import asyncio
from types import SimpleNamespace
from urllib.parse import quote

import numpy as np
import pytest
import torch

import hetune
from hetune import nn
from hetune.service.core.models.stack import describe
from hetune.service.server.app import application
from hetune.variants.graph import from_edge_index_dict

from ._serving import make_service, serving, tiny_features, tiny_graph

sync_api = pytest.importorskip("tritonclient.http")
aio_api = pytest.importorskip("tritonclient.http.aio")
CODINGS = [None, "gzip", "deflate"]
METADATA = (["a/b", "c d"], [("a/b", "to", "c d"), ("c d", "bäck", "a/b")])
GRAPH = tiny_graph()
X = tiny_features()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with a model without metadata and one with, a stored graph, and a client."""
    service = make_service(tmp_path_factory.mktemp("data"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        service.models.add("typed", 1, *describe([nn.HGT(4, 4, METADATA)]))
    app = application(service, hosts={"127.0.0.1"})
    with serving(app) as url:
        address = url.removeprefix("http://")
        with sync_api.InferenceServerClient(address) as client:
            yield SimpleNamespace(
                service=service, address=address, client=client, graph=service.graphs.add(GRAPH)
            )


@pytest.fixture(scope="module")
def expected(served):
    """What the same run gives in-process."""
    return served.service.inference.run("m", GRAPH, X).out.numpy()


def tensor(api, name, array, binary=True):
    datatype = {"float32": "FP32", "int64": "INT64"}[str(array.dtype)]
    return api.InferInput(name, list(array.shape), datatype).set_data_from_numpy(array, binary)


def flat_inputs(api, binary=True):
    edges = torch.stack([GRAPH.src, GRAPH.dst]).long().numpy()
    return [
        tensor(api, "x", X.numpy(), binary),
        tensor(api, "edge_index", edges, binary),
        tensor(api, "edge_type", GRAPH.etype.long().numpy(), binary),
    ]


@pytest.mark.parametrize("sent", CODINGS)
@pytest.mark.parametrize("got", CODINGS)
@pytest.mark.parametrize("binary", [True, False])
def test_sync(served, expected, sent, got, binary):
    found = served.client.infer(
        "m",
        flat_inputs(sync_api, binary),
        request_id="mine",
        outputs=[sync_api.InferRequestedOutput("out", binary_data=binary)],
        request_compression_algorithm=sent,
        response_compression_algorithm=got,
    )
    assert found.as_numpy("out").tobytes() == expected.tobytes()
    assert found.get_response()["id"] == "mine"
    assert found.get_response()["model_version"] == "1"
    assert found.get_response()["parameters"]["variants"]


@pytest.mark.parametrize("sent", CODINGS)
@pytest.mark.parametrize("got", CODINGS)
def test_aio(served, expected, sent, got):
    async def ask():
        async with aio_api.InferenceServerClient(served.address) as client:
            assert await client.is_server_ready()
            assert (await client.get_model_metadata("m"))["name"] == "m"
            asked = (
                client.infer(
                    "m",
                    flat_inputs(aio_api, binary),
                    request_compression_algorithm=sent,
                    response_compression_algorithm=got,
                )
                for binary in (True, False)
            )
            return await asyncio.gather(*asked)

    for found in asyncio.run(ask()):
        assert found.as_numpy("out").tobytes() == expected.tobytes()


def test_a_stored_graph(served, expected):
    asked = {"parameters": {"graph_id": served.graph}}
    found = served.client.infer("m", [tensor(sync_api, "x", X.numpy())], "1", **asked)
    assert found.as_numpy("out").tobytes() == expected.tobytes()
    parts = [
        tensor(sync_api, f"x/{n}", p)
        for n, p in (("author", X[:3].numpy()), ("paper", X[3:].numpy()))
    ]
    found = served.client.infer("m", parts, **asked)
    assert found.as_numpy("out/author").tobytes() == expected[:3].tobytes()
    assert found.as_numpy("out/paper").tobytes() == expected[3:].tobytes()


def test_types_are_in_names(served):
    """With the model's metadata the order of the tensors is all the same."""
    a, c = X[:3], X[3:]
    edges = {
        METADATA[1][0]: torch.tensor([[0, 1, 2], [1, 1, 3]]),
        METADATA[1][1]: torch.tensor([[3], [0]]),
    }
    graph = from_edge_index_dict(edges, {"a/b": 3, "c d": 4}, metadata=METADATA)
    expected = served.service.inference.run("typed", graph, {"a/b": a, "c d": c}).out
    inputs = [tensor(sync_api, "num_nodes/a%2Fb", np.array([3]))]
    for etype, ends in reversed(edges.items()):
        name = "/".join(["edge_index", *(quote(part, safe="") for part in etype)])
        inputs.append(tensor(sync_api, name, ends.numpy()))
    inputs += [tensor(sync_api, "x/c%20d", c.numpy()), tensor(sync_api, "x/a%2Fb", a.numpy())]
    one = [sync_api.InferRequestedOutput("out/c%20d")]
    found = served.client.infer("typed", inputs, outputs=one)
    assert found.as_numpy("out/c%20d").tobytes() == expected["c d"].numpy().tobytes()
    assert [o["name"] for o in found.get_response()["outputs"]] == ["out/c%20d"]
    described = served.client.get_model_metadata("typed")
    optional = {"nodes/a%2Fb", "nodes/c%20d"}
    assert {t["name"] for t in described["inputs"]} == {t.name() for t in inputs[1:]} | optional
    assert [t["name"] for t in described["outputs"]] == ["out/a%2Fb", "out/c%20d"]


def test_the_server_and_its_models(served):
    client = served.client
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata()["version"] == hetune.__version__
    assert client.is_model_ready("m")
    assert client.is_model_ready("m", "1")
    assert not client.is_model_ready("m", "2")
    assert not client.is_model_ready("other")
    described = client.get_model_metadata("m", "1")
    assert described["versions"] == ["1"]
    assert described["inputs"][0] == {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    assert described["outputs"] == [{"name": "out", "datatype": "FP32", "shape": [-1, 4]}]
    config = client.get_model_config("m")
    assert config["max_batch_size"] == 0
    assert config["input"][1] == {
        "name": "edge_index",
        "data_type": "TYPE_INT64",
        "dims": [2, -1],
        "optional": True,
    }


def test_the_repository(served):
    def held():
        return {e["name"]: e["reason"] == "in memory" for e in client.get_model_repository_index()}

    client = served.client
    client.load_model("m")
    assert held()["m"]
    client.unload_model("m")
    assert set(held()) == {"m", "typed"}
    assert not held()["m"]
    client.infer("m", flat_inputs(sync_api))
    assert held()["m"]
    with pytest.raises(sync_api.InferenceServerException, match="there is no model other"):
        client.load_model("other")
    with pytest.raises(sync_api.InferenceServerException, match="no parameters"):
        client.load_model("m", config="{}")


def test_statistics(served):
    def stats(model="m", version="1"):
        return served.client.get_inference_statistics(model, version)["model_stats"]

    before = stats()[0]
    served.client.infer("m", flat_inputs(sync_api))
    with pytest.raises(sync_api.InferenceServerException):
        served.client.infer("m", flat_inputs(sync_api)[:1])
    after = stats()[0]
    assert after["inference_count"] == before["inference_count"] + 1
    for part, count in (
        ("success", 1),
        ("fail", 1),
        ("queue", 1),
        ("compute_infer", 1),
        ("cache_hit", 0),
    ):
        old, new = before["inference_stats"][part], after["inference_stats"][part]
        assert new["count"] == old["count"] + count
        assert (new["ns"] > old["ns"]) == bool(count)
    assert after["last_inference"] >= max(before["last_inference"], 10**12)
    assert after["batch_stats"][0]["batch_size"] == 1
    assert [entry["name"] for entry in stats("", "")] == ["m", "typed"]


def test_errors_reach_the_client(served):
    with pytest.raises(sync_api.InferenceServerException, match="features are missing") as caught:
        served.client.infer("m", flat_inputs(sync_api)[1:])
    assert caught.value.status() == "400"
    with pytest.raises(
        sync_api.InferenceServerException, match="longer than it was given"
    ) as caught:
        served.client.infer("m", flat_inputs(sync_api), timeout=1)
    assert caught.value.status() == "503"

"""The Open Inference Protocol as KServe's own client speaks it: in JSON and binary."""

import asyncio
import gzip
import json
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import torch

from hetune.service.server.app import application

from ._serving import make_service, serving, tiny_features, tiny_graph

GRAPH = tiny_graph()
X = tiny_features()
TENSORS = {
    "x": X.numpy(),
    "edge_index": torch.stack([GRAPH.src, GRAPH.dst]).long().numpy(),
    "edge_type": GRAPH.etype.long().numpy(),
}
DATATYPES = {"float32": "FP32", "int64": "INT64"}


@pytest.fixture(scope="module")
def kserve():
    """It brings pandas and a client of Kubernetes along: imported only where it is used."""
    return pytest.importorskip("kserve")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with the model m and a stored graph, and what m gives in-process."""
    service = make_service(tmp_path_factory.mktemp("data"))
    expected = service.inference.run("m", GRAPH, X).out.numpy()
    with serving(application(service, hosts={"127.0.0.1"})) as url:
        yield SimpleNamespace(url=url, graph=service.graphs.add(GRAPH), expected=expected)


@pytest.fixture
def ask(kserve, served):
    """Calls a method of the client by name, with the service's URL, and waits for the result."""

    def call(method, *args, **options):
        async def calling():
            client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
            try:
                return await getattr(client, method)(served.url, *args, **options)
            finally:
                await client.close()

        return asyncio.run(calling())

    return call


def request(kserve, tensors=TENSORS, binary_in=True, binary_out=True, **parameters):
    """A run of m: the tensors as inputs, the output in the form that is asked for."""
    inputs = []
    for name, array in tensors.items():
        given = kserve.InferInput(name, list(array.shape), DATATYPES[str(array.dtype)])
        given.set_data_from_numpy(array, binary_data=binary_in)
        inputs.append(given)
    wanted = {"binary_data_output": binary_out}
    return kserve.InferRequest("m", inputs, request_id="mine", parameters=wanted | parameters)


@pytest.mark.parametrize("binary_in", [True, False], ids=["bytes", "json"])
@pytest.mark.parametrize("binary_out", [True, False], ids=["to bytes", "to json"])
@pytest.mark.parametrize("coding", ["identity", "gzip", "deflate"])
def test_runs_equal_those_in_process(ask, kserve, served, binary_in, binary_out, coding):
    asked = request(kserve, binary_in=binary_in, binary_out=binary_out)
    told = {}
    headers = {"Accept-Encoding": coding}
    found = ask("infer", asked, model_name="m", headers=headers, response_headers=told)
    numbers = found.get_output_by_name("out").as_numpy()
    assert numbers.dtype == np.float32
    assert numbers.tobytes() == served.expected.tobytes()
    assert found.id == "mine"
    assert found.model_name == "m"
    assert found.parameters["variants"]
    assert told.get("content-encoding", "identity") == coding
    assert ("inference-header-content-length" in told) == binary_out


def test_a_stored_graph(ask, kserve, served):
    asked = request(kserve, {"x": X.numpy()}, graph_id=served.graph)
    found = ask("infer", asked, model_name="m")
    assert found.get_output_by_name("out").as_numpy().tobytes() == served.expected.tobytes()


def test_a_dictionary_in_place_of_a_request(ask, kserve, served):
    document, length = request(kserve, binary_in=False, binary_out=False).to_rest()
    assert length is None
    found = ask("infer", document, model_name="m")
    assert np.array_equal(found.get_output_by_name("out").as_numpy(), served.expected)


def test_a_compressed_request(ask, kserve, served):
    """The client sends bytes as they are: who compresses them says so, and gives the length."""
    body, length = request(kserve).to_rest()
    headers = {"Content-Encoding": "gzip", "Inference-Header-Content-Length": str(length)}
    found = ask("infer", gzip.compress(body), model_name="m", headers=headers)
    assert found.get_output_by_name("out").as_numpy().tobytes() == served.expected.tobytes()


def test_the_server_and_its_models(ask):
    assert ask("is_server_live")
    assert ask("is_server_ready")
    assert ask("is_model_ready", "m")
    assert not ask("is_model_ready", "other")


@pytest.mark.parametrize(
    ("model", "changed", "status", "reason"),
    [
        (
            "m",
            {"edge_index": np.full((2, 9), 99)},
            400,
            "edge_index has 99, which has to be less than 7",
        ),
        ("m", {"x": np.zeros((7, 3), np.float32)}, 400, r"\[7, 4\]"),
        ("other", {}, 404, "there is no model other"),
    ],
)
def test_errors_reach_the_client(ask, kserve, model, changed, status, reason):
    with pytest.raises(httpx.HTTPStatusError, match=reason) as caught:
        ask("infer", request(kserve, TENSORS | changed), model_name=model)
    assert caught.value.response.status_code == status
    assert set(json.loads(caught.value.response.content)) == {"error"}

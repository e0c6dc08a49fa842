"""A service for a GPU, over HTTP: what a GPU would get runs in Triton's interpreter.

Requests go the whole way, with copies, to kernels that are printed for GPUs.
"""

import weakref

import httpx
import pytest
import torch

import hetune
from hetune.clients import Client
from hetune.service.core.formats.message import MEDIA_TYPE, pack, unpack
from hetune.service.core.models.engine import Engine
from hetune.service.server.app import application
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.plan.sides import run_on
from hetune.variants.runtime.domain import Domain

from ._device import RecordedDevice
from ._serving import asking, make_service, tiny_features, tiny_graph, tiny_layers

pytest.importorskip("triton", reason="no triton: pip install '.[triton]'")
X = tiny_features()
BINARY = {"Content-Type": MEDIA_TYPE}


@pytest.fixture(scope="module")
def device():
    return RecordedDevice()


@pytest.fixture(scope="module")
def service(device, tmp_path_factory):
    engine = Engine("triton", device)
    return make_service(tmp_path_factory.mktemp("data"), engine=engine)


@pytest.fixture(scope="module")
def http(service):
    with asking(application(service), timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def id(http):
    """A graph that the service keeps."""
    tensors = {"src": tiny_graph().src, "dst": tiny_graph().dst, "etype": tiny_graph().etype}
    tensors["ntype"] = tiny_graph().ntype
    document = '{"ntype_names": ["author", "paper"], "etype_names": ["writes", "reads"]}'
    return http.post("/v1/graphs", content=pack(document, tensors), headers=BINARY).json()["id"]


@pytest.fixture(scope="module")
def wanted():
    """What the layers give in-process, by the same backend: with and without the last one."""
    x, outs = X, []
    with torch.no_grad():
        for module in tiny_layers():
            if isinstance(module, torch.nn.ReLU):
                outs[-1] = x = module(x)
            else:
                layer = hetune.compile(module, backend="triton")
                x = layer(x, tiny_graph(), variant=layer.variants[0])
                outs.append(x)
    return outs


def close(one, other):
    return torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def ask(http, tensors, document):
    answer = http.post("/v1/models/m/infer", content=pack(document, tensors), headers=BINARY)
    assert answer.status_code == 200, answer.text
    return unpack(answer.content).tensors


def test_a_run_equals_one_in_process(http, id, device, wanted):
    device.said.clear()
    found = ask(http, {"x": X}, f'{{"graph": "{id}", "outputs": [0, 1]}}')
    assert device.said == ["place", "put", "fetch", "fetch"]
    assert close(found["out/0"], wanted[0])
    assert close(found["out/1"], wanted[1])
    device.said.clear()
    ask(http, {"x": X}, f'{{"graph": "{id}"}}')
    assert device.said == ["put", "fetch"]


def test_the_same_variants_are_offered_and_run(service, http, id):
    chosen = http.post("/v1/models/m/select", json={"graph": id, "explain": True}).json()["layers"]
    model, side = service.models.get("m"), Domain(service.graphs.get(id)).side
    for layer, compiled in zip(chosen, model.compiled, strict=True):
        offered = {candidate["variant"] for candidate in layer["explanation"]["candidates"]}
        assert offered == {v.id for v in run_on(tuple(compiled._promoted.values()), side)}
        assert layer["variant"] in offered
    ran = http.post("/v1/models/m/infer", json={"graph": id, "x": X.tolist()}).json()
    assert [layer["variant"] for layer in ran["layers"]] == [layer["variant"] for layer in chosen]


@pytest.mark.parametrize("subset", ["full", "reach"])
def test_rows_of_some_nodes(http, id, wanted, subset):
    nodes = torch.tensor([6, 0])
    document = f'{{"graph": "{id}", "subset": "{subset}"}}'
    found = ask(http, {"x": X, "nodes": nodes}, document)
    assert close(found["out/1"], wanted[1][nodes])


def test_features_that_are_kept(http, id, wanted):
    put = http.put(f"/v1/graphs/{id}/features/base", content=pack("{}", {"x": X}), headers=BINARY)
    assert put.status_code == 201, put.text
    found = ask(http, {}, f'{{"graph": "{id}", "features": "base"}}')
    assert close(found["out/1"], wanted[1])


def test_the_client_and_the_open_inference_protocol(http, id, wanted):
    with Client(str(http.base_url)) as client:
        assert close(client.infer("m", id, X).out, wanted[1])
    inputs = [{"name": "x", "datatype": "FP32", "shape": [7, 4], "data": X.flatten().tolist()}]
    body = {"inputs": inputs, "parameters": {"graph_id": id}}
    [out] = http.post("/v2/models/m/infer", json=body).json()["outputs"]
    assert close(torch.tensor(out["data"]).view(7, 4), wanted[1])


def test_a_sample_of_regret(service, id):
    service.regret.rate = 1.0
    service.inference.run("m", id, X)
    service.regret.rate = 0.0
    sample = service.regret.take()
    assert sample is not None
    assert len(set(sample.variants)) == 3
    assert sample.run(sample.variants[0]) == 1.0


def test_a_copy_goes_with_its_graph(service, http, id):
    body = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
    other = http.post("/v1/graphs", json=body).json()["id"]
    ran = http.post("/v1/models/m/infer", json={"graph": other, "x": [[1.0, 2.0, 3.0, 4.0]] * 3})
    assert ran.status_code == 200, ran.text
    # What has computed lets go of the graph before it computes what comes next.
    ask(http, {"x": X}, f'{{"graph": "{id}"}}')
    copy = weakref.ref(service.engine.graph(service.graphs.get(other)))
    before = len(service.engine.copies)
    assert copy() is not None
    assert http.delete(f"/v1/graphs/{other}").status_code == 204
    assert copy() is None
    assert len(service.engine.copies) == before - 1


class Full(TritonBackend):
    """A GPU whose memory is full."""

    def bind(self, launch, schedule, place):
        def run(buffers):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

        return run


def test_what_goes_wrong_on_the_device_is_told(tmp_path):
    device = RecordedDevice()
    service = make_service(tmp_path / "data", engine=Engine(Full(), device))
    inline = {"src": [0], "dst": [1], "etype": [0], "num_nodes": 2, "num_etypes": 2}
    body = {"graph": inline, "x": [[0.0] * 4] * 2}
    with asking(application(service)) as client:
        answer = client.post("/v1/models/m/infer", json=body)
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:hetune:error:DeviceMemoryError"
        assert "rows of some nodes" in answer.json()["detail"]
        assert device.said[-1] == "release"
        assert client.get("/v1/health/ready").status_code == 200
        device.gone = True
        for probe in ("/v1/health/ready", "/v2/health/ready"):
            gone = httpx.get(f"{client.base_url}{probe}", timeout=60)
            assert gone.status_code == 503

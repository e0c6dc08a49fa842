"""Layers on a device: what is copied and when, what fits, and what comes of its failures.

There is no GPU. `RecordedDevice` copies as one does.
"""

import weakref
from contextlib import nullcontext
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch

import hetune
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs.graphs import indexed_bytes
from hetune.service.core.models.device import ComputeDevice, GpuDevice
from hetune.service.core.models.engine import Engine
from hetune.service.core.service import Service
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.backends.triton.driver import DriverError
from hetune.variants.errors import (
    DeviceError,
    DeviceMemoryError,
    InputError,
    TooLargeError,
    VariantError,
)
from hetune.variants.runtime import replay

from ._device import RecordedDevice
from ._serving import make_service, tiny_features, tiny_graph
from .test_metrics import value

X = tiny_features()


TRITON = pytest.mark.skipif(
    find_spec("triton") is None, reason="no triton: pip install '.[triton]'"
)


@pytest.fixture
def device():
    return RecordedDevice()


@pytest.fixture
def service(tmp_path, device):
    """A service whose device is noted; what runs is the interpreter."""
    return make_service(tmp_path / "data", engine=Engine("torch", device))


@pytest.fixture
def host(tmp_path):
    """The same service without a device."""
    return make_service(tmp_path / "host")


# What is copied.


def test_a_graph_travels_once_features_and_rows_with_each_run(service, device, host):
    id = service.graphs.add(tiny_graph())
    first = service.inference.run("m", id, X)
    assert device.said == ["place", "put", "fetch"]
    again = service.inference.run("m", id, X)
    assert device.said[3:] == ["put", "fetch"]
    assert device.holds(first)
    assert device.holds(again)
    assert torch.equal(first.out, host.inference.run("m", tiny_graph(), X).out)


@pytest.mark.parametrize("subset", ["full", "reach"])
@pytest.mark.parametrize("nodes", [torch.tensor([4, 0, 4]), {"paper": torch.tensor([2])}])
def test_of_some_nodes_only_their_rows_come_back(service, device, host, nodes, subset):
    asked = {"nodes": nodes, "subset": subset, "outputs": [0, 1]}
    found = service.inference.run("m", tiny_graph(), X, **asked)
    wanted = host.inference.run("m", tiny_graph(), X, **asked)
    assert device.said.count("put") == 1
    assert device.said.count("fetch") == 2
    assert device.holds(found)
    for number, rows in wanted.outputs.items():
        got = found.outputs[number]
        for name in rows if isinstance(rows, dict) else [...]:
            assert torch.equal(got[name], rows[name])


def test_types_are_parts_of_what_came_back_as_a_whole(service, device):
    by_type = {"author": X[:3], "paper": X[3:]}
    found = service.inference.run("m", tiny_graph(), by_type)
    assert set(found.out) == {"author", "paper"}
    assert device.said.count("fetch") == 1
    assert device.holds(found)


def test_features_that_are_kept_stay_the_host_s(service, device):
    id = service.graphs.add(tiny_graph())
    service.features.put(id, "base", X)
    kept = service.features.resolve(id, "base")
    one, other = (service.inference.run("m", id, kept).out for _ in range(2))
    assert torch.equal(one, other)
    assert device.said.count("put") == 2
    assert torch.equal(service.features.resolve(id, "base"), X)


def test_a_layer_s_seconds_end_when_the_device_has_done_it(service):
    report = service.inference.run("m", tiny_graph(), X).report
    assert [layer.measured_seconds for layer in report.layers] == [1.0, 1.0]


def test_weights_go_where_layers_run(service, monkeypatch):
    moved = []
    monkeypatch.setattr(
        torch.nn.Module, "to", lambda module, device: (moved.append(device), module)[1]
    )
    service.models.get("m")
    assert moved == [torch.device("cpu")] * 2


class Recorder:
    """Replays by running again."""

    def __init__(self):
        self.recorded = 0

    def refusal(self, device):
        return ""

    def on(self, device):
        return nullcontext()

    def is_recorded(self):
        return False

    def stream(self):
        return SimpleNamespace(cuda_stream=0, synchronize=lambda: None)

    def record(self, run, pool):
        self.recorded += 1
        return SimpleNamespace(replay=run, pool=lambda: None)


@TRITON
@pytest.mark.parametrize("wanted", [False, None, True])
def test_runs_are_replayed_if_that_is_asked_for(tmp_path, device, wanted, monkeypatch):
    """Or if it is left to hetune, for graphs as small as this one."""
    monkeypatch.setattr(replay, "PATIENCE", 0)  # the CPU's allocator hands out ever other memory
    service = make_service(tmp_path / "data", engine=Engine("triton", device, cuda_graph=wanted))
    recorders = []
    for layer in service.models.get("m").compiled:
        layer._runs.recorder = Recorder()
        recorders.append(layer._runs.recorder)
    id = service.graphs.add(tiny_graph())
    outs = [service.inference.run("m", id, X * n).out for n in (1, 2, 1)]
    assert [recorder.recorded > 0 for recorder in recorders] == [wanted is not False] * 2
    assert torch.allclose(outs[2], outs[0], rtol=1e-4, atol=1e-6)
    assert not torch.equal(outs[1], outs[0])


def test_a_sample_of_regret_runs_there_too(service, device):
    id = service.graphs.add(tiny_graph())
    service.regret.rate = 1.0
    service.inference.run("m", id, X)
    sample = service.regret.take()
    device.said.clear()
    assert [sample.run(variant) for variant in sample.variants] == [1.0] * 3
    assert device.said == ["place"]


def test_on_the_host_nothing_is_copied(host):
    graph = tiny_graph()
    assert host.engine.copies is None
    assert host.engine.graph(graph) is graph
    assert host.engine.device.put(X) is X
    assert host.engine.fetch(X) is X
    assert host.engine.within(host.limits) is host.limits


# What fits.


def test_limits_are_shares_of_the_device_s_memory():
    engine = Engine("torch", RecordedDevice(total=1000))
    assert engine.most_bytes == 900
    assert engine.within(ServiceLimits(run_bytes=10_000)).run_bytes == 300
    assert engine.within(ServiceLimits(run_bytes=10)).run_bytes == 10
    assert engine.weight_bytes(ServiceLimits()) == 75
    assert Engine("torch", RecordedDevice(), most_bytes=60).within(ServiceLimits()).run_bytes == 20


@pytest.mark.parametrize(
    ("total", "text"), [(400, "features and outputs"), (3000, "a graph on the device")]
)
def test_what_would_not_fit_is_refused_before_it_is_copied(tmp_path, total, text):
    device = RecordedDevice(total)
    service = make_service(tmp_path / "data", engine=Engine("torch", device))
    with pytest.raises(TooLargeError, match=text):
        service.inference.run("m", tiny_graph(), X)
    assert device.said == []


# Failures.


class Failing(TorchBackend):
    """Fails when a launch runs."""

    def __init__(self, error):
        self.error = error

    def bind(self, launch, schedule, place):
        run = super().bind(launch, schedule, place)

        def fail(buffers):
            held = torch.ones(1)
            self.held = weakref.ref(held)
            if self.error is not None:
                raise self.error
            run(buffers)

        return fail


def failing(tmp_path, device, error):
    service = make_service(tmp_path / "data", engine=Engine(Failing(error), device))
    return service, service.graphs.add(tiny_graph())


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        torch.AcceleratorError("CUDA error: out of memory"),
        DriverError("out of memory"),
    ],
    ids=["torch", "elsewhere", "driver"],
)
def test_out_of_memory_gives_back_what_is_kept_and_lives_on(
    tmp_path, device, caplog, monkeypatch, error
):
    service, id = failing(tmp_path, device, error)
    release, left = device.release, []

    def noted_release():
        left.append(service.engine.backend.held())
        release()

    monkeypatch.setattr(device, "release", noted_release)
    service.engine.graph(hetune.generate("aifb", 0.01))
    with pytest.raises(DeviceMemoryError, match=r"cpu has no memory left.*device_memory"):
        service.inference.run("m", id, X)
    assert left == [None]  # what the run held has gone before
    assert "out of memory" in caplog.text
    assert len(service.engine.copies) == 0
    assert device.said[-1] == "release"
    service.engine.backend.error = None
    service.check_ready()
    assert service.inference.run("m", id, X).out.shape == (7, 4)


@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered\nhints"),
        RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
        DriverError("an illegal memory access was encountered"),
    ],
    ids=["torch", "triton", "driver"],
)
def test_a_device_that_fails_is_an_error_of_its_own(tmp_path, device, error):
    service, id = failing(tmp_path, device, error)
    with pytest.raises(DeviceError, match="illegal memory access was encountered; restart"):
        service.inference.run("m", id, X)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), InputError("[CUDA] x"), ValueError()])
def test_other_errors_are_what_they_are(tmp_path, device, error):
    service, id = failing(tmp_path, device, error)
    with pytest.raises(type(error)) as info:
        service.inference.run("m", id, X)
    assert info.value is error


def test_a_device_that_is_gone_makes_the_service_unready(service, device):
    service.check_ready()
    device.gone = True
    with pytest.raises(DeviceError, match=r"does not answer \(CUDA error: it has fallen off the"):
        service.check_ready()


# What it is told.


def test_metrics_tell_the_device_and_its_memory(service, device):
    id = service.graphs.add(tiny_graph())
    service.inference.run("m", id, X)
    assert value(service, "hetune_device_info", device="cpu", backend="torch") == 1
    found = {
        use: value(service, "hetune_device_bytes", use=use)
        for use in ("held", "reserved", "total", "graphs")
    }
    graph = service.graphs.get(id)
    assert found == {"held": 1, "reserved": 2, "total": 12 << 20, "graphs": indexed_bytes(graph)}


def test_who_chooses_is_the_champion_for_the_device(tmp_path):
    registry = ModelRegistry(tmp_path / "registry")
    service = Service.open(tmp_path / "data", engine=Engine("triton"), registry=registry)
    assert service.follower.active.selector.device == "cuda"
    assert service.cost_models.list().models == ()


def test_without_a_gpu_there_is_no_engine_for_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(VariantError, match="no GPU: torch sees none here"):
        Engine.on("cuda")
    with pytest.raises(InputError, match="cuda_graph is auto, which is for GPUs"):
        Engine.on("cpu", cuda_graph="auto")
    assert Engine.on("cpu").backend.name == "cpp"
    assert type(Engine.on("cpu").device) is ComputeDevice


def test_only_what_is_compiled_is_built_ahead(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert (Engine("cpp").builds_for, Engine("torch").builds_for) == ("cpu", None)
    gpu = GpuDevice(torch.device("cuda", 0))
    capability = 9, 0
    assert gpu.architecture == "cuda:sm_90"
    capability = 7, 5
    assert gpu.architecture is None

"""Layers on a device: what is copied and when, what fits, and what comes of its failures.

There is no GPU. `NotedGround` copies as one does, and torch's fake tensors say whether what lies on
different devices would meet.
"""

import gc
from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import hetune
from hetune.service.core.copies import Copies
from hetune.service.core.engine import Engine
from hetune.service.core.graphs import indexed_bytes
from hetune.service.core.ground import Gpu, Host
from hetune.service.core.limits import Limits
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
from hetune.variants.graph import reach

from ._ground import NotedGround
from ._serving import make_service, tiny_features, tiny_graph
from .test_metrics import value

X = tiny_features()


@pytest.fixture
def ground():
    return NotedGround()


@pytest.fixture
def service(tmp_path, ground):
    """A service whose device is noted; what runs is the interpreter."""
    return make_service(tmp_path / "data", engine=Engine("torch", ground))


@pytest.fixture
def host(tmp_path):
    """The same service without a device."""
    return make_service(tmp_path / "host")


# What is copied.


def test_a_graph_travels_once_features_and_rows_with_each_run(service, ground, host):
    id = service.graphs.add(tiny_graph())
    first = service.inference.run("m", id, X)
    assert ground.said == ["place", "put", "fetch"]
    again = service.inference.run("m", id, X)
    assert ground.said[3:] == ["put", "fetch"]
    assert ground.holds(first)
    assert ground.holds(again)
    assert torch.equal(first.out, host.inference.run("m", tiny_graph(), X).out)


@pytest.mark.parametrize("subset", ["full", "reach"])
@pytest.mark.parametrize("nodes", [torch.tensor([4, 0, 4]), {"paper": torch.tensor([2])}])
def test_of_some_nodes_only_their_rows_come_back(service, ground, host, nodes, subset):
    asked = {"nodes": nodes, "subset": subset, "outputs": [0, 1]}
    found = service.inference.run("m", tiny_graph(), X, **asked)
    wanted = host.inference.run("m", tiny_graph(), X, **asked)
    assert ground.said.count("put") == 1
    assert ground.said.count("fetch") == 2
    assert ground.holds(found)
    for number, rows in wanted.outputs.items():
        got = found.outputs[number]
        for name in rows if isinstance(rows, dict) else [...]:
            assert torch.equal(got[name], rows[name])


def test_types_are_parts_of_what_came_back_as_a_whole(service, ground):
    by_type = {"author": X[:3], "paper": X[3:]}
    found = service.inference.run("m", tiny_graph(), by_type)
    assert set(found.out) == {"author", "paper"}
    assert ground.said.count("fetch") == 1
    assert ground.holds(found)


def test_features_that_are_kept_stay_the_host_s(service, ground):
    id = service.graphs.add(tiny_graph())
    service.features.put(id, "base", X)
    kept = service.features.resolve(id, "base")
    one, other = (service.inference.run("m", id, kept).out for _ in range(2))
    assert torch.equal(one, other)
    assert ground.said.count("put") == 2
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


def test_a_sample_of_regret_runs_there_too(service, ground):
    id = service.graphs.add(tiny_graph())
    service.regret.rate = 1.0
    service.inference.run("m", id, X)
    sample = service.regret.take()
    ground.said.clear()
    assert [sample.run(variant) for variant in sample.variants] == [1.0] * 3
    assert ground.said == ["place"]


def test_on_the_host_nothing_is_copied(host):
    graph = tiny_graph()
    assert host.engine.copies is None
    assert host.engine.graph(graph) is graph
    assert host.engine.put(X) is X
    assert host.engine.fetch(X) is X
    assert host.engine.within(host.limits) is host.limits


# How long copies are held.


def graphs(count):
    """Graphs of one size."""
    return [hetune.generate("aifb", 0.01, seed) for seed in range(count)]


def test_a_copy_goes_with_its_graph(ground):
    copies = Copies(ground.place, 1 << 30)
    graph = tiny_graph()
    assert copies.of(graph) is copies.of(graph)
    assert copies.nbytes == indexed_bytes(graph)
    assert len(copies) == 1
    del graph
    gc.collect()
    assert (len(copies), copies.nbytes) == (0, 0)


def test_over_the_limit_the_copy_used_longest_ago_goes(ground):
    first, second, third = graphs(3)
    size = max(map(indexed_bytes, (first, second, third)))
    copies = Copies(ground.place, 2 * size)
    kept = copies.of(first)
    copies.of(second)
    assert copies.of(first) is kept
    copies.of(third)
    assert len(copies) == 2
    assert copies.of(first) is kept
    ground.said.clear()
    copies.of(second)
    assert ground.said == ["place"]


def test_a_graph_over_the_limit_is_refused_before_it_is_copied(ground):
    graph = tiny_graph()
    copies = Copies(ground.place, indexed_bytes(graph) - 1)
    with pytest.raises(TooLargeError, match="for a graph on the device"):
        copies.of(graph)
    assert ground.said == []


def test_copies_that_are_let_go_are_made_anew(ground):
    copies = Copies(ground.place, 1 << 30)
    graph = tiny_graph()
    copies.of(graph)
    copies.clear()
    assert len(copies) == 0
    copies.of(graph)
    assert ground.said == ["place", "place"]


# What fits.


def test_limits_are_shares_of_the_device_s_memory():
    engine = Engine("torch", NotedGround(total=1000))
    assert engine.most_bytes == 900
    assert engine.within(Limits(run_bytes=10_000)).run_bytes == 300
    assert engine.within(Limits(run_bytes=10)).run_bytes == 10
    assert engine.weight_bytes(Limits()) == 75
    assert Engine("torch", NotedGround(), most_bytes=60).within(Limits()).run_bytes == 20


@pytest.mark.parametrize(
    ("total", "text"), [(400, "features and outputs"), (3000, "a graph on the device")]
)
def test_what_would_not_fit_is_refused_before_it_is_copied(tmp_path, total, text):
    ground = NotedGround(total)
    service = make_service(tmp_path / "data", engine=Engine("torch", ground))
    with pytest.raises(TooLargeError, match=text):
        service.inference.run("m", tiny_graph(), X)
    assert ground.said == []


# Failures.


class Failing(TorchBackend):
    """Fails when a launch runs."""

    def __init__(self, error):
        self.error = error

    def bind(self, launch, schedule, place):
        run = super().bind(launch, schedule, place)

        def fail(buffers):
            if self.error is not None:
                raise self.error
            run(buffers)

        return fail


def failing(tmp_path, ground, error):
    service = make_service(tmp_path / "data", engine=Engine(Failing(error), ground))
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
def test_out_of_memory_gives_back_what_is_kept_and_lives_on(tmp_path, ground, caplog, error):
    service, id = failing(tmp_path, ground, error)
    service.engine.graph(graphs(1)[0])
    with pytest.raises(DeviceMemoryError, match=r"cpu has no memory left.*device_memory") as info:
        service.inference.run("m", id, X)
    assert info.value.__context__ is None  # it would hold what the run held
    assert "out of memory" in caplog.text
    assert len(service.engine.copies) == 0
    assert ground.said[-1] == "release"
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
def test_a_device_that_fails_is_an_error_of_its_own(tmp_path, ground, error):
    service, id = failing(tmp_path, ground, error)
    with pytest.raises(DeviceError, match="illegal memory access was encountered; restart"):
        service.inference.run("m", id, X)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), InputError("[CUDA] x"), ValueError()])
def test_other_errors_are_what_they_are(tmp_path, ground, error):
    service, id = failing(tmp_path, ground, error)
    with pytest.raises(type(error)) as info:
        service.inference.run("m", id, X)
    assert info.value is error


def test_a_device_that_is_gone_makes_the_service_unready(service, ground):
    service.check_ready()
    ground.gone = True
    with pytest.raises(DeviceError, match=r"does not answer \(CUDA error: it has fallen off the"):
        service.check_ready()


# What it is told.


def test_metrics_tell_the_device_and_its_memory(service, ground):
    id = service.graphs.add(tiny_graph())
    service.inference.run("m", id, X)
    assert value(service, "hetune_device_info", device="cpu", backend="torch") == 1
    found = {
        use: value(service, "hetune_device_bytes", use=use)
        for use in ("held", "reserved", "total", "graphs")
    }
    graph = service.graphs.get(id)
    assert found == {"held": 1, "reserved": 2, "total": 12 << 20, "graphs": indexed_bytes(graph)}


def test_answers_of_a_gpu_are_not_joined(tmp_path):
    with pytest.raises(InputError, match=r"batch_requests is 2.*leave it at 1"):
        Service.open(tmp_path, engine=Engine("triton"), batch_requests=2)


def test_without_a_gpu_there_is_no_engine_for_one():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(VariantError, match="no GPU: torch sees none here"):
        Engine.on("cuda")
    with pytest.raises(InputError, match="cuda_graph is for GPUs"):
        Engine.on("cpu", cuda_graph=True)
    assert Engine.on("cpu").backend.name == "cpp"
    assert isinstance(Engine.on("cpu").ground, Host)


def test_only_what_is_compiled_is_built_ahead(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert (Engine("cpp").builds_for, Engine("torch").builds_for) == ("cpu", None)
    gpu = Gpu(torch.device("cuda", 0))
    capability = 9, 0
    assert gpu.architecture == "cuda:sm_90"
    capability = 7, 5
    assert gpu.architecture is None


# Devices do not meet: by torch's fake tensors, which have a device and no memory.


class FakeGpu(Gpu):
    """What it does to tensors is a GPU's."""

    architecture = None

    def now(self):
        return 0.0

    def usage(self):
        return replace(NotedGround().usage(), total=1 << 30)


class FakeLayer:
    """Gives rows of the right width where its input lies."""

    def __init__(self, width):
        self.width = width

    def __call__(self, x, graph, variant):
        assert x.device == graph.device == torch.device("cuda", 0)
        assert x.shape[0] == graph.num_nodes
        return x.new_empty(graph.num_nodes, self.width)


@pytest.mark.parametrize("jumping", ["none", "cat"])
def test_on_a_gpu_rows_meet_rows_of_the_gpu_only(tmp_path, host, monkeypatch, jumping):
    engine = Engine("torch", FakeGpu(torch.device("cuda", 0)))
    engine.compiled = lambda module: FakeLayer(module.out_channels * getattr(module, "heads", 1))
    service = make_service(tmp_path / "data", engine=engine)
    model = service.models.get("m")
    object.__setattr__(
        model, "description", model.description.model_copy(update={"jumping": jumping})
    )
    graph = tiny_graph()
    chosen = host.selection.select("m", graph).layers
    monkeypatch.setattr(type(service.selection), "layers", lambda *_, **__: chosen)
    with FakeTensorMode(allow_non_fake_inputs=True):
        answer = service.inference.run(model, graph, X)
        assert answer.out.device == torch.device("cpu")
        assert answer.out.shape == (7, 4 if jumping == "none" else 10)
        assert service.engine.graph(graph).device == torch.device("cuda", 0)


def test_parts_of_a_graph_take_rows_of_a_gpu():
    graph = hetune.HeteroGraph(
        torch.tensor([0, 1, 2, 3, 4, 5]), torch.tensor([1, 2, 3, 4, 5, 0]), num_nodes=6
    )
    first, last = reach(graph, torch.tensor([3]), 2)
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.randn(6, 2).to("cuda:0")
        x = first.needed(first.inputs(x))
        assert last.needed(last.inputs(x)).shape == (1, 2)
        assert x.device.type == "cuda"

"""What lies where: how long a device holds copies of graphs, and that devices' rows do not meet.

There is no GPU. `RecordedDevice` copies as one does, and torch's fake tensors say whether what lies
on different devices would meet.
"""

import gc
from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import hetune
from hetune.service.core.graphs.graphs import indexed_bytes
from hetune.service.core.inference import layer_run
from hetune.service.core.models.device import GpuDevice
from hetune.service.core.models.device_copies import DeviceCopies
from hetune.service.core.models.engine import Engine
from hetune.variants.errors import TooLargeError
from hetune.variants.graph import reach
from hetune.variants.runtime.layer_use import LayerUse

from ._device import RecordedDevice
from ._serving import make_service, tiny_features, tiny_graph

X = tiny_features()


@pytest.fixture
def device():
    return RecordedDevice()


@pytest.fixture
def service(tmp_path, device):
    """A service whose device is noted; what runs is the interpreter."""
    return make_service(tmp_path / "data", engine=Engine("torch", device))


# How long copies are held.


def graphs(count):
    """Graphs of one size."""
    return [hetune.generate("aifb", 0.01, seed) for seed in range(count)]


def test_a_copy_goes_with_its_graph(device):
    copies = DeviceCopies(device.place, 1 << 30)
    graph = tiny_graph()
    assert copies.of(graph) is copies.of(graph)
    assert copies.nbytes == indexed_bytes(graph)
    assert len(copies) == 1
    del graph
    gc.collect()
    assert (len(copies), copies.nbytes) == (0, 0)


def test_over_the_limit_the_copy_used_longest_ago_goes(device):
    first, second, third = graphs(3)
    size = max(map(indexed_bytes, (first, second, third)))
    copies = DeviceCopies(device.place, 2 * size)
    kept = copies.of(first)
    copies.of(second)
    assert copies.of(first) is kept
    copies.of(third)
    assert len(copies) == 2
    assert copies.of(first) is kept
    device.said.clear()
    copies.of(second)
    assert device.said == ["place"]


def test_a_graph_over_the_limit_is_refused_before_it_is_copied(device):
    graph = tiny_graph()
    copies = DeviceCopies(device.place, indexed_bytes(graph) - 1)
    with pytest.raises(TooLargeError, match="for a graph on the device"):
        copies.of(graph)
    assert device.said == []


def test_copies_that_are_let_go_are_made_anew(device):
    copies = DeviceCopies(device.place, 1 << 30)
    graph = tiny_graph()
    copies.of(graph)
    copies.clear()
    assert len(copies) == 0
    copies.of(graph)
    assert device.said == ["place", "place"]


# Devices do not meet: by torch's fake tensors, which have a device and no memory.


class FakeGpu(GpuDevice):
    """What it does to tensors is a GPU's."""

    architecture = None

    def now(self):
        return 0.0

    def usage(self):
        return replace(RecordedDevice().usage(), total=1 << 30)


class FakeLayer:
    """Gives rows of the right width where its input lies."""

    vocabulary = None

    def __init__(self, width):
        self.width = width
        self.use = LayerUse()

    def use_of(self, graph):
        return self.use

    def parameters(self):
        return ()

    def __call__(self, x, graph, variant):
        assert x.device == graph.device == torch.device("cuda", 0)
        assert x.shape[0] == graph.num_nodes
        return x.new_empty(graph.num_nodes, self.width)


@pytest.mark.parametrize("jumping", ["none", "cat"])
def test_on_a_gpu_rows_meet_rows_of_the_gpu_only(tmp_path, monkeypatch, jumping):
    engine = Engine("torch", FakeGpu(torch.device("cuda", 0)))
    engine.compiled = lambda module, vocabulary, precision: FakeLayer(
        module.out_channels * getattr(module, "heads", 1)
    )
    service = make_service(tmp_path / "data", engine=engine)
    model = service.models.get("m")
    object.__setattr__(
        model, "description", model.description.model_copy(update={"jumping": jumping})
    )
    graph = tiny_graph()
    host = make_service(tmp_path / "host")
    chosen = host.selection.select("m", graph).layers
    monkeypatch.setattr(type(service.selection), "layers", lambda *_, **__: chosen)
    monkeypatch.setattr(layer_run, "check_finite", lambda *_: None)  # there are no numbers
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

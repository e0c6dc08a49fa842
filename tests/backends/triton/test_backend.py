"""Where the backend runs, and what it starts: Triton's own kernels or those of the registry."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.triton import backend as module
from hetune.variants.backends.triton.ahead import TritonCompiler
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.driver import DriverError, LoadedKernel
from hetune.variants.errors import CompileError, KernelError
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.registry import Registry
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import features
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.layers import LAYERS

COPY = """
launch
  buffer x: node[4]
  buffer y: node[4]
  traverse node
    row: [4] = read x
    store y = row
"""
CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


@pytest.fixture
def graph():
    return typed_graph((5,), [(0, 0, 7)])


def test_it_runs_on_gpus_and_interprets_on_the_cpu(monkeypatch, graph):
    assert TritonBackend().refusal(CPU) == ""
    assert "unset it" in TritonBackend().refusal(GPU)
    monkeypatch.delenv("TRITON_INTERPRET")
    assert TritonBackend().refusal(GPU) == ""
    layer = compile_layer(LAYERS["rgcn-add"].make(graph, 4, 1), backend="triton")
    x = features(layer.module, graph)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="the triton backend runs on cuda"):
        layer(x, graph)


def test_what_is_given_is_part_of_its_name():
    assert TritonBackend().name == "triton"
    assert TritonBackend("tf32").name == "triton (precision=tf32)"
    assert "warps=8" in TritonBackend(schedule=GpuSchedule(warps=8)).name


def test_a_given_schedule_is_taken_in_place_of_the_variants():
    launch, wide = parse(COPY), GpuSchedule(elements=4096)
    texts = {
        name: TritonBackend(schedule=given).source(launch, own).text
        for name, given, own in (
            ("own", None, wide),
            ("given", wide, GpuSchedule()),
            ("default", None, GpuSchedule()),
            ("a CPU's", None, Schedule()),
        )
    }
    assert texts["own"] == texts["given"] != texts["default"] == texts["a CPU's"]


def test_precisions_that_there_are_not():
    with pytest.raises(KernelError, match="take one of ieee, tf32x3, tf32, bf16"):
        TritonBackend("fp8")


def test_a_cpu_runs_no_variants_of_a_gpu(graph):
    backend = CppBackend()
    with pytest.raises(CompileError, match="the variant is for a GPU"):
        backend.bind(parse(COPY), GpuSchedule(), Domain(graph))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tile_k": 8}, "tile_k is 8: take a power of two, 16 or more"),
        ({"edges": 3}, "edges is 3: take a power of two, 1 or more"),
        ({"part_edges": 1}, "part_edges is 1: take a power of two, 2 or more"),
        ({"stages": 0}, "stages is 0"),
    ],
)
def test_bad_schedules(options, message):
    with pytest.raises(KernelError, match=message):
        GpuSchedule(**options)


def test_indexes_of_the_cpu_are_refused(graph):
    pytest.importorskip("triton")
    with pytest.raises(CompileError, match="bind it to a Domain"):
        TritonBackend().bind(parse(COPY), Schedule(), Domain(graph))
    assert type(Domain(graph).index("")) is GraphIndex
    assert type(Domain(graph, CPU).index("")) is DeviceIndex


class Card:
    """A GPU of capability 9.0 whose driver notes what is loaded, or refuses everything."""

    def __init__(self, monkeypatch, refuses: DriverError | None = None) -> None:
        self.refuses, self.loads = refuses, 0
        self.kernel = LoadedKernel(self, 0xC0, 0xF0, 128, 0)
        stream = SimpleNamespace(synchronize=lambda: None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
        monkeypatch.setattr(module, "cuda_driver", lambda: self)
        monkeypatch.setattr(TritonCompiler, "compile", lambda s, text, out: out.write_bytes(b"zip"))

    def load(self, binary):
        self.loads += 1
        if self.refuses:
            raise self.refuses
        assert binary == b"zip"
        return {"kernel_0": self.kernel}


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path / "kernels", toolchain=TritonCompiler(90))


def test_kernels_of_the_registry_are_loaded_by_the_driver(monkeypatch, registry):
    pytest.importorskip("triton")
    card = Card(monkeypatch)
    backend = TritonBackend(registry_of=lambda capability: registry)
    code = module.emit(parse(COPY), GpuSchedule())
    assert backend._loaded(code.source, CPU) == {}
    registry.build([code.source])
    found = backend._loaded(code.source, GPU)
    assert found == {"kernel_0": card.kernel}
    assert backend._loaded(code.source, GPU) is found


def test_without_a_compiler_triton_starts_them(monkeypatch, registry, caplog):
    pytest.importorskip("triton")
    card = Card(monkeypatch)

    def refuse():
        raise CompileError("there is no C++ compiler")

    monkeypatch.setattr(module, "start_library", refuse)
    backend = TritonBackend(registry_of=lambda capability: registry)
    source = backend.source(parse(COPY), GpuSchedule())
    registry.build([source])
    assert backend._loaded(source, GPU) == {}
    assert card.loads == 0
    assert "kernel by kernel: there is no C++ compiler" in caplog.text


def test_what_the_driver_refuses_is_put_aside(monkeypatch, registry):
    pytest.importorskip("triton")
    Card(monkeypatch, DriverError("no binary for this GPU", is_kernel_s=True))
    backend = TritonBackend(registry_of=lambda capability: registry)
    source = backend.source(parse(COPY), GpuSchedule())
    registry.build([source])
    assert backend._loaded(source, GPU) == {}
    assert registry.find(source) is None
    assert list((registry.root / "quarantine").iterdir())


def test_a_card_that_is_full_says_nothing_against_a_kernel(monkeypatch, registry, caplog):
    pytest.importorskip("triton")
    card = Card(monkeypatch, DriverError("cuModuleLoadData: out of memory"))
    backend = TritonBackend(registry_of=lambda capability: registry)
    source = backend.source(parse(COPY), GpuSchedule())
    registry.build([source])
    assert backend._loaded(source, GPU) == {}
    assert "compiled here, for the driver says cuModuleLoadData: out of memory" in caplog.text
    assert registry.find(source) is not None
    card.refuses = None
    assert "kernel_0" in backend._loaded(source, GPU)


def test_layers_share_what_is_loaded(monkeypatch, registry):
    """Each GPU has its own."""
    pytest.importorskip("triton")
    card = Card(monkeypatch)
    first, second = (TritonBackend(registry_of=lambda capability: registry) for _ in range(2))
    source = first.source(parse(COPY), GpuSchedule())
    assert first._loaded(source, GPU) == {}
    registry.build([source])
    found = second._loaded(source, GPU)
    assert found is TritonBackend(registry_of=lambda capability: registry)._loaded(source, GPU)
    assert card.loads == 1
    second._loaded(source, torch.device("cuda:1"))
    assert card.loads == 2

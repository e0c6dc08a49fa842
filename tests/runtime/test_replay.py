"""Recorded runs, by a recorder that a test makes up: what is copied, when, and in which order."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import hetune
from hetune.variants.errors import CompileError, InputError, MemoryLimitError
from hetune.variants.runtime import replay as module
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.cost_estimates import CostEstimates
from hetune.variants.runtime.replay import CudaRecorder
from hetune.variants.testing.layers import LAYERS, randomized


@dataclass
class FakeRecorder:
    """A replay runs the call again, and writes the tensor that the first run gave."""

    refused: str = ""
    error: Exception | None = None
    recorded: bool = False
    said: list[str] = field(default_factory=list)

    def refusal(self, device: torch.device) -> str:
        return self.refused

    def on(self, device: torch.device) -> AbstractContextManager[object]:
        return nullcontext()

    def is_recorded(self) -> bool:
        return self.recorded

    def event(self) -> Event:
        return Event(self.said)

    def record(self, run):
        self.said.append("record")
        if self.error:
            raise self.error
        results = tuple(rows.clone() for rows in run())

        def again() -> None:
            self.said.append("replay")
            for kept, rows in zip(results, run(), strict=True):
                kept.copy_(rows)

        return again, results


@dataclass
class Event:
    said: list[str]

    def record(self) -> None:
        self.said.append("mark")

    def wait(self) -> None:
        self.said.append("wait")

    def synchronize(self) -> None:
        self.said.append("synchronize")


@dataclass(frozen=True)
class Told:
    """A estimator for which a run takes a second, and a replay as long as it is told."""

    replay_seconds: float
    estimating_seconds: float = 0.0

    def estimate(self, table, domain, threads):
        ones = np.ones(len(table.variants))
        launches = np.zeros(len(table.launches))
        return CostEstimates(ones, launches, 0 * ones, "the test", self.replay_seconds * ones)


@pytest.fixture
def made(graph):
    """A layer that records with a fake, the fake, and the same layer without."""

    def make(wanted: bool | None = True, replay_seconds: float = 0.5, **fake):
        layer = randomized(LAYERS["rgcn-mean"].make(graph, 8, 1)).eval()
        if wanted is None:  # what hetune chooses between, there is on a GPU alone
            pytest.importorskip("triton", minversion="3.7.1")
            estimator = Told(replay_seconds)
            recorded = compile_layer(
                layer, backend="triton", estimator=estimator, expected_runs=100
            )
        else:
            recorded = compile_layer(layer, backend="torch", cuda_graph=wanted)
        recorded._runs.recorder = FakeRecorder(**fake)
        return recorded, recorded._runs.recorder, compile_layer(layer, backend="torch")

    return make


pytestmark = pytest.mark.usefixtures("no_grad")
VARIANT = "dst/b256"


def test_the_third_run_in_a_row_is_recorded_and_replayed(made, graph, x):
    layer, recorder, plain = made()
    for turn in range(5):
        found = layer(x * turn, graph, variant=VARIANT)
        assert torch.equal(found, plain(x * turn, graph, variant=VARIANT))
    assert recorder.said.count("record") == 1
    assert recorder.said.count("replay") == 3
    assert recorder.said[:5] == ["record", "mark", "wait", "replay", "mark"]


def test_results_are_the_caller_s(made, graph, x):
    layer, _, plain = made()
    results = [layer(x * turn, graph, variant=VARIANT) for turn in range(5)]
    for turn, result in enumerate(results):
        assert torch.equal(result, plain(x * turn, graph, variant=VARIANT))
    out = torch.empty_like(results[0])
    assert layer(x, graph, variant=VARIANT, out=out).data_ptr() == out.data_ptr()
    assert torch.equal(out, results[1])
    with pytest.raises(InputError, match="out must be"):
        layer(x, graph, variant=VARIANT, out=out.double())
    with pytest.raises(InputError, match="float32"):
        layer(x.double(), graph, variant=VARIANT)


def test_new_parameters_and_other_variants_are_recorded_anew(made, graph, x):
    layer, recorder, plain = made()
    for _ in range(3):
        layer(x, graph, variant=VARIANT)
    layer.module.weight.mul_(2)
    for _ in range(3):
        found = layer(x, graph, variant=VARIANT)
        assert torch.equal(found, plain(x, graph, variant=VARIANT))
    assert recorder.said.count("record") == 2
    # What is dropped waits for the streams that still use its memory.
    assert recorder.said.count("synchronize") == 1
    for _ in range(3):
        for variant in ("src/b256", VARIANT):
            layer(x, graph, variant=variant)
    assert recorder.said.count("record") == 2


def test_another_graph_has_its_own(made, graph, x):
    layer, recorder, plain = made()
    other = hetune.HeteroGraph(graph.dst, graph.src, graph.etype, graph.ntype)
    for _ in range(4):
        for at in (graph, other):
            found = layer(x, at, variant=VARIANT)
            assert torch.equal(found, plain(x, at, variant=VARIANT))
    assert recorder.said.count("record") == 2


def test_recorded_in_inference_mode_and_replayed_outside(made, graph, x):
    layer, recorder, plain = made()
    with torch.inference_mode():
        for _ in range(3):
            layer(x, graph, variant=VARIANT)
    assert torch.equal(layer(x * 2, graph, variant=VARIANT), plain(x * 2, graph, variant=VARIANT))
    assert recorder.said.count("replay") == 2


def test_threads_take_turns(made, graph, x):
    layer, _, plain = made()
    for _ in range(3):
        layer(x, graph, variant=VARIANT)
    wrong: list[int] = []

    def work(factor: int) -> None:
        with torch.no_grad():
            for _ in range(10):
                found = layer(x * factor, graph, variant=VARIANT)
                if not torch.equal(found, expected[factor]):
                    wrong.append(factor)

    expected = [plain(x * factor, graph, variant=VARIANT) for factor in range(4)]
    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_others_record_goes_into_their_recording(made, graph, x):
    layer, recorder, plain = made()
    for _ in range(2):
        layer(x, graph, variant=VARIANT)
    recorder.recorded = True
    for _ in range(3):
        found = layer(x, graph, variant=VARIANT)
    assert torch.equal(found, plain(x, graph, variant=VARIANT))
    assert recorder.said == []
    recorder.recorded = False
    layer(x, graph, variant=VARIANT)
    recorder.recorded = True
    layer(x, graph, variant=VARIANT)
    assert recorder.said == ["record", "mark", "wait", "replay", "mark"]


def test_recordings_keep_to_the_limit_of_a_call(made, graph, x):
    copies = 2 * x.nbytes
    layer, recorder, _ = made()
    peak = peak_bytes(layer, x, graph, VARIANT)
    with pytest.raises(MemoryLimitError, match=f"needs {peak + copies} bytes"):
        layer(x, graph, variant=VARIANT, memory_limit=peak + copies - 1)
    for _ in range(3):
        layer(x, graph, variant=VARIANT, memory_limit=peak + copies)
    assert recorder.said.count("record") == 1


def test_left_to_hetune_recordings_over_the_limit_of_a_call_are_not_made(made, graph, x):
    layer, recorder, _ = made(wanted=None)
    variant = "vanilla/t64-p2048"
    peak = peak_bytes(layer, x, graph, variant)
    for _ in range(4):
        layer(x, graph, variant=variant, memory_limit=peak)
    assert recorder.said == []
    layer(x, graph, variant=variant, memory_limit=peak + 2 * x.nbytes)
    assert recorder.said.count("record") == 1


def peak_bytes(layer, x, graph, variant: str) -> int:
    return next(c.peak_bytes for c in layer.explain(x, graph).candidates if c.id == variant)


def test_by_default_nothing_is_recorded(made, graph, x):
    layer, recorder, _ = made(wanted=False)
    for _ in range(4):
        layer(x, graph, variant=VARIANT)
    assert recorder.said == []


@pytest.mark.parametrize(("replay", "recorded"), [(1.5, 0), (0.5, 1)])
@pytest.mark.parametrize("variant", ["vanilla/t64-p2048", None])
def test_left_to_hetune_what_pays_is_recorded(variant, replay, recorded, made, graph, x):
    layer, recorder, _ = made(wanted=None, replay_seconds=replay)
    for _ in range(5):
        layer(x, graph, variant=variant)
    assert recorder.said.count("record") == recorded


def test_where_it_is_impossible(made, graph, x, caplog):
    layer, _, _ = made(refused="features are on cpu, not on a GPU")
    with pytest.raises(InputError, match="cuda_graph=True, but features are on cpu"):
        layer(x, graph, variant=VARIANT)
    layer, _, plain = made(wanted=None, refused="features are on cpu, not on a GPU")
    torch.testing.assert_close(layer(x, graph), plain(x, graph))
    error = RuntimeError("operation not permitted when stream is capturing")
    layer, _, _ = made(error=error)
    layer(x, graph, variant=VARIANT)
    layer(x, graph, variant=VARIANT)
    with pytest.raises(CompileError, match=r"not permitted .*: pass cuda_graph=False"):
        layer(x, graph, variant=VARIANT)
    layer, recorder, plain = made(wanted=None, error=error)
    for _ in range(5):
        torch.testing.assert_close(layer(x, graph), plain(x, graph))
    assert recorder.said == ["record"]
    assert "kernel by kernel" in caplog.text


def test_a_gpu_records_and_nothing_else():
    recorder = CudaRecorder()
    assert recorder.refusal(torch.device("cuda:0")) == ""
    assert "cpu" in recorder.refusal(torch.device("cpu"))


class Cuda:
    """What of `torch.cuda` recording uses; notes the calls.

    Like torch, it leaves a recording's stream the current one where beginning or ending it fails.
    """

    def __init__(self) -> None:
        self.fails = ""
        self.said: list[str] = []
        self.device = 0
        self._of_thread = threading.local()

    def current_device(self) -> int:
        return self.device

    def current_stream(self) -> Stream:
        return getattr(self._of_thread, "stream", Stream(self, "caller's"))

    def set_stream(self, stream: Stream) -> None:
        self._of_thread.stream = stream

    def is_current_stream_capturing(self) -> bool:
        return True

    def Stream(self) -> Stream:
        return Stream(self, f"side {self.device}")

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before = self.current_stream()
        self.set_stream(stream)
        try:
            yield
        finally:
            self.set_stream(before)

    def CUDAGraph(self) -> SimpleNamespace:
        return SimpleNamespace(
            replay=lambda: self.said.append(f"replay on {self.current_stream().name}")
        )

    @contextmanager
    def graph(self, graph: object, stream: Stream, capture_error_mode: str) -> Iterator[None]:
        self.said.append(f"record {stream.name}, {capture_error_mode}")
        before = self.current_stream()
        self.set_stream(stream)
        if self.fails == "begin":
            raise RuntimeError("another recording is underway")
        yield
        if self.fails == "end":
            raise RuntimeError("operation failed due to a previous error during capture")
        self.set_stream(before)


@dataclass
class Stream:
    cuda: Cuda
    name: str

    def wait_stream(self, other: Stream) -> None:
        self.cuda.said.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def cuda(monkeypatch) -> Cuda:
    found = Cuda()
    monkeypatch.setattr(module.torch, "cuda", found)
    monkeypatch.setattr(module, "_SIDES", {})
    return found


def test_a_run_warms_up_on_another_stream_before_it_is_recorded_there(cuda):
    def run() -> torch.Tensor:
        cuda.said.append(f"run on {cuda.current_stream().name}")
        return torch.zeros(1)

    again, _ = CudaRecorder().record(run)
    again()
    assert cuda.said == [
        "side 0 waits for caller's",
        "run on side 0",
        "caller's waits for side 0",
        "record side 0, thread_local",
        "run on side 0",
        "replay on caller's",
    ]


def test_each_device_records_on_a_stream_of_its_own(cuda):
    used = []

    def run() -> torch.Tensor:
        used.append(cuda.current_stream())
        return torch.zeros(1)

    for cuda.device in (0, 1, 0):
        CudaRecorder().record(run)
    assert [stream.name for stream in used[1::2]] == ["side 0", "side 1", "side 0"]
    assert used[1] is used[5]


@pytest.mark.parametrize("fails", ["begin", "end"])
def test_the_caller_s_stream_stays_the_current_one_where_recording_fails(fails, cuda):
    cuda.fails = fails
    with pytest.raises(RuntimeError, match=r"recording|capture"):
        CudaRecorder().record(lambda: torch.zeros(1))
    assert cuda.current_stream().name == "caller's"


@pytest.mark.parametrize("fails", ["", "begin", "end"])
@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_while_it_is_recorded(collects, fails, cuda):
    """What is dropped might be a recording, which waits for its streams."""
    cuda.fails, seen = fails, []
    gc.enable() if collects else gc.disable()
    try:
        with suppress(RuntimeError):
            CudaRecorder().record(lambda: seen.append(gc.isenabled()))
        assert gc.isenabled() == collects
    finally:
        gc.enable()
    assert seen == ([collects] if fails == "begin" else [collects, False])


def test_one_thread_at_a_time_records(cuda):
    running, most = [], []

    def run() -> torch.Tensor:
        running.append(1)
        time.sleep(0.01)
        most.append(len(running))
        running.pop()
        return torch.zeros(1)

    threads = [threading.Thread(target=CudaRecorder().record, args=(run,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_recordings_of_others_are_seen(cuda):
    assert CudaRecorder().is_recorded()


def test_the_option_is_that_of_hetune_compile(graph, x):
    layer = hetune.compile(hetune.nn.RGCN(8, 8, 3), backend="torch", cuda_graph=True)
    with pytest.raises(InputError, match="not on a GPU"):
        layer(x, graph)

"""Recorded runs, by a recorder that a test makes up: which, when, and with whose memory."""

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
    """A replay runs the call again. On the CPU nothing works on when a call has returned."""

    refused: str = ""
    error: Exception | None = None
    recorded: bool = False
    handle: int = 0
    said: list[str] = field(default_factory=list)
    pools: list[object] = field(default_factory=list)
    """The pool of each recording, as it was asked for."""

    def refusal(self, device: torch.device) -> str:
        return self.refused

    def on(self, device: torch.device) -> AbstractContextManager[object]:
        return nullcontext()

    def is_recorded(self) -> bool:
        return self.recorded

    def stream(self) -> SimpleNamespace:
        return SimpleNamespace(
            cuda_stream=self.handle, synchronize=lambda: self.said.append("synchronize")
        )

    def record(self, run, pool):
        self.said.append("record")
        if self.error:
            raise self.error
        self.pools.append(pool)
        own = object() if pool is None else pool

        def replay() -> None:
            self.said.append("replay")
            run()

        return SimpleNamespace(replay=replay, pool=lambda: own)


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


class Loop:
    """Runs of a layer on the same few features and results, whose values differ each time.

    Args:
        layer: What runs.
        plain: The same layer, that records nothing.
        graph: What on.
        x: Features.
        places: How many pairs of features and results take turns.
    """

    def __init__(self, layer, plain, graph, x, places: int = 1) -> None:
        self.layer, self.plain, self.graph, self.x = layer, plain, graph, x
        self.places = [(x.clone(), torch.empty_like(x)) for _ in range(places)]
        self.runs = 0

    def run(self, times: int, variant: str = VARIANT, **options) -> None:
        """So many runs, each of which is right."""
        for _ in range(times):
            x, out = self.places[self.runs % len(self.places)]
            self.runs += 1
            x.copy_(self.x * self.runs)
            found = self.layer(x, self.graph, variant=variant, out=out, **options)
            assert found.data_ptr() == out.data_ptr()
            assert torch.equal(out, self.plain(x, self.graph, variant=variant))


@pytest.fixture
def looped(made, graph, x):
    """A `Loop`, and its recorder."""

    def make(places: int = 1, **options):
        layer, recorder, plain = made(**options)
        return Loop(layer, plain, graph, x, places), recorder

    return make


def test_the_third_run_at_the_same_addresses_is_recorded_and_replayed(looped):
    loop, recorder = looped()
    loop.run(5)
    assert recorder.said == ["record", *["replay"] * 3]


def test_other_addresses_are_run_as_they_come(looped, x):
    """Features or results: what is replayed would read or write elsewhere."""
    loop, recorder = looped()
    loop.run(3)
    said = list(recorder.said)
    (given, out), loop.places = loop.places[0], []
    kept = [(given, out)]
    for _ in range(3):
        kept += [(given, torch.empty_like(x)), (x.clone(), out)]
        for loop.places in ([kept[-2]], [kept[-1]]):
            loop.run(1)
    assert recorder.said == said
    loop.places = [(given, out)]
    loop.run(1)
    assert recorder.said == [*said, "replay"]


def test_few_recordings_are_kept_and_share_their_memory(looped):
    """None in use makes room for another: all would be recorded again and again."""
    loop, recorder = looped(places=6)
    loop.run(6 * 5)
    assert recorder.said.count("record") == module._KEPT
    assert recorder.pools[0] is None
    assert len(set(map(id, recorder.pools[1:]))) == 1
    assert "synchronize" not in recorder.said
    # The first one is not replayed any more; somebody else may have its room after a while.
    loop.places = loop.places[1:]
    loop.run(2 * module._IDLE)
    assert recorder.said.count("record") == module._KEPT + 1
    # What is dropped waits for the stream that may still use its memory.
    assert recorder.said.count("synchronize") == 1


def test_each_stream_has_recordings_and_memory_of_its_own(looped):
    loop, recorder = looped()
    for _ in range(3):
        for recorder.handle in (0, 7):
            loop.run(1)
    assert recorder.said == ["record", "replay", "record", "replay"]
    assert recorder.pools == [None, None]


def test_the_last_recording_of_a_stream_takes_its_memory_along(looped, monkeypatch):
    monkeypatch.setattr(module, "_KEPT", 1)
    monkeypatch.setattr(module, "_IDLE", 0)
    loop, recorder = looped(places=2)
    loop.run(6)
    assert recorder.pools == [None, None]


def test_what_does_not_fit_is_refused(looped, graph, x):
    loop, _ = looped()
    loop.run(3)
    out = loop.places[0][1]
    with pytest.raises(InputError, match="out must be"):
        loop.layer(x, graph, variant=VARIANT, out=out.double())
    with pytest.raises(InputError, match="float32"):
        loop.layer(x.double(), graph, variant=VARIANT)


def test_new_parameters_and_other_variants_are_recorded_anew(looped):
    loop, recorder = looped()
    loop.run(3)
    loop.layer.module.weight.mul_(2)
    loop.run(3)
    assert recorder.said.count("record") == 2
    assert recorder.said.count("synchronize") == 1
    for _ in range(3):
        for variant in ("src/b256", VARIANT):
            loop.run(1, variant)
    assert recorder.said.count("record") == 2


def test_another_graph_has_its_own(looped, graph):
    loop, recorder = looped()
    other = hetune.HeteroGraph(graph.dst, graph.src, graph.etype, graph.ntype)
    for _ in range(4):
        for loop.graph in (graph, other):
            loop.run(1)
    assert recorder.said.count("record") == 2


def test_recorded_in_inference_mode_and_replayed_outside(looped):
    loop, recorder = looped()
    with torch.inference_mode():
        loop.run(3)
    loop.run(1)
    assert recorder.said.count("replay") == 2


def test_threads_may_run_at_the_same_time(made, graph, x):
    layer, recorder, plain = made()
    loops = [Loop(layer, plain, graph, x * factor) for factor in range(4)]
    right: list[int] = []

    def work(factor: int) -> None:
        with torch.no_grad():
            loops[factor].run(10)
        right.append(factor)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(right) == [0, 1, 2, 3]
    assert 0 < recorder.said.count("record") <= 4


def test_what_others_record_goes_into_their_recording(looped):
    loop, recorder = looped()
    loop.run(2)
    recorder.recorded = True
    loop.run(3)
    assert recorder.said == []
    recorder.recorded = False
    loop.run(1)
    recorder.recorded = True
    loop.run(1)
    assert recorder.said == ["record", "replay"]


def test_recordings_keep_to_the_limit_of_a_call(looped, graph, x):
    """Theirs is the memory of a run, beside that of runs elsewhere."""
    loop, recorder = looped()
    peak = peak_bytes(loop.layer, x, graph, VARIANT)
    needed = 2 * peak - x.nbytes
    with pytest.raises(MemoryLimitError, match=f"needs {needed} bytes"):
        loop.layer(x, graph, variant=VARIANT, memory_limit=needed - 1)
    loop.run(3, memory_limit=needed)
    assert recorder.said.count("record") == 1


def test_left_to_hetune_recordings_over_the_limit_of_a_call_are_not_made(made, graph, x):
    layer, recorder, _ = made(wanted=None)
    variant, out = "vanilla/t64-p2048", torch.empty_like(x)
    peak = peak_bytes(layer, x, graph, variant)
    for _ in range(4):
        layer(x, graph, variant=variant, memory_limit=peak, out=out)
    assert recorder.said == []
    layer(x, graph, variant=variant, memory_limit=2 * peak - x.nbytes, out=out)
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
    out = torch.empty_like(x)
    for _ in range(5):
        layer(x, graph, variant=variant, out=out)
    assert recorder.said.count("record") == recorded


def test_where_it_is_impossible(made, graph, x, caplog):
    layer, _, _ = made(refused="features are on cpu, not on a GPU")
    with pytest.raises(InputError, match="cuda_graph=True, but features are on cpu"):
        layer(x, graph, variant=VARIANT)
    layer, _, plain = made(wanted=None, refused="features are on cpu, not on a GPU")
    torch.testing.assert_close(layer(x, graph), plain(x, graph))
    error = RuntimeError("operation not permitted when stream is capturing")
    layer, _, _ = made(error=error)
    out = torch.empty_like(x)
    layer(x, graph, variant=VARIANT, out=out)
    layer(x, graph, variant=VARIANT, out=out)
    with pytest.raises(CompileError, match=r"not permitted .*: pass cuda_graph=False"):
        layer(x, graph, variant=VARIANT, out=out)
    layer, recorder, plain = made(wanted=None, error=error)
    for _ in range(5):
        torch.testing.assert_close(layer(x, graph, out=out), plain(x, graph))
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
    def graph(
        self, graph: object, pool: object, stream: Stream, capture_error_mode: str
    ) -> Iterator[None]:
        self.said.append(f"record {stream.name} in {pool}, {capture_error_mode}")
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


@pytest.fixture
def cuda(monkeypatch) -> Cuda:
    found = Cuda()
    monkeypatch.setattr(module.torch, "cuda", found)
    monkeypatch.setattr(module, "_SIDES", {})
    return found


def test_a_run_is_recorded_on_another_stream(cuda):
    def run() -> None:
        cuda.said.append(f"run on {cuda.current_stream().name}")

    CudaRecorder().record(run, "a pool").replay()
    assert cuda.said == [
        "record side 0 in a pool, thread_local",
        "run on side 0",
        "replay on caller's",
    ]
    assert CudaRecorder().stream().name == "caller's"


def test_each_device_records_on_a_stream_of_its_own(cuda):
    used = []

    for cuda.device in (0, 1, 0):
        CudaRecorder().record(lambda: used.append(cuda.current_stream()), None)
    assert [stream.name for stream in used] == ["side 0", "side 1", "side 0"]
    assert used[0] is used[2]


@pytest.mark.parametrize("fails", ["begin", "end"])
def test_the_caller_s_stream_stays_the_current_one_where_recording_fails(fails, cuda):
    cuda.fails = fails
    with pytest.raises(RuntimeError, match=r"recording|capture"):
        CudaRecorder().record(lambda: None, None)
    assert cuda.current_stream().name == "caller's"


@pytest.mark.parametrize("fails", ["", "begin", "end"])
@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_while_it_is_recorded(collects, fails, cuda):
    """What is dropped might be a recording, which waits for its streams."""
    cuda.fails, seen = fails, []
    gc.enable() if collects else gc.disable()
    try:
        with suppress(RuntimeError):
            CudaRecorder().record(lambda: seen.append(gc.isenabled()), None)
        assert gc.isenabled() == collects
    finally:
        gc.enable()
    assert seen == ([] if fails == "begin" else [False])


def test_one_thread_at_a_time_records(cuda):
    running, most = [], []

    def run() -> None:
        running.append(1)
        time.sleep(0.01)
        most.append(len(running))
        running.pop()

    threads = [threading.Thread(target=CudaRecorder().record, args=(run, None)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


def test_recordings_of_others_are_seen(cuda):
    assert CudaRecorder().is_recorded()


def test_the_option_is_that_of_hetune_compile(graph, x):
    layer = hetune.compile(hetune.nn.RGCN(8, 8, 3), backend="torch", cuda_graph=True)
    with pytest.raises(InputError, match="not on a GPU"):
        layer(x, graph)

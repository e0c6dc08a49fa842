"""Plans started by one native call, through a library of ours that stands for ``libcuda``.

It leaves each kernel that is started to Triton's interpreter, at the addresses that it was given.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from hetune.variants.backends.triton import native_start
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.driver import Driver, DriverError, LoadedKernel
from hetune.variants.backends.triton.toolkit import module_of
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry import KernelSource, default_registry
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.testing.programs import PROGRAMS, random_parameters

CPU, CONTEXT, STREAM = torch.device("cpu"), 0xC0, 0x57
TWO = """
launch
  buffer x: node[4]
  buffer t: node[4] in scratch t
  buffer y: node[4]
  traverse node
    row: [4] = read x
    store t = row
  traverse node
    row: [4] = read t
    store y = row
"""
_LISTENER = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
)


class Card:
    """What is started goes to Triton's interpreter, if it is not refused."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self.kernels, self.context = library, [], CONTEXT
        self.started: list[str] = []
        self.refused = ""
        self._listener = _LISTENER(self._start)
        self._turn = threading.Lock()
        library.enter.restype = ctypes.c_void_p
        library.enter.argtypes = (ctypes.c_void_p,)
        library.listen(self._listener)
        library.enter(CONTEXT)
        library.times_asked()

    def loaded(self, source, device) -> dict[str, LoadedKernel]:
        """In place of `TritonBackend._loaded`."""
        module, found = module_of(source), {}
        for name, how in module.LAUNCH.items():
            self.kernels.append((name, getattr(module, name), how["types"].split()))
            found[name] = LoadedKernel(
                Driver(self.library), self.context, len(self.kernels), 32 * how["num_warps"], 96
            )
        return found

    def _start(self, function: int, sizes, stream: int | None, parameters) -> int:
        name, kernel, kinds = self.kernels[function - 1]
        if name == self.refused:
            return 701
        assert (stream, *sizes[4:7]) == (STREAM, 1, 1, 96)
        assert sizes[3] % 32 == 0
        for scratch in parameters[len(kinds) : len(kinds) + 2]:
            assert ctypes.c_uint64.from_address(scratch).value == 0
        arguments = [_argument(kind, at) for kind, at in zip(kinds, parameters, strict=False)]
        with self._turn, np.errstate(all="ignore"):  # the interpreter is one thread's
            kernel[tuple(sizes[:3])](*arguments)
            self.started.append(name)
        return 0


def _argument(kind: str, at: int) -> torch.Tensor | int:
    if kind == "i32":
        return ctypes.c_int32.from_address(at).value
    address = ctypes.c_uint64.from_address(at).value
    of, dtype = {"*fp32": (ctypes.c_float, torch.float32), "*i32": (ctypes.c_int32, torch.int32)}[
        kind
    ]
    if not address:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer((of * 1).from_address(address), dtype=dtype)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    text = Path(__file__).with_name("libcuda.cpp").read_text()
    return default_registry().load(KernelSource("libcuda", text, "a library that notes calls"))


@pytest.fixture
def card(library, monkeypatch):
    pytest.importorskip("triton", minversion="3.7.1")
    found = Card(library)
    monkeypatch.setattr(TritonBackend, "_loaded", found.loaded)
    monkeypatch.setattr(native_start, "_stream", lambda device: STREAM)
    yield found
    library.enter(None)
    library.listen(None)


@pytest.fixture
def made(card, small, monkeypatch):
    """A plan on a graph: with all kernels loaded, without, and what it is given."""

    def make(name: str, plan: str):
        program = PROGRAMS[name]
        variant = next(v for v in variants_of(program, "cuda") if v.id.startswith(f"{plan}/"))

        def executable() -> Executable:
            domain = Domain(small, CPU)
            return Executable(variant.plan, domain, TritonBackend(), variant.schedules)

        with monkeypatch.context() as without:
            without.setattr(TritonBackend, "_loaded", lambda *_: {})
            plain = executable()
        values = random_parameters(program, small)
        weights = weights_of(variant.plan, values, small)
        given = {p.name: values[p.name].float() for p in program.params if p.role == "feature"}
        return executable(), plain, given, weights

    return make


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("rgcn mean", "hybrid"),
        ("rgat, 2 heads", "dst+weights-first"),
        ("hgt", "src+scores-src+folded"),
        ("two layers", "sum1-src+sum2-dst"),
        ("rgat, root and residual", "src+weights-first"),
    ],
)
def test_one_call_starts_what_launches_would_start_in_turn(name, plan, made, card):
    """At the addresses of features, weights and results, and of memory of the run's own."""
    executable, plain, given, weights = made(name, plan)
    assert executable._native is not None
    assert plain._native is None
    for turn in range(2):
        given = {name: rows * (1 + turn) for name, rows in given.items()}
        card.started.clear()
        card.library.times_asked()
        found = executable.run(given, weights)
        assert card.library.times_asked() == 1
        assert card.started == [k.lowered.function.name for k in executable._native._kernels]
        for one, other in zip(found, plain.run(given, weights), strict=True):
            assert torch.equal(one, other)
    assert not any("_native" in vars(runner) for runner in executable.runners)
    card.started.clear()
    marks: list[int] = []
    executable.run(given, weights, mark=lambda: marks.append(len(card.started)))
    assert len(marks) == 1 + len(executable.runners)
    assert marks == sorted(marks)
    assert card.library.times_asked() == len(executable.runners)


def test_edges_in_another_order_are_launches_of_their_own(made, card):
    executable, plain, given, weights = made("edge weights", "src")
    assert executable._native is None
    (found,), (expected,) = (each.run(given, weights) for each in (executable, plain))
    assert torch.equal(found, expected)
    assert card.started


def test_rows_that_begin_where_vectors_may_not_are_triton_s(made, card):
    executable, plain, given, weights = made("rgcn mean", "src")
    x = given["x"]
    shifted = torch.empty(x.numel() + 1)[1:].view(x.shape).copy_(x)
    assert shifted.data_ptr() % 16
    (found,), (expected,) = executable.run({"x": shifted}, weights), plain.run(given, weights)
    # The launch that reads no features may go on as it was.
    assert len(card.started) < len(executable._native._kernels)
    assert torch.equal(found, expected)


def test_what_the_driver_refuses_is_named(made, card):
    executable, _, given, weights = made("rgcn mean", "src")
    card.refused = executable._native._kernels[-1].lowered.function.name
    with pytest.raises(DriverError, match=rf"cuLaunchKernel of {card.refused} \(add2, .*too many"):
        executable.run(given, weights)
    card.context = 0xBAD
    other, _, given, weights = made("rgcn add", "src")
    with pytest.raises(DriverError, match="cuCtxSetCurrent: invalid device context"):
        other.run(given, weights)


def test_it_is_started_in_the_context_that_it_was_loaded_in(made, card):
    """Which another thread, or one that has turned to another device, has not; it gets it back."""
    executable, _, given, weights = made("rgcn mean", "src")
    for context, entered in ((None, 2), (0xC1, 2), (CONTEXT, 0)):
        card.library.enter(context)
        card.library.times_entered()
        executable.run(given, weights)
        assert card.library.times_entered() == entered
        assert card.library.enter(None) == context


def test_threads_may_call_at_the_same_time(made, card):
    executable, plain, given, weights = made("rgcn mean", "src")
    inputs = [{"x": given["x"] * turn} for turn in range(4)]
    expected = [plain.run(each, weights)[0] for each in inputs]
    wrong: list[int] = []

    def work(turn: int) -> None:
        found = (executable.run(inputs[turn], weights)[0] for _ in range(3))
        wrong.extend(turn for each in found if not torch.equal(each, expected[turn]))

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(card.started) == 4 * 3 * len(executable._native._kernels)


def test_a_launch_alone_is_one_call(card, small):
    launch = parse(TWO)
    place = Domain(small, CPU)
    run = TritonBackend().bind(launch, GpuSchedule(), place)
    x = torch.rand(small.num_nodes, 4)
    buffers = {"x": x, "y": torch.empty_like(x)}
    run(buffers)
    assert torch.equal(buffers["y"], x)
    assert card.library.times_asked() == 1

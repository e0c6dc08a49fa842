"""Runs recorded once and replayed: a plan's kernels as one CUDA graph.

A plan starts a handful of kernels, each of which costs the host microseconds; on a small graph that
is most of its time. A CUDA graph starts them all at once, over the very memory that it was recorded
with: features are copied in, the result is copied out.
"""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hetune.variants.errors import CompileError, InputError
from hetune.variants.runtime.executable import Executable

PATIENCE = 2
"""Runs with the same kernels and weights before they are recorded."""

_log = logging.getLogger(__name__)


class Recorder(Protocol):
    """Records what a call starts on a device, to start it again."""

    def refusal(self, device: torch.device) -> str:
        """Why it records nothing on a device; "" if it does."""
        ...

    def record(
        self, run: Callable[[], tuple[Tensor, ...]]
    ) -> tuple[Callable[[], object], tuple[Tensor, ...]]:
        """What replays a call, and the tensors that each replay writes.

        Raises:
            RuntimeError: The call does what cannot be recorded.
        """
        ...

    def on(self, device: torch.device) -> AbstractContextManager[object]:
        """Makes a device the current one."""
        ...

    def is_recorded(self) -> bool:
        """Whether somebody records what the current stream starts, as with a model around it."""
        ...

    def event(self) -> Any:
        """With ``record()``, ``wait()`` and ``synchronize()``, as of a `torch.cuda.Event`."""
        ...


@dataclass(frozen=True, slots=True)
class CudaRecorder:
    """Records CUDA graphs."""

    def refusal(self, device: torch.device) -> str:
        """Why it records nothing on a device; "" if it does."""
        return "" if device.type == "cuda" else f"features are on {device}, not on a GPU"

    def record(
        self, run: Callable[[], tuple[Tensor, ...]]
    ) -> tuple[Callable[[], object], tuple[Tensor, ...]]:
        """Runs the call once on another stream, as recording asks for, and then records it there.

        One thread at a time does: torch knows of one recording in a process. And it leaves the
        recording's stream the current one where it fails.
        """
        caller = torch.cuda.current_stream()
        with _TURN:
            side = _side_stream()
            side.wait_stream(caller)
            try:
                with torch.cuda.stream(side):
                    run()
                caller.wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                # Other threads may go on allocating meanwhile.
                recording = torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local")
                with _no_collections(), recording:
                    result = run()
            finally:
                torch.cuda.set_stream(caller)
        return graph.replay, result

    def on(self, device: torch.device) -> AbstractContextManager[object]:
        """Makes a device the current one."""
        return torch.cuda.device(device)

    def is_recorded(self) -> bool:
        """Whether a CUDA graph is being recorded on the current stream."""
        return torch.cuda.is_current_stream_capturing()

    def event(self) -> Any:
        """An event of the current device."""
        return torch.cuda.Event()  # type: ignore[no-untyped-call]


_TURN = threading.Lock()
"""Held by who records."""
_SIDES: dict[int, Any] = {}
"""A stream to record on for each device: torch has a few, and would soon hand out one in use."""


def _side_stream() -> Any:
    """The current device's: torch's own for recordings is that of one device."""
    device = torch.cuda.current_device()
    if device not in _SIDES:
        _SIDES[device] = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    return _SIDES[device]


@contextmanager
def _no_collections() -> Iterator[None]:
    """One might drop a recording of before, and wait for its streams, which would end this one."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Replay:
    """A recorded run of an executable with certain weights. Safe to call from several threads.

    Runs on different streams take turns on the device: the memory is one run's.

    Args:
        executable: What runs.
        features: Checked, as `Executable.inputs` gives them: they tell the shapes.
        weights: As for `Executable.run`; read in every replay, so they are kept.
        recorder: What records.

    Raises:
        RuntimeError: It cannot be recorded.
    """

    def __init__(
        self,
        executable: Executable,
        features: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        recorder: Recorder,
    ) -> None:
        self._weights = weights
        self._lock = threading.Lock()
        # Tensors made in inference mode could not be written outside of it.
        with torch.inference_mode(False), torch.no_grad():
            static = {name: rows.detach().clone() for name, rows in features.items()}
            self._replay, self._results = recorder.record(lambda: executable.run(static, weights))
        self._features = static
        self._free = recorder.event()
        self._free.record()
        # Streams may still work on the memory when nobody refers to it any more.
        weakref.finalize(self, self._free.synchronize).atexit = False

    def run(
        self, features: Mapping[str, Tensor], targets: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Replays the run on the current stream.

        Args:
            features: As given when it was recorded, with other values.
            targets: Take the results.
        """
        with self._turn(), torch.no_grad():
            for name, rows in features.items():
                self._features[name].copy_(rows)
            self._replay()
            for target, result in zip(targets, self._results, strict=True):
                target.copy_(result)
            return targets

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock:
            self._free.wait()
            yield
            self._free.record()


class Replays:
    """A layer's runs on one graph: as they come, until the same one has come often enough.

    A run that somebody else records, as part of a CUDA graph of their own, is neither counted nor
    replayed: its kernels go into theirs.

    Args:
        must: Whether what repeats has to be recorded; else it is where that pays and is possible.
        recorder: What records.
    """

    def __init__(self, must: bool, recorder: Recorder) -> None:
        self._must, self._recorder = must, recorder
        self._lock = threading.Lock()
        self._last: tuple[Executable, Mapping[str, Tensor]] | None = None
        self._runs = 0
        self._replay: Replay | None = None
        self._failed = False

    def run(
        self,
        executable: Executable,
        features: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        out: Tensor | None,
        pays: Callable[[], bool],
    ) -> tuple[Tensor, ...]:
        """As `Executable.run`.

        Args:
            executable: What to run.
            features: As it takes them.
            weights: As it takes them.
            out: As it takes it.
            pays: Whether replays are faster; asked of runs that repeat.

        Raises:
            InputError: A tensor does not fit, or recording was asked for and is impossible there.
            CompileError: Recording was asked for and failed.
        """
        if reason := self._recorder.refusal(executable.device):
            if self._must:
                raise InputError(f"cuda_graph=True, but {reason}: leave it out, or move them")
            return executable.run(features, weights, out)
        with self._recorder.on(executable.device):
            if self._recorder.is_recorded():
                return executable.run(features, weights, out)
            with self._lock:
                replay = self._replay_of(executable, features, weights, pays)
            if replay is None:
                return executable.run(features, weights, out)
            given = executable.inputs(features)
            return replay.run(given, executable.results.allocate(out, {**weights, **given}))

    def _replay_of(
        self,
        executable: Executable,
        features: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        pays: Callable[[], bool],
    ) -> Replay | None:
        last = self._last
        if last is None or last[0] is not executable or not _are_same(last[1], weights):
            self._last, self._runs = (executable, weights), 0
            self._replay, self._failed = None, False
        self._runs += 1
        if self._runs <= PATIENCE or self._failed or not (self._must or pays()):
            return None
        if self._replay is None:
            self._replay = self._recorded(executable, executable.inputs(features), weights)
            self._failed = self._replay is None
        return self._replay

    def _recorded(
        self, executable: Executable, given: Mapping[str, Tensor], weights: Mapping[str, Tensor]
    ) -> Replay | None:
        try:
            return Replay(executable, given, weights, self._recorder)
        except RuntimeError as error:
            if self._must:
                raise CompileError(
                    f"a run cannot be recorded as a CUDA graph ({error}): pass cuda_graph=False"
                ) from error
            _log.warning("runs start kernel by kernel, for they cannot be recorded: %s", error)
            return None


def _are_same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether these are the same tensors by the same names."""
    is_same = one.keys() == other.keys()
    return one is other or (is_same and all(one[name] is other[name] for name in one))

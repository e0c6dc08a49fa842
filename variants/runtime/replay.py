"""Runs that come again at the same addresses, replayed: a plan's kernels as one CUDA graph.

A plan starts a handful of kernels, each of which costs the host microseconds; on a small graph that
is most of its time. A CUDA graph starts them all at once, over the very memory that it was recorded
with. Nothing is copied: in a loop, torch's allocator hands out the memory of before again, so that
features and results lie where they lay. Those that lie elsewhere are run as they come.
"""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from hetune.variants.errors import CompileError, InputError
from hetune.variants.fork_locks import new_lock
from hetune.variants.runtime.executable import Executable

PATIENCE = 2
"""Runs with the same kernels, weights and addresses before they are recorded."""
_KEPT = 4
"""Recordings that are kept, of so many sets of addresses."""
_IDLE = 32
"""Runs after which a recording that was not replayed makes room for another one."""
_SEEN = 16
"""Sets of addresses whose runs are counted: the latest."""

_log = logging.getLogger(__name__)


class RecordedGraph(Protocol):
    """What was recorded, as a `torch.cuda.CUDAGraph`."""

    def replay(self) -> None:
        """Starts it again on the current stream."""
        ...

    def pool(self) -> Any:
        """The memory that it works on beside what was given."""
        ...


class Recorder(Protocol):
    """Records what a call starts on a device, to start it again."""

    def refusal(self, device: torch.device) -> str:
        """Why it records nothing on a device; "" if it does."""
        ...

    def record(self, run: Callable[[], object], pool: Any) -> RecordedGraph:
        """What replays a call, which has run before. It is recorded, and not run.

        Args:
            run: The call.
            pool: Memory that it may share with recordings that are replayed on the same stream.

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

    def stream(self) -> Any:
        """The current one, with ``cuda_stream`` and ``synchronize()`` of a `torch.cuda.Stream`."""
        ...


class CudaRecorder:
    """Records CUDA graphs."""

    def refusal(self, device: torch.device) -> str:
        """Why it records nothing on a device; "" if it does."""
        return "" if device.type == "cuda" else f"features are on {device}, not on a GPU"

    def record(self, run: Callable[[], object], pool: Any) -> RecordedGraph:
        """Records it on another stream, as torch asks for.

        One thread at a time does: torch knows of one recording in a process. And it leaves the
        recording's stream the current one where it fails.
        """
        caller = torch.cuda.current_stream()
        with _TURN:
            graph = torch.cuda.CUDAGraph()
            # Other threads may go on allocating meanwhile.
            recording = torch.cuda.graph(
                graph, pool=pool, stream=_side_stream(), capture_error_mode="thread_local"
            )
            try:
                with _no_collections(), recording:
                    run()
            finally:
                torch.cuda.set_stream(caller)
        return graph

    def on(self, device: torch.device) -> AbstractContextManager[object]:
        """Makes a device the current one."""
        return torch.cuda.device(device)

    def is_recorded(self) -> bool:
        """Whether a CUDA graph is being recorded on the current stream."""
        return torch.cuda.is_current_stream_capturing()

    def stream(self) -> Any:
        """The current stream."""
        return torch.cuda.current_stream()


_TURN = new_lock()
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


class _Recording:
    """A recorded run.

    Args:
        graph: What replays it.
        stream: Where it is replayed.
    """

    def __init__(self, graph: RecordedGraph, stream: Any) -> None:
        self.graph, self.last = graph, 0
        # The stream may still work on its memory when nobody refers to it any more.
        weakref.finalize(self, stream.synchronize).atexit = False


class Replays:
    """A layer's runs on one graph: as they come, until the same one has come often enough.

    The same are the kernels, the weights, the stream, and where features and results lie. So what a
    replay works on is that stream's, which does one thing after the other. A run that somebody else
    records, as part of a CUDA graph of their own, is neither counted nor replayed: its kernels go
    into theirs. Safe to call from several threads.

    Args:
        must: Whether what repeats has to be recorded; else it is where that pays and is possible.
        recorder: What records.
    """

    def __init__(self, must: bool, recorder: Recorder) -> None:
        self._must, self._recorder = must, recorder
        self._lock = new_lock()
        self._last: tuple[Executable, Mapping[str, Tensor]] | None = None
        self._forget()

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
            given = executable.inputs(features)
            results = executable.results.allocate(out, {**weights, **given})

            def run() -> None:
                executable.start(given, weights, results)

            stream = self._recorder.stream()
            places = stream.cuda_stream, *(t.data_ptr() for t in (*given.values(), *results))
            with self._lock:
                self._turn_to(executable, weights)
                found = self._recording(places, stream, run, pays)
                if found is not None:  # two threads may not start one graph at the same time
                    found.graph.replay()
            if found is None:
                run()
            return results

    def _turn_to(self, executable: Executable, weights: Mapping[str, Tensor]) -> None:
        last = self._last
        if last is None or last[0] is not executable or not _are_same(last[1], weights):
            self._last = executable, weights
            self._forget()

    def _forget(self) -> None:
        self._runs: dict[tuple[int, ...], int] = {}
        """How often each set of addresses has come, the latest last."""
        self._recordings: dict[tuple[int, ...], _Recording] = {}
        """The one that was replayed last is the last one."""
        self._turn, self._failed = 0, False

    def _recording(
        self,
        places: tuple[int, ...],
        stream: Any,
        run: Callable[[], object],
        pays: Callable[[], bool],
    ) -> _Recording | None:
        """What is to be replayed, recorded if its time has come."""
        self._turn += 1
        found = self._recordings.pop(places, None)
        if found is None and self._is_due(places) and (self._must or pays()) and self._has_room():
            found = self._recorded(run, stream)
        if found is not None:
            found.last = self._turn
            self._recordings[places] = found
        return found

    def _is_due(self, places: tuple[int, ...]) -> bool:
        runs = self._runs[places] = self._runs.pop(places, 0) + 1
        if len(self._runs) > _SEEN:
            del self._runs[next(iter(self._runs))]
        return runs > PATIENCE and not self._failed

    def _has_room(self) -> bool:
        if len(self._recordings) < _KEPT:
            return True
        oldest = next(iter(self._recordings))
        is_idle = self._turn - self._recordings[oldest].last > _IDLE
        if is_idle:
            del self._recordings[oldest]
        return is_idle

    def _recorded(self, run: Callable[[], object], stream: Any) -> _Recording | None:
        # A stream's recordings are replayed one after the other, so they share what memory they
        # need. A pool goes with the last of its recordings: none is kept by itself.
        alike = (r for p, r in self._recordings.items() if p[0] == stream.cuda_stream)
        pool = next((recording.graph.pool() for recording in alike), None)
        try:
            return _Recording(self._recorder.record(run, pool), stream)
        except RuntimeError as error:
            self._failed = True
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

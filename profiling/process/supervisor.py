"""Keeps a worker process at work, and turns its crashes, hangs and hunger into records."""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from hetune.profiling.closeable import Closeable
from hetune.profiling.measure.bench import place_of
from hetune.profiling.measure.candidate import Loss
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.record import GraphFacts, Stamp, Times, record
from hetune.profiling.process.heartbeat import MEND_ROOM, SETTING_UP, Heartbeat
from hetune.profiling.process.messages import Json, Order, facts_from_json, measurement_from_json
from hetune.profiling.records import Measurement, Status
from hetune.profiling.units import Unit
from hetune.variants.errors import WorkerError

_COMMAND = (sys.executable, "-m", "hetune.profiling.process.worker")
_LOOK_SECONDS = 0.2
_LAST_WORDS = 2000


@dataclass(frozen=True, slots=True)
class _Lost:
    """What a worker had at work when it was lost, and why that has no times."""

    unit: int
    loss: Loss


class Supervisor(Closeable):
    """Measures problems in a process of their own, and starts another when that one is lost.

    A context manager; the process starts with the first problem and is kept.

    Args:
        limits: Of every problem. A step of a unit that takes longer than `unit_seconds` is ended.
        seed: Of the inputs and the orders.
        command: Starts a worker.
        clock: Seconds.

    Attributes:
        limits: As given; may be changed between problems.
        restarts: How many workers were lost.
        look: Called a few times a second while something is measured; what it raises ends that.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        seed: int = 0,
        command: Sequence[str] = _COMMAND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        self.restarts = 0
        self.look: Callable[[], None] = lambda: None
        self._seed = seed
        self._command = tuple(command)
        self._clock = clock
        self._process: _Process | None = None

    def measure(self, units: Sequence[Unit], stamp: Stamp) -> list[Measurement]:
        """Measures units of one problem together; a record for each, in their order.

        The unit that was at work when the worker was lost is recorded as lost, and the others are
        measured again without it. Where no unit was at work, all that are left are lost.

        Raises:
            VariantError, CompileError: The problem is one of GPUs, and there is none, or no Triton.
            WorkerError: No process starts, or it can compile nothing; or there is no room for the
                files that it needs.
        """
        if units:
            place_of(units[0].problem.device)
        lost: dict[str, Loss] = {}
        facts = GraphFacts()
        found: dict[str, Measurement] = {}
        while left := [unit for unit in units if unit.variant not in lost]:
            variants = tuple(unit.variant for unit in left)
            order = Order(left[0].problem, variants, stamp, self.limits, self._seed)
            answer = self._ask(order)
            facts = answer.facts or facts
            if answer.lost is None:
                found = {m.variant: m for m in answer.measurements}
                break
            failed = variants if answer.lost.unit == SETTING_UP else (variants[answer.lost.unit],)
            lost |= dict.fromkeys(failed, answer.lost.loss)
        return [
            found[unit.variant]
            if unit.variant in found
            else record(unit, stamp, facts, Times(), lost[unit.variant])
            for unit in units
        ]

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ask(self, order: Order) -> _Answer:
        fresh = self._process is None
        if self._process is None:
            self._process = _Process(self._command, self._clock)
        try:
            answer = self._process.ask(order, self._allowed, self.look)
        except BaseException:
            self.close()  # its answer would be taken for that to the next order
            raise
        if answer.crashed:
            begun, words = self._process.begun, answer.lost.loss.error if answer.lost else ""
            self.close()
            self.restarts += 1
            if not begun and fresh:
                raise WorkerError(
                    f"the process that measures does not start: {words}; mend that, or try "
                    "`python -c 'import hetune.profiling.process.worker'`"
                )
            if not begun:  # it was lost while it had nothing to do
                return self._ask(order)
        return answer

    def _allowed(self, unit: int) -> float:
        limits = self.limits
        return limits.setup_seconds if unit == SETTING_UP else limits.unit_seconds


@dataclass(frozen=True, slots=True)
class _Answer:
    facts: GraphFacts | None
    measurements: tuple[Measurement, ...] = ()
    lost: _Lost | None = None
    crashed: bool = False


class _Process:
    """A worker that runs.

    Raises:
        WorkerError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        with contextlib.ExitStack() as undo:
            self._heartbeat = Heartbeat.create()
            undo.callback(self._heartbeat.close)
            try:
                self._words: IO[bytes] = undo.enter_context(tempfile.TemporaryFile())
                self._process = subprocess.Popen(  # noqa: S603
                    [*command, str(self._heartbeat.descriptor)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._words,
                    pass_fds=(self._heartbeat.descriptor,),
                )
            except OSError as error:
                raise WorkerError(
                    f"the process that measures cannot be started ({error}): {MEND_ROOM}"
                ) from error
            undo.pop_all()  # `end` closes them
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._rest = b""
        self._steps = 0

    @property
    def begun(self) -> bool:
        """Whether it has taken a step since the last order."""
        return self._heartbeat.read()[0] > self._steps

    def ask(
        self, order: Order, allowed: Callable[[int], float], look: Callable[[], None]
    ) -> _Answer:
        """Its answer to an order.

        Raises:
            WorkerError: It can compile nothing.
        """
        self._steps = self._heartbeat.read()[0]
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `_receive` finds out what happened
            self._process.stdin.write(f"{json.dumps(order.to_json())}\n".encode())
            self._process.stdin.flush()
        facts: GraphFacts | None = None
        while True:
            message = self._receive(allowed, look)
            if isinstance(message, _Lost):
                return _Answer(facts, lost=message, crashed=True)
            if "graph" in message:
                facts = facts_from_json(message["graph"])
            elif "measurements" in message:
                found = map(measurement_from_json, message["measurements"])
                return _Answer(facts, tuple(found))
            elif "refused" in message:
                raise WorkerError(message["refused"])
            else:
                loss = Loss(Status(message["status"]), message["error"])
                return _Answer(facts, lost=_Lost(SETTING_UP, loss))

    def _receive(self, allowed: Callable[[int], float], look: Callable[[], None]) -> Json | _Lost:
        """The next answer; waits as long as steps take less than what their unit is allowed."""
        seen, since = self._heartbeat.read(), self._clock()
        while b"\n" not in self._rest:
            if self._selector.select(_LOOK_SECONDS):
                assert self._process.stdout is not None
                chunk = self._process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
                if not chunk:
                    return self._death()
                self._rest += chunk
            look()
            beat = self._heartbeat.read()
            if beat != seen:
                seen, since = beat, self._clock()
            elif self._clock() - since > (limit := allowed(seen[1])):
                what = "making the graph" if seen[1] == SETTING_UP else "a step"
                return _Lost(
                    seen[1],
                    Loss(Status.TIMEOUT, f"{what} took longer than the limit of {limit:g} s"),
                )
        line, _, self._rest = self._rest.partition(b"\n")
        answer: Json = json.loads(line)
        return answer

    def end(self) -> None:
        """Kills it, if it still runs."""
        self._process.kill()
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._words):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # an order that nobody read
                stream.close()
        self._heartbeat.close()

    def _death(self) -> _Lost:
        code = self._process.wait()
        _, unit = self._heartbeat.read()
        if code == -signal.SIGKILL:
            message = "the process was killed, as the system does where memory runs out"
            return _Lost(unit, Loss(Status.MEMORY, message))
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        self._words.seek(0, 2)
        self._words.seek(max(0, self._words.tell() - _LAST_WORDS))
        words = self._words.read().decode(errors="replace").strip()
        # Failed allocations end a process in the middle of native code.
        status = Status.MEMORY if _ran_out_of_memory(words) else Status.FAILED
        return _Lost(
            unit, Loss(status, f"the process ended with {how}{': ' if words else ''}{words}")
        )


def _ran_out_of_memory(words: str) -> bool:
    return any(sign in words for sign in ("MemoryError", "bad_alloc", "allocate memory"))

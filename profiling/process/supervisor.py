"""Keeps the measuring process at work, and turns its crashes, hangs and hunger into records."""

from __future__ import annotations

import contextlib
import multiprocessing
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
from hetune.profiling.measure.record import GraphFacts, Stamp, record
from hetune.profiling.process.child import describe_end
from hetune.profiling.process.heartbeat import MEND_ROOM, SETTING_UP, Heartbeat
from hetune.profiling.process.messages import (
    Message,
    Order,
    Refusal,
    decode_message,
    encode,
)
from hetune.profiling.records import Measurement, Status
from hetune.profiling.units import Unit
from hetune.variants.errors import WorkerError

_COMMAND = (sys.executable, "-m", "hetune.profiling.process.measuring")
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class _Lost:
    """The unit that was at work when something was lost, and why that has no times."""

    unit: int
    loss: Loss
    with_process: bool = True


class Supervisor(Closeable):
    """Measures problems in a process of their own, and starts another when that one is lost.

    A context manager; the process starts with the first problem and is kept.

    Args:
        limits: Of every problem. A step of a unit that takes longer than `unit_seconds` is ended.
        seed: Of the inputs and the orders.
        command: Starts the process.
        clock: Seconds.

    Attributes:
        limits: As given; may be changed between problems.
        restarts: How many processes were lost.
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

        The unit that was at work when the process was lost is recorded as lost, and the others are
        measured again without it. Where no unit was at work, all that are left are lost.

        Raises:
            VariantError, CompileError: The problem is one of GPUs, and there is none, or no Triton.
            WorkerError: No process starts, or it can compile nothing; or there is no room for the
                files that it needs.
        """
        if units:
            place_of(units[0].problem.device)
        lost: dict[str, Loss] = {}
        found: dict[str, Measurement] = {}
        facts = GraphFacts()
        while left := [unit for unit in units if unit.variant not in lost]:
            variants = tuple(unit.variant for unit in left)
            order = Order(left[0].problem, variants, stamp, self.limits, self._seed)
            known, answer = self._ask(order)
            facts = known or facts
            if not isinstance(answer, _Lost):
                found = {measurement.variant: measurement for measurement in answer}
                break
            failed = variants if answer.unit == SETTING_UP else (variants[answer.unit],)
            lost |= dict.fromkeys(failed, answer.loss)
        return [
            found[unit.variant]
            if unit.variant in found
            else record(unit, stamp, facts, lost[unit.variant])
            for unit in units
        ]

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ask(self, order: Order) -> tuple[GraphFacts | None, list[Measurement] | _Lost]:
        is_fresh = self._process is None
        process = self._process = self._process or _Process(self._command, self._clock)
        try:
            facts, answer = process.ask(order, self._allowed, self.look)
        except BaseException:
            self.close()  # its answer would be taken for that to the next order
            raise
        if isinstance(answer, _Lost) and answer.with_process:
            begun = process.begun
            self.close()
            self.restarts += 1
            if not begun and is_fresh:
                raise WorkerError(
                    f"the process that measures does not start: {answer.loss.error}; mend that, or "
                    "try `python -c 'import hetune.profiling.process.measuring'`"
                )
            if not begun:  # it was lost while it had nothing to do
                return self._ask(order)
        return facts, answer

    def _allowed(self, unit: int) -> float:
        limits = self.limits
        return limits.setup_seconds if unit == SETTING_UP else limits.unit_seconds


class _Process:
    """A measuring process that runs.

    Raises:
        WorkerError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._steps = 0
        with contextlib.ExitStack() as undo:
            self._heartbeat = Heartbeat.create()
            undo.callback(self._heartbeat.close)
            try:
                self._output: IO[bytes] = undo.enter_context(tempfile.TemporaryFile())
                self._connection, theirs = multiprocessing.Pipe()
                undo.enter_context(self._connection)
                with theirs:
                    descriptors = self._heartbeat.descriptor, theirs.fileno()
                    self._process = subprocess.Popen(  # noqa: S603
                        [*command, *map(str, descriptors)],
                        stdin=subprocess.DEVNULL,
                        stdout=self._output,
                        stderr=self._output,
                        pass_fds=descriptors,
                    )
            except OSError as error:
                raise WorkerError(
                    f"the process that measures cannot be started ({error}): {MEND_ROOM}"
                ) from error
            self._open = undo.pop_all()

    @property
    def begun(self) -> bool:
        """Whether it has taken a step since the last order."""
        return self._heartbeat.read()[0] > self._steps

    def ask(
        self, order: Order, allowed: Callable[[int], float], look: Callable[[], None]
    ) -> tuple[GraphFacts | None, list[Measurement] | _Lost]:
        """Its answer to an order, and the facts of the graph if it came so far.

        Raises:
            WorkerError: It can compile nothing.
        """
        self._steps = self._heartbeat.read()[0]
        with contextlib.suppress(OSError):  # `_receive` finds out what happened
            self._connection.send_bytes(encode(order))
        facts = None
        while isinstance(message := self._receive(allowed, look), GraphFacts):
            facts = message
        if isinstance(message, Refusal):
            raise WorkerError(message.reason)
        if isinstance(message, Loss):
            return facts, _Lost(SETTING_UP, message, with_process=False)
        return facts, message

    def _receive(
        self, allowed: Callable[[int], float], look: Callable[[], None]
    ) -> Message | _Lost:
        """The next message; waits as long as steps take less than what their unit is allowed."""
        seen, since = self._heartbeat.read(), self._clock()
        while not self._connection.poll(_LOOK_SECONDS):
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
        try:
            return decode_message(self._connection.recv_bytes())
        except (EOFError, OSError):
            return self._death()
        except (ValueError, KeyError, TypeError) as error:
            reason = f"the process that measures sent what is no answer: {error!r}"
            return _Lost(self._heartbeat.read()[1], Loss(Status.FAILED, reason))

    def end(self) -> None:
        """Kills it, if it still runs."""
        self._process.kill()
        self._process.wait()
        self._open.close()

    def _death(self) -> _Lost:
        status = self._process.wait()
        _, unit = self._heartbeat.read()
        error = describe_end("the process", status, self._output)
        # Failed allocations end a process in the middle of native code.
        signs = ("MemoryError", "bad_alloc", "allocate memory")
        is_memory = status == -signal.SIGKILL or any(sign in error for sign in signs)
        return _Lost(unit, Loss(Status.MEMORY if is_memory else Status.FAILED, error))

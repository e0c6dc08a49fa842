"""Trains cost models for jobs, each in a process of its own that may be lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from hetune.profiling.process.child import describe_end
from hetune.profiling.workers.failures import ProcessLostError
from hetune.variants.errors import ModelError, WorkerError
from hetune.variants.kernel.device import Device

TRAINING_SECONDS = 3600.0
"""How long a training may take."""
TRAIN_COMMAND = (sys.executable, "-m", "hetune.profiling.workers.train_main")
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals of who stops a service with all its processes."""
_ERRORS: dict[str, type[Exception]] = {
    "data": ModelError,
    "machine": WorkerError,
    "unknown": ProcessLostError,
}
_LOOK_SECONDS = 0.2


class TrainingProcess:
    """Trains, when it is called; the process gives way to all others, and ends with this one.

    Args:
        store: Of the measurements, as `Store.open` takes it; by default HETUNE_STORE, or the
            user's.
        seconds: How long a training may take.
        look: Called a few times a second meanwhile; what it raises ends the training.
        command: Starts a training.
    """

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        seconds: float = TRAINING_SECONDS,
        look: Callable[[], None] = lambda: None,
        command: Sequence[str] = TRAIN_COMMAND,
    ) -> None:
        # Not an argument: everybody may read those, and a URL may hold a password.
        self._environment = {} if store is None else {"HETUNE_STORE": str(store)}
        self._seconds, self._look, self._command = seconds, look, tuple(command)

    def __call__(self, machine: str, device: Device = "cpu") -> str:
        """The id of a new candidate in the device's registry.

        Args:
            machine: Digest of the fingerprint of the machine to train for.
            device: What the measured variants are for.

        Raises:
            ModelError: There is none, and would be none the next time.
            ProcessLostError: The process was lost, or failed in a way that may pass.
            WorkerError: The machine could not train, or the process was told to stop.
        """
        with tempfile.TemporaryFile() as words:
            try:
                process = subprocess.Popen(  # noqa: S603
                    [*self._command, device, machine],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=words,
                    env=os.environ | self._environment,
                    process_group=0,  # Ctrl-C is the parent's, which ends this in order
                )
            except OSError as error:
                raise WorkerError(f"the process that trains cannot be started ({error})") from None
            with process:
                try:
                    self._wait(process)
                finally:
                    process.kill()
                assert process.stdout is not None
                return _model(process.stdout.read(), process.wait(), words)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + self._seconds
        while True:
            try:
                process.wait(_LOOK_SECONDS)
                return
            except subprocess.TimeoutExpired:
                self._look()
            if time.monotonic() > end:
                raise ModelError(f"training took longer than the limit of {self._seconds:g} s")


def _model(answer: bytes, status: int, words: IO[bytes]) -> str:
    """The model's id, of what the process answered and how it ended."""
    if -status in _STOPS:
        name = signal.Signals(-status).name
        raise WorkerError(f"the process that trains was told to stop ({name})")
    if status != 0:
        raise ProcessLostError(describe_end("the process that trains", status, words))
    found: dict[str, Any] = json.loads(answer)
    if "model" in found:
        return str(found["model"])
    raise _ERRORS[found["fault"]](found["error"])

"""A `hetune serve` of its own for a benchmark, on a free port of this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

_SERVE = "from hetune.clients.cli.start import main; main()"
_STOP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Serving:
    """A service that runs.

    Attributes:
        url: Where.
        process: Its process.
    """

    url: str
    process: psutil.Process


def own_megabytes(process: psutil.Process) -> float:
    """Anonymous memory of a process: what it has taken for itself, swapped out or not.

    Pages of files are left out: how many of a library's are resident, and how many of them a
    process has alone, changes with whoever else maps it.

    Raises:
        psutil.NoSuchProcess: It has ended.
    """
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(process.pid) from None
    lines = (line.split() for line in text.splitlines()[1:])
    kib = sum(int(words[1]) for words in lines if words[0] in ("Anonymous:", "Swap:"))
    return round(kib * 1024 / 1e6, 2)


@contextmanager
def hetune_serve(folder: Path, *options: str, threads: int) -> Iterator[Serving]:
    """A service over a folder while it lasts, its log in the file `log` there."""
    command = (sys.executable, "-c", _SERVE, "serve", "--port", "0", "--data", str(folder / "data"))
    with started(
        (*command, "--store", str(folder / "store.db"), "--threads", str(threads), *options), folder
    ) as serving:
        yield serving


@contextmanager
def started(command: Sequence[str], folder: Path) -> Iterator[Serving]:
    """A server while it lasts; its first line of output has its URL.

    Raises:
        RuntimeError: It does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != "HETUNE_API_KEY"}
    with (
        (folder / "log").open("a") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            found = [word for word in words if word.startswith("http://")]
            if not found:
                raise RuntimeError(f"the server has not started: see {folder / 'log'}")
            yield Serving(found[0], psutil.Process(process.pid))
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

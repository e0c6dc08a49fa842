"""Servers that are killed: a process that has imported everything forks one for each line.

``start FOLDER MOST`` starts one over a folder, whose files may have so many bytes (0 for any), and
prints its number and URL. ``wait PID`` prints how it ended.
"""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = "from tests.service._forked import main; main()"


class Forks:
    """The process that forks."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process

    def _ask(self, line: str) -> str:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def start(self, folder: Path, most: int = 0) -> tuple[int, str]:
        """Starts a server; gives its process's number and its URL."""
        pid, url = self._ask(f"start {folder} {most}").split()
        return int(pid), url

    def wait(self, pid: int) -> int:
        """Waits for a server's end; its exit code, or minus the signal that killed it."""
        return int(self._ask(f"wait {pid}"))

    def kill(self, pid: int) -> None:
        """Kills a server as `kill -9` does."""
        os.kill(pid, signal.SIGKILL)
        assert self.wait(pid) == -signal.SIGKILL


@contextmanager
def forks(log: Path) -> Iterator[Forks]:
    """A process that forks; what servers say goes to a file."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=HERE.parents[1],
        )
        with process:
            try:
                yield Forks(process)
            finally:
                process.stdin.close()
                process.wait(60)


def main() -> None:
    """What the process does."""
    from hetune.service.server.app import application  # all that a server needs

    assert application
    running = set()
    for line in sys.stdin:
        match line.split():
            case ["start", folder, most]:
                pid = os.fork()
                if pid == 0:
                    _serve(Path(folder), int(most))
                running.add(pid)
            case ["wait", pid]:
                _, status = os.waitpid(int(pid), 0)
                running.discard(int(pid))
                print(os.waitstatus_to_exitcode(status), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _serve(folder: Path, most: int) -> None:
    import threading

    from hetune.service.server import server
    from hetune.service.server.app import application

    from ._serving import make_service

    try:
        if most:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        service = make_service(folder)
        stopping = threading.Event()
        with server.bind("127.0.0.1", 0) as listener:
            server.run_until_told(
                server.Server(application(service, stopping=stopping), stopping=stopping),
                listener,
                lambda: print(os.getpid(), server.url_of(listener), flush=True),
            )
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(70)

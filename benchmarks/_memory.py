"""Peak memory of one candidate, measured in a process of its own.

`VmHWM` is the resident set's highest level since it was last reset through `clear_refs`. Linux
only, as it needs /proc.
"""

import ctypes
import gc
import multiprocessing
import resource
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from _cells import Cell
from _peers._torch_ops import WORKSPACE

from hetune.variants.exhaustion import is_out_of_memory

_STARTING = 60.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What one candidate did in a process of its own.

    Attributes:
        status: "ok", "out of memory", "failed" or "too slow".
        detail: Why, if not "ok".
        seconds: Of one warm call.
        peak_bytes: Highest level in a warm call above the level before the first call: temporaries
            and whatever the candidate keeps between calls.
        total_bytes: The same above the level before preprocessing: indexes count, too.
    """

    status: str
    detail: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    total_bytes: int = 0


def probe(cell: Cell, name: str, *, threads: int, limit_bytes: int, timeout: float) -> Probe:
    """Run candidate `name` three times in a fresh process that may use `limit_bytes` of data."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["_memory", "_registry", "torch_geometric.nn"])
    receiver, sender = context.Pipe(duplex=False)
    arguments = (sender, cell, name, threads, limit_bytes)
    process = context.Process(target=_child, args=arguments, daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(timeout + _STARTING):
            process.kill()
            return Probe("too slow", f"no answer within {timeout:.0f} s")
        found: Probe = receiver.recv()
        return found
    except EOFError:  # killed without a word: by the kernel for its memory, or a crash
        process.join()
        killed = process.exitcode == -9
        detail = f"the process ended with code {process.exitcode}"
        return Probe("out of memory" if killed else "failed", detail)
    finally:
        receiver.close()
        process.join(5)
        if process.is_alive():
            process.kill()


def _child(sender: Connection, cell: Cell, name: str, threads: int, limit_bytes: int) -> None:
    from _machine import set_threads

    set_threads(threads)
    try:
        result = _run(cell, name, limit_bytes)
    except Exception as error:  # a benchmark records what went wrong, whatever it was
        lost = is_out_of_memory(error)
        result = Probe("out of memory" if lost else "failed", describe(error))
    sender.send(result)


def _run(cell: Cell, name: str, limit_bytes: int) -> Probe:
    candidate = cell.find(name)
    tiny, problem = cell.tiny(), cell.problem()
    with cell.mode():
        candidate.build(tiny)()  # libraries and lazy imports take their memory
    WORKSPACE.clear()
    problem.make_inputs()
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    with cell.mode():
        before_build = _settle()
        run = candidate.build(problem)
        before = _settle()
        run()
        run()  # what only the first calls need is let go of by now
        _settle()
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
    high = _status("VmHWM")
    return Probe("ok", "", seconds, max(high - before, 0), max(high - before_build, 0))


def _settle() -> int:
    """Return freed memory to the system, reset the high-water mark; resident bytes."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def describe(error: BaseException) -> str:
    """Type and first line of an exception's message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"

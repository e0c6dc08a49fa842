"""What a request costs a service in this process: memory, errors that are kept, the event loop."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _resident(what: str) -> int:
    return int(re.search(rf"{what}:\s+(\d+) kB", _STATUS.read_text())[1]) << 10


@contextmanager
def growth() -> Iterator[SimpleNamespace]:
    """By how many bytes the process was larger meanwhile than before, at most."""
    _CLEAR.write_text("5")  # the highest number of pages begins anew
    before, found = _resident("VmRSS"), SimpleNamespace(bytes=0)
    try:
        yield found
    finally:
        found.bytes = _resident("VmHWM") - before


class Watch:
    """Asks a service again and again whether it is alive.

    Args:
        url: Where it is.

    Attributes:
        times: Seconds of each answer.
    """

    def __init__(self, url: str) -> None:
        self.times: list[float] = []
        self._url, self._over = url, threading.Event()

    def __enter__(self) -> "Watch":
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def slowest(self) -> float:
        """Seconds of the slowest answer."""
        return max(self.times, default=0.0)

    def share_above(self, seconds: float) -> float:
        """How many of the answers took longer."""
        return sum(found > seconds for found in self.times) / max(len(self.times), 1)

    def _ask(self) -> None:
        with httpx.Client(base_url=self._url, trust_env=False, timeout=60) as client:
            while not self._over.is_set():
                begun = time.perf_counter()
                assert client.get("/healthz").status_code == 200
                self.times.append(time.perf_counter() - begun)
                time.sleep(0.005)


def response_time(url: str) -> float:
    """Seconds of the slowest of some answers of a service that has nothing else to do."""
    with Watch(url) as watch:
        time.sleep(0.2)
    return watch.slowest

"""The command line called in-process, on tiny graphs; a clock."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from ._command import call

Hetune = Callable[..., Result]


class Clock:
    """Time that passes by waiting; drawn waits are as long as may be."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    async def wait_async(self, seconds: float) -> None:
        self.wait(seconds)


@pytest.fixture
def hetune() -> Hetune:
    """Calls the command line; the result has exit_code, stdout and stderr."""
    return call


@pytest.fixture(scope="session")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 nodes of two types, 120 edges of three."""
    path = tmp_path_factory.mktemp("graphs") / "tiny.npz"
    rng = np.random.default_rng(0)
    np.savez(
        path,
        src=rng.integers(0, 30, 120),
        dst=rng.integers(0, 30, 120),
        etype=rng.integers(0, 3, 120),
        ntype=np.repeat([0, 1], 15),
        ntype_names=np.array(["author", "paper"]),
    )
    return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clients' time, which only moves when they wait."""
    found = Clock()
    monkeypatch.setattr("hetune.clients.http.retries.monotonic", lambda: found.now)
    monkeypatch.setattr("hetune.clients.http.retries.uniform", lambda low, high: high)
    monkeypatch.setattr("hetune.clients.http.sender.sleep", found.wait)
    monkeypatch.setattr("hetune.clients.http.async_sender.sleep", found.wait_async)
    return found

"""A store of a test's own, and the queue of jobs in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as store:
        yield store


@pytest.fixture
def queue(store: Store) -> JobQueue:
    return JobQueue(store)

"""Nobody measures while somebody else does."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import filelock
import pytest

from hetune.profiling.measuring_lock import measuring_lock
from hetune.variants.errors import WorkerError


def test_a_lock_that_is_taken_is_waited_for_and_that_is_said(tmp_path, caplog):
    path, entered = tmp_path / "folder" / "lock", threading.Event()

    def measure():
        with measuring_lock(path):
            entered.set()

    with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.WARNING):
        with measuring_lock(path):
            other = pool.submit(measure)
            end = time.monotonic() + 30
            while not caplog.messages and time.monotonic() < end:
                time.sleep(0.01)
            assert not entered.is_set()
        other.result(timeout=30)
    assert entered.is_set()
    (said,) = caplog.messages
    assert f"waiting for {path}" in said


def test_whoever_does_not_wait_is_told_that_another_measures(tmp_path):
    with (
        measuring_lock(tmp_path / "lock") as first,
        measuring_lock(tmp_path / "lock", wait=False) as second,
    ):
        assert (first, second) == (True, False)
        with measuring_lock(tmp_path / "lock", wait=False) as third:
            assert not third  # the second has not given back what it did not have
    with measuring_lock(tmp_path / "lock", wait=False) as now:
        assert now


def test_whoever_measures_and_fails_gives_it_back(tmp_path):
    with pytest.raises(ZeroDivisionError), measuring_lock(tmp_path / "lock"):
        raise ZeroDivisionError
    with measuring_lock(tmp_path / "lock", wait=False) as now:
        assert now


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(WorkerError, match="make its folder writable"),
        measuring_lock(tmp_path / "file" / "l"),
    ):
        pytest.fail("measures all the same")


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(WorkerError, match="cannot lock"), measuring_lock(tmp_path / "lock"):
        pytest.fail("measures all the same")


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def acquire(self, timeout=None):
        raise NotImplementedError("no flock")

    monkeypatch.setattr(filelock.FileLock, "acquire", acquire)
    with (
        pytest.raises(WorkerError, match="file system with locks"),
        measuring_lock(tmp_path / "lock"),
    ):
        pytest.fail("measures all the same")

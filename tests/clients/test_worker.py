"""`hetune worker`: works on jobs, and ends in order."""

import os
import signal
import subprocess
import sys

import pytest

from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.store.store import Store
from hetune.profiling.testing.jobs import some_units

COMMAND = (sys.executable, "-c", "from hetune.clients.cli.app import main; main()", "worker")


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "data"))
    return tmp_path / "store.db"


def test_it_stops_when_there_is_nothing_to_do(hetune, path):
    with Store.open(path) as store:
        queue = JobQueue(store)
        job = queue.submit_units("mine", some_units(1))
        before = signal.getsignal(signal.SIGTERM)
        result = hetune("worker", "--store", path, "--once")
        assert (result.exit_code, result.stdout.strip()) == (0, f"working on jobs in {path}")
        assert signal.getsignal(signal.SIGTERM) is before
        # No hetune has such variants.
        assert queue.get(job.id).state is State.FAILED


def test_it_works_until_it_is_told_to_stop(path):
    environment = os.environ | {"XDG_DATA_HOME": str(path.parent)}
    process = subprocess.Popen(
        (*COMMAND, "--store", str(path)), stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == f"working on jobs in {path}\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130


def test_a_store_that_cannot_be_used(hetune, tmp_path):
    result = hetune("worker", "--store", tmp_path)
    assert result.exit_code != 0
    assert "Is a directory" in result.stderr

"""`hetune worker`: works on jobs, and ends in order."""

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.profiling._made_up import measurement, some_units, tasks_of_job

from hetune.clients.cli import worker as command
from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.corpus import recipe
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.measure.problem import units_of
from hetune.profiling.records import Status
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec
from hetune.variants.errors import StoreError
from hetune.variants.frontend.presets import labeled_preset

COMMAND = (sys.executable, "-c", "from hetune.clients.cli.start import main; main()", "worker")


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


def test_it_waits_for_a_store_that_is_away(hetune, path, monkeypatch, caplog):
    """But not if it is to stop when there is nothing to do, nor for what will never be one."""
    real, errors, waited = Store.open, [], []

    def open_store(url):
        if errors:
            raise errors.pop()
        return real(url)

    def wait(seconds):
        if not errors:
            raise KeyboardInterrupt  # it is there, and nothing is to be done
        waited.append(seconds)
        return False

    monkeypatch.setattr(Store, "open", open_store)
    monkeypatch.setattr(command, "_wait", wait)

    def away(may_pass):
        error = StoreError("it is away")
        error.may_pass = may_pass
        return error

    errors += [away(True)] * 3
    result = hetune("worker", "--store", path)
    assert (result.exit_code, waited) == (130, [1, 2])
    assert "the worker waits for its store: it is away; tried again in 2 s" in caplog.text
    for may_pass, options in ((True, ("--once",)), (False, ())):
        errors += [away(may_pass)]
        result = hetune("worker", "--store", path, *options)
        assert (result.exit_code, "it is away" in result.stderr) == (1, True)


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


def test_it_trains_unless_it_is_told_not_to(hetune, path):
    """What is known is not measured again; it is nothing to train on."""
    graph = recipe("tiny", "typed", options={"nodes": 30, "edges": 90})
    [unit] = units_of(ProblemSpec(graph, labeled_preset("rgcn", 4, 4, 1), 1))[:1]
    machine = this_machine()
    with Store.open(path) as store:
        failed = measurement(unit=unit.key, machine=machine.digest, status=Status.FAILED)
        store.add([failed], machine)
        queue = JobQueue(store)
        job = queue.submit_units("mine", [unit], retrain=True)
        assert hetune("worker", "--store", path, "--once", "--no-train").exit_code == 0
        assert [u.state for u in tasks_of_job(queue, job.id)] == [State.SUCCEEDED, State.QUEUED]
        assert hetune("worker", "--store", path, "--once").exit_code == 0
        found = queue.get(job.id)
    assert (found.state, "to train on" in found.error) == (State.FAILED, True), found.error


def test_it_says_what_lets_a_ray_node_measure(hetune):
    result = hetune("worker", "--ray-resources")
    assert json.loads(result.stdout) == {f"hetune:{this_machine().digest}": 1}


def test_a_cluster_needs_ray(hetune, path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    result = hetune("worker", "--store", path, "--ray")
    assert (result.exit_code, "pip install '.[ray]'" in result.stderr) == (2, True)
    result = hetune("worker", "--store", path, "--address", "auto")
    assert (result.exit_code, "--address needs --ray" in result.stderr) == (2, True)


def test_a_store_that_cannot_be_used(hetune, tmp_path):
    result = hetune("worker", "--store", tmp_path)
    assert result.exit_code != 0
    assert "Is a directory" in result.stderr

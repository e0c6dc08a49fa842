"""A store whose users come and go: what a service has acknowledged is there afterwards, whole."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import httpx
import pytest

from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.store.store import Store

COMMAND = (sys.executable, "-c", "from hetune.clients.cli.start import main; main()")
GRAPH = {"kind": "typed", "nodes": 30, "edges": 90}
CAMPAIGN = {"layers": ["rgcn"], "widths": [4], "threads": [1], "graphs": [GRAPH]}
CAMPAIGN |= {"name": "tiny", "variants": "vanilla*"}


@contextmanager
def serving(environment, folder):
    """A service without a worker, until SIGTERM; gives a client of it."""
    arguments = ("--no-worker", "--port", "0", "--data", str(folder))
    service = subprocess.Popen(
        (*COMMAND, "serve", *arguments), stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+", service.stdout.readline())[0]
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client
    finally:
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=60)
    assert service.returncode == 0


def submit(client):
    """The number of a job that the service has acknowledged."""
    answer = client.post("/v1/profiling/jobs", json={"campaign": CAMPAIGN})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def integrity(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall()


@pytest.mark.slow
def test_jobs_outlive_backups_workers_and_stops(tmp_path):
    path = tmp_path / "store.db"
    own = {"HETUNE_STORE": str(path), "HETUNE_API_KEY": "", "XDG_DATA_HOME": str(tmp_path)}
    environment = os.environ | own

    def hetune(*arguments):
        subprocess.run((*COMMAND, *arguments), env=environment, check=True)

    with serving(environment, tmp_path / "data") as client:
        jobs = [submit(client)]
        hetune("store", "backup", str(tmp_path / "backup.db"))
        jobs += [submit(client) for _ in range(3)]
        hetune("worker", "--once")
        listed = client.get("/v1/profiling/jobs").json()["jobs"]
        assert sorted(job["id"] for job in listed) == jobs
    assert integrity(path) == [("ok",)]
    with Store.open(path) as store:
        found = {job.id: job.state for job in JobQueue(store).list()}
        assert found == dict.fromkeys(jobs, State.SUCCEEDED)
        units = [measurement.unit for measurement in store.measurements()]
        assert len(units) == len(set(units)) > 0

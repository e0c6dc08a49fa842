"""Jobs with `retrain` where workers only measure: `hetune serve --no-worker` trains."""

import os
import re
import subprocess
import sys
import time

import pytest

from hetune.clients import Client
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.corpus import recipe
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.measure.problem import units_of
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec
from hetune.variants.frontend.presets import labeled_preset

COMMAND = (sys.executable, "-c", "from hetune.clients.cli.start import main; main()")
VARIANTS = ("vanilla/b256", "src/b256", "dst+separate-sums/b256")
SECONDS = 900
"""Training gives way to all others on the machine, and so to the tests beside this one."""


def units(problems):
    """Variants that each bring a fused launch of their own, on tiny graphs of three families.

    Problems that are measured on a busy machine may not count: half of them are enough, even
    without the family that is held out.
    """
    found = []
    for n in range(problems):
        options = {"nodes": 60 + 20 * n, "edges": 200 + 50 * n, "seed": n}
        graph = recipe(f"g{n}", "typed", options=options, family=f"f{n % 3}")
        every = units_of(ProblemSpec(graph, labeled_preset("rgcn", 4, 4, 1), 1))
        found += [unit for unit in every if unit.variant in VARIANTS]
    return found


def ended(queue, job):
    """A job, once it is final."""
    end = time.monotonic() + SECONDS
    while not queue.get(job.id).state.is_final and time.monotonic() < end:
        time.sleep(0.1)
    return queue.get(job.id)


@pytest.mark.slow
def test_the_service_trains_what_others_measured(tmp_path):
    own = {"HETUNE_STORE": "", "HETUNE_API_KEY": "", "HETUNE_MODELS": str(tmp_path / "models")}
    there = os.environ | own | {"XDG_DATA_HOME": str(tmp_path / "there")}
    here = os.environ | own | {"XDG_DATA_HOME": str(tmp_path / "here")}
    path = tmp_path / "store.db"
    arguments = ("--no-worker", "--port", "0", "--data", str(tmp_path / "data"))
    service = subprocess.Popen(
        (*COMMAND, "serve", *arguments, "--store", str(path)),
        stdout=subprocess.PIPE,
        text=True,
        env=here,
    )
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+", service.stdout.readline())[0]
        with Store.open(path) as store:
            queue = JobQueue(store)
            job = queue.submit_units("enough", units(18), retrain=True)
            work = (*COMMAND, "worker", "--store", str(path), "--no-train", "--once")
            subprocess.run(work, env=there, check=True)
            job = ended(queue, job)
        with Client(url) as client:
            listed = client.cost_models.list()
    finally:
        service.terminate()
        service.communicate(timeout=60)
    assert (job.state, job.error) == (State.SUCCEEDED, "")
    assert job.machine == this_machine().digest
    assert listed.candidate == job.model
    assert ModelRegistry(tmp_path / "models").find("candidate") == job.model
    assert service.returncode == 0

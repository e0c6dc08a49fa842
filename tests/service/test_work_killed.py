"""Workers over HTTP that are killed, and one that wakes up too late."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import Trains
from hetune.service.core.work import Lending
from hetune.service.http.app import application

from ._serving import serving

SCRIPT = Path(__file__).parents[1] / "profiling" / "killed_jobs.py"
KILLS = 8
SECONDS = 120


def test_killed_workers(service, tmp_path):
    """SIGKILL at random points of requests: all is measured in the end, and nothing twice."""
    store = service.measurements.store
    leases = Leases(store, seconds=0.3, attempts=1000, trains=Trains.NOTHING)
    app = application(replace(service, lending=Lending(lambda: leases)))
    with serving(app) as url:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "loop", store.place, str(KILLS), url],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert f"{KILLS} workers killed" in done.stdout

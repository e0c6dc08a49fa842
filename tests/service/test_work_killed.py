"""Workers over HTTP that are killed, and one that wakes up too late."""

from dataclasses import replace

from tests.full import FULL
from tests.profiling._forked import run as forked

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.records import Trains
from hetune.service.core.jobs.work_leases import WorkLeases
from hetune.service.server.app import application

from ._serving import serving

KILLS = 8 if FULL else 4


def run(service, mode, *arguments):
    """The script over a service whose leases are short."""
    store = service.measurements.store
    leases = Leases(store, seconds=2, attempts=1000, trains=Trains.NOTHING)
    app = application(replace(service, work_leases=WorkLeases(lambda: leases)))
    with serving(app) as url:
        done = forked("killed_jobs", mode, store.place, *arguments, url)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_killed_workers(service):
    """SIGKILL at random points of requests: all is measured in the end, and nothing twice."""
    assert f"{KILLS} workers killed" in run(service, "loop", str(KILLS))


def test_a_worker_that_wakes_up_too_late(service):
    """It is refused, and what it brings does not count."""
    assert run(service, "sleep") == "refused\n"

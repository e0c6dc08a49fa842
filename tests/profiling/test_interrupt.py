"""Campaigns that are killed again and again: no unit is lost, and none counts twice."""

import random
import runpy
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.records import Status
from hetune.profiling.store.store import Store

SCRIPT = Path(__file__).with_name("tiny_campaign.py")
KILLS = 20


def start(store: Path) -> subprocess.Popen[str]:
    command = (sys.executable, str(SCRIPT), str(store))
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Kills a campaign and nothing else; the processes that it had started."""
    started = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    process.stdout.close()
    return started


@pytest.mark.slow
def test_killed_twenty_times(tmp_path):
    draw = random.Random(20)
    path = tmp_path / "store.db"
    progress = [0]
    for number in range(KILLS):
        process = start(path)
        # Every third is killed as it starts, the others in the middle of their work.
        seconds = draw.uniform(0, 1.5) if number % 3 == 0 else draw.uniform(0, 0.1)
        reports = 0 if number % 3 == 0 else draw.randint(1, 4)
        told = [process.stdout.readline() for _ in range(reports)]
        time.sleep(seconds)
        assert process.poll() is None, "the campaign ended: give it more graphs"
        started = kill(process)
        # Whoever measures on would disturb the next run.
        _, alive = psutil.wait_procs(started, timeout=60)
        assert not alive
        with Store.open(path) as store:
            done = len(store.done(this_machine().digest))
        assert done >= max([*map(int, told), progress[-1]]), "a unit is lost"
        progress.append(done)
    assert len(set(progress)) > KILLS / 2, "most runs were killed before they stored anything"

    last = start(path)
    told, _ = last.communicate()
    assert last.returncode == 0
    assert int(told.split()[0]) == progress[-1]
    wanted = [unit.key for unit in runpy.run_path(str(SCRIPT))["units"]()]
    with Store.open(path) as store:
        found = list(store.measurements())
    assert sorted(m.unit for m in found) == sorted(wanted)
    assert {m.status for m in found} == {Status.OK}

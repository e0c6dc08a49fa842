"""Campaigns that are killed again and again: no unit is lost, and none counts twice."""

import os
import random
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.full import FULL

from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.records import Status
from hetune.profiling.store.store import Store

SCRIPT = Path(__file__).with_name("tiny_campaign.py")
KILLS = 20 if FULL else 3


class Campaigns:
    """Campaigns into one store, one after the other."""

    def __init__(self, process: subprocess.Popen[str], store: Path) -> None:
        self._process, self._store = process, store

    def start(self) -> int:
        """Starts one; its process's number."""
        self._process.stdin.write(f"{self._store}\n")
        self._process.stdin.flush()
        return int(self.told())

    def told(self) -> str:
        """The next line that it says."""
        return self._process.stdout.readline()

    def told_to_its_end(self) -> list[str]:
        """All lines that it says yet; the last one is how it ended."""
        lines = [self.told()]
        while not lines[-1].startswith("ended"):
            assert lines[-1], "who starts the campaigns has died"
            lines.append(self.told())
        return lines

    def kill(self, pid: int) -> list[psutil.Process]:
        """Kills one and nothing else; the processes that it had started."""
        started = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
        assert self.told_to_its_end()[-1] == f"ended {-signal.SIGKILL}\n"
        return started


@pytest.fixture
def campaigns(tmp_path):
    """Campaigns into a new store."""
    command = (sys.executable, str(SCRIPT))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield Campaigns(process, tmp_path / "store.db")
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()


@pytest.mark.slow
def test_killed_again_and_again(campaigns, tmp_path):
    draw = random.Random(20)
    progress = [0]
    for number in range(KILLS):
        pid = campaigns.start()
        # Every third is killed as it starts, the others in the middle of their work.
        seconds = draw.uniform(0, 1.5) if number % 3 == 0 else draw.uniform(0, 0.1)
        reports = 0 if number % 3 == 0 else draw.randint(1, 4)
        told = [campaigns.told() for _ in range(reports)]
        time.sleep(seconds)
        assert psutil.pid_exists(pid), "the campaign ended: give it more graphs"
        started = campaigns.kill(pid)
        # Whoever measures on would disturb the next run.
        _, alive = psutil.wait_procs(started, timeout=60)
        assert not alive
        with Store.open(tmp_path / "store.db") as store:
            done = len(store.done(this_machine().digest))
        assert done >= max([*map(int, told), progress[-1]]), "a unit is lost"
        progress.append(done)
    assert len(set(progress)) > KILLS / 2, "most runs were killed before they stored anything"

    campaigns.start()
    told = campaigns.told_to_its_end()
    assert told[-1] == "ended 0\n"
    assert int(told[0]) == progress[-1]
    wanted = [unit.key for unit in runpy.run_path(str(SCRIPT))["units"]()]
    with Store.open(tmp_path / "store.db") as store:
        found = list(store.measurements())
    assert sorted(m.unit for m in found) == sorted(wanted)
    assert {m.status for m in found} == {Status.OK}

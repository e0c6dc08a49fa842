"""Workers of the GPU's check: results come back, and one that dies or hangs loses one unit."""

import sys
import time

import _gpu_units
import _gpu_workers
import pytest
from _gpu_units import Held, Unit, work
from _gpu_workers import side_by_side

WORKER = """
import json, os, sys, time
for line in sys.stdin:
    key = line.strip()
    if key == "dies":
        os._exit(9)
    if key == "hangs":
        time.sleep(60)
    print(json.dumps({"key": key, "process": os.getpid()}), flush=True)
"""
COMMAND = [sys.executable, "-c", WORKER]


def run(keys, jobs=1, deadline=None):
    deadline = time.monotonic() + 60 if deadline is None else deadline
    return dict(side_by_side(keys, jobs, deadline, COMMAND))


def test_each_unit_has_its_result_from_as_many_processes_as_jobs():
    found = run([f"unit {n}" for n in range(20)], jobs=3)
    assert {key: result["key"] for key, result in found.items()} == {key: key for key in found}
    assert len(found) == 20
    assert 1 <= len({result["process"] for result in found.values()}) <= 3


def test_a_worker_that_dies_loses_its_unit_alone():
    found = run(["one", "dies", "two"])
    assert found["dies"] == {"failed": "its process ended with status 9 and no result"}
    assert found["one"]["process"] != found["two"]["process"]


def test_a_worker_that_hangs_is_killed(monkeypatch):
    monkeypatch.setattr(_gpu_workers, "WORKER_S", 0.5)
    found = run(["hangs", "one"])
    assert "status -9" in found["hangs"]["failed"]
    assert found["one"]["key"] == "one"


def test_no_unit_begins_after_the_deadline():
    assert run(["one", "two"], deadline=time.monotonic() - 1) == {}


@pytest.mark.parametrize(
    ("together", "order"),
    [(0.0, ["rates", "right", "left", "peers"]), (60.0, ["rates", "right", "peers", "left"])],
)
def test_what_decides_most_comes_first_and_last(together, order, monkeypatch, tmp_path):
    """What need not run alone has a part of the time, and what is left in the end."""
    now, stages = [0.0], []

    def started(keys, jobs, deadline):
        for key in keys:
            if now[0] <= deadline:
                now[0] += together if jobs > 1 else 1.0
                stages.append((key, jobs))
                yield key, {}

    monkeypatch.setattr(_gpu_units, "side_by_side", started)
    monkeypatch.setattr(_gpu_units.time, "monotonic", lambda: now[0])
    units = [
        Unit(key, dict, alone=key in ("rates", "peers"))
        for key in ("rates", "right", "left", "peers")
    ]
    held = Held(tmp_path / "held.json", {}, None)
    assert work(units, held, device="cpu", limit=100.0, jobs=3) == 0
    assert [key for key, _ in stages] == order
    assert dict(stages) == {"rates": 1, "right": 3, "left": 3, "peers": 1}
    assert list(held.units) == order


def test_results_of_an_earlier_commit_stay_until_they_are_taken_again(tmp_path):
    path, units = tmp_path / "held.json", [Unit("one", dict), Unit("two", dict)]
    assert work(units, Held(path, {}, "old"), device="cpu") == 0
    held = Held(path, {}, "new")
    assert work(units[:1], held, device="cpu") == 0
    assert {key: unit["commit"] for key, unit in held.units.items()} == {"one": "new", "two": "old"}
    assert work(units, held, device="cpu", limit=-1.0) == 3
    assert not Held(path, {"card": "another"}, "new").units

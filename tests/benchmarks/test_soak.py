"""The slope of a service's memory, and a short soak end to end."""

import json
import mmap
import os
import random
from dataclasses import replace

import psutil
import pytest
from tests.full import whole

pytest.importorskip("httpx")

import soak
from _serve import own_megabytes

START = soak.Sample(0.0, 0, 300.0, 200.0, 50.0, 1.0, 8, 12)


def grown(mb_per_hour, warm_up=100.0):
    """Ten minutes of samples that grow after a warm-up in which they jump, some of them off."""
    noise = random.Random(0)
    found = []
    for second in range(0, 600, 5):
        grows = mb_per_hour * second / 3600 if second >= warm_up else -100.0
        spike = 40.0 if second % 50 == 0 else noise.uniform(-0.01, 0.01)
        found.append(replace(START, seconds=float(second), own=200.0 + grows + spike))
    return found


@pytest.mark.parametrize("mb_per_hour", [0.0, 0.5, 12.0, -3.0])
def test_the_slope_is_that_after_the_warm_up_whatever_single_samples_say(mb_per_hour):
    found = soak.slope(grown(mb_per_hour), "own", 100.0)
    assert found["mb_per_hour"] == pytest.approx(mb_per_hour, abs=0.05)
    assert found["low"] <= found["mb_per_hour"] <= found["high"]


def test_too_few_samples_have_no_slope():
    assert soak.slope([START, replace(START, seconds=9.0)], "own", 0.0) is None


def test_a_process_owns_what_it_wrote_to_and_not_the_files_that_it_maps(tmp_path):
    here, size = psutil.Process(os.getpid()), 64_000_000
    file = tmp_path / "file"
    file.write_bytes(bytes(size))
    before = own_megabytes(here)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[::4096]) == 0  # every page of it is resident
        assert own_megabytes(here) - before < 32
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as taken:
        taken.write(b"x" * size)
        assert own_megabytes(here) - before > 48


def test_a_process_that_has_ended_owns_nothing():
    child = psutil.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(psutil.NoSuchProcess):
        own_megabytes(child)  # not yet waited for
    child.wait()
    with pytest.raises(psutil.NoSuchProcess):
        own_megabytes(child)


@whole
@pytest.mark.slow
def test_a_short_soak_is_answered_as_expected_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(soak, "_TOLD_EVERY", 2.0)
    out = tmp_path / "soak.json"
    arguments = ["--minutes", "0.4", "--warm-up", "0.01", "--rate", "20", "--every", "0.5"]
    soak.main([*arguments, "--out", str(out)])  # kernels are compiled: memory may well grow
    record = json.loads(out.read_text())
    assert record["failures"] == []
    assert sum(record["requests"].values()) >= 2
    assert record["slopes"]["rss"]["mb_per_hour"] is not None
    assert len(record["samples"][0]) == len(record["fields"])
    assert "0 failed" in capsys.readouterr().out

"""`hetune profile`: what it shows, keeps and hands on. Measuring itself is tested elsewhere."""

import errno
import itertools
import os
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from tests.profiling._made_up import measurement

from hetune.clients.cli import profile as command
from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.campaign import load, units
from hetune.profiling.campaign.run import CampaignProgress
from hetune.profiling.records import Status
from hetune.profiling.store.problems import problems
from hetune.profiling.store.store import Store
from hetune.variants.errors import StoreError

CAMPAIGN = """
layers = ["rgcn"]
squared = [4]
threads = 1
variants = "vanilla/*"

[[graphs]]
kind = "clique"
nodes = 6
etypes = 2

[[graphs]]
kind = "road"
nodes = 9
"""


@pytest.fixture
def campaign(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(CAMPAIGN)
    return path


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def runs(monkeypatch):
    """Stands in for the runner: the endings of the units it is asked for, and what it was given."""
    given = {}

    def use(endings, after=lambda done: None):
        def run_units(units, name, store, *, limits, progress):
            given.update(units=units, name=name, limits=limits)
            fingerprint = this_machine()
            known = store.done(fingerprint.digest)
            left = [unit for unit in units if unit.key not in known]
            done = len(units) - len(left)
            progress(CampaignProgress(done, len(units), None, None))
            endings_left = iter(endings)
            for unit in left:
                status = next(endings_left, Status.OK)
                found = measurement(
                    unit=unit.key,
                    machine=fingerprint.digest,
                    campaign=name,
                    status=status,
                    variant=unit.variant,
                    program=unit.problem.program,
                )
                store.add([found], fingerprint)
                done += 1
                after(done)
                progress(
                    CampaignProgress(done, len(units), 60.0 * (len(units) - done), unit.problem)
                )

        monkeypatch.setattr(command, "run_units", run_units)
        return given

    return use


def counts(output: str) -> dict[str, int]:
    found = {}
    for line in output.splitlines():
        name, _, count = line.strip().rpartition(" ")
        if count.replace(",", "").isdigit():
            found[name.strip()] = int(count.replace(",", ""))
    return found


def test_a_campaign_is_measured_once(hetune, campaign, store):
    first = hetune("profile", campaign, "--store", store)
    assert first.exit_code == 0, first.output
    assert counts(first.stdout) == {"measured before": 0, "measured now": 6, "left": 0}
    assert f"records are in {store}" in first.stdout
    with Store.open(store) as opened:
        found = list(opened.measurements())
    assert [m.status for m in found] == [Status.OK] * 6
    assert {m.campaign for m in found} == {"mine"}
    assert {m.graph for m in found} == {"clique-0", "road-1"}
    again = hetune("profile", campaign, "--store", store)
    assert counts(again.stdout) == {"measured before": 6, "measured now": 0, "left": 0}


def test_single_kernels_are_measured_into_the_store(hetune, store, tmp_path):
    path = tmp_path / "kernels.toml"
    path.write_text(
        CAMPAIGN.replace('layers = ["rgcn"]', 'kernels = ["linear", "aggregate", "attention"]')
    )
    dry = hetune("profile", path, "--store", store, "--dry-run")
    assert "kernels: 18 units of 6 problems on 2 graphs, less than a minute" in dry.stdout
    result = hetune("profile", path, "--store", store)
    assert result.exit_code == 0, result.output
    assert counts(result.stdout) == {"measured before": 0, "measured now": 18, "left": 0}
    with Store.open(store) as opened:
        found = list(opened.measurements())
        assert problems(opened) == ()
        assert len(problems(opened, programs={m.program for m in found})) == 6
    assert {m.status for m in found} == {Status.OK}
    assert {(m.program.label, *(launch.family for launch in m.launches)) for m in found} == {
        ("linear", "product"),
        ("aggregate", "traversal"),
        ("attention", "traversal"),
    }
    trained = hetune("train", "--store", store)
    assert trained.exit_code != 0
    assert "holds no measurements of layers for the device 'cpu' to train on" in trained.stderr


def test_what_the_campaign_says_is_handed_on(hetune, campaign, store, runs):
    campaign.write_text(f"{CAMPAIGN}[limits]\nrounds = 9\n")
    given = runs([])
    result = hetune("profile", campaign, "--store", store, "--name", "other")
    assert result.exit_code == 0, result.output
    assert given["name"] == "other"
    assert given["limits"].rounds == 9
    assert [unit.key for unit in given["units"]] == [u.key for u in units(load(campaign))]


def test_all_threads_are_those_that_are_asked_for(hetune, campaign, store, runs):
    campaign.write_text(CAMPAIGN.replace("threads = 1", 'threads = "all"'))
    given = runs([])
    assert hetune("profile", campaign, "--store", store, "--threads", 1).exit_code == 0
    assert {unit.problem.threads for unit in given["units"]} == {1}


def test_some_units_are_measured_and_no_more_when_asked_again(hetune, campaign, store):
    first = hetune("profile", campaign, "--store", store, "--units", 3)
    assert first.exit_code == 0, first.output
    assert counts(first.stdout) == {"measured before": 0, "measured now": 3, "left": 0}
    again = hetune("profile", campaign, "--store", store, "--units", 3)
    assert counts(again.stdout) == {"measured before": 3, "measured now": 0, "left": 0}
    more = hetune("profile", campaign, "--store", store, "--units", 4)
    assert counts(more.stdout) == {"measured before": 3, "measured now": 1, "left": 0}
    rest = hetune("profile", campaign, "--store", store)
    assert counts(rest.stdout) == {"measured before": 4, "measured now": 2, "left": 0}


def test_endings_are_counted_and_failures_named(hetune, campaign, store, runs):
    runs([Status.WRONG, Status.TIMEOUT, Status.FAILED, Status.MEMORY])
    result = hetune("profile", campaign, "--store", store)
    assert result.exit_code == 0, result.output
    assert counts(result.stdout) == {
        "measured before": 0,
        "measured now": 2,
        "wrong output": 1,
        "too slow": 1,
        "too little memory": 1,
        "failed": 1,
        "left": 0,
    }
    assert [line.partition(": ")[0] for line in result.stderr.splitlines()] == ["wrong", "failed"]
    assert "it failed" in result.stderr


def test_an_interrupt_loses_nothing_and_says_how_to_go_on(hetune, campaign, store, runs):
    def interrupt(done):
        if done == 3:
            raise KeyboardInterrupt

    runs([], after=interrupt)
    result = hetune("profile", campaign, "--store", store)
    assert result.exit_code == 130
    assert counts(result.stdout) == {"measured before": 0, "measured now": 3, "left": 3}
    assert "interrupted: nothing is lost; the same command goes on with the rest" in result.stdout
    runs([])
    result = hetune("profile", campaign, "--store", store)
    assert counts(result.stdout) == {"measured before": 3, "measured now": 3, "left": 0}
    assert "goes on" not in result.stdout


def test_a_limit_of_minutes_ends_it_in_time(hetune, campaign, store, runs, monkeypatch):
    now = itertools.count(0, 10)  # seconds from one look at the clock to the next
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(now)))
    runs([])
    result = hetune("profile", campaign, "--store", store, "--limit-minutes", 1)
    assert result.exit_code == 0, result.output
    found = counts(result.stdout)
    assert 0 < found["measured now"] < 6
    assert found["left"] == 6 - found["measured now"]
    assert "the time is up: nothing is lost; the same command goes on with the rest" in (
        result.stdout
    )


def test_a_failing_store_still_leaves_a_summary(hetune, campaign, store, runs):
    def fail(done):
        if done == 2:
            raise StoreError("the disk is full: free some space")

    runs([], after=fail)
    result = hetune("profile", campaign, "--store", store)
    assert (result.exit_code, result.stderr) == (1, "error: the disk is full: free some space\n")
    assert counts(result.stdout) == {"measured before": 0, "measured now": 2, "left": 4}


def test_what_others_measure_meanwhile_is_not_left(hetune, campaign, store, monkeypatch):
    def run_units(units, name, store, *, limits, progress):
        fingerprint = this_machine()
        progress(CampaignProgress(0, len(units), None, None))
        store.add([measurement(unit=units[0].key, machine=fingerprint.digest)], fingerprint)
        progress(CampaignProgress(len(units), len(units), 0.0, units[-1].problem))

    monkeypatch.setattr(command, "run_units", run_units)
    result = hetune("profile", campaign, "--store", store)
    assert result.exit_code == 0, result.output
    assert counts(result.stdout) == {
        "measured before": 0,
        "measured now": 1,
        "measured by others": 5,
        "left": 0,
    }


def test_where_nobody_watches_a_line_now_and_then_says_the_time_left(
    hetune, campaign, store, runs, monkeypatch
):
    now = itertools.count(0, 31)  # seconds from one look at the clock to the next
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(now)))
    runs([])
    result = hetune("profile", campaign, "--store", store)
    assert result.stderr.splitlines() == [
        "1 of 6 units, 5 min left",
        "3 of 6 units, 3 min left",
        "5 of 6 units, 1 min left",
    ]


def test_a_full_disk_ends_it_in_one_line(hetune, campaign, store, monkeypatch):
    def no_room(descriptor, offset, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.posix_fallocate", no_room)
    result = hetune("profile", campaign, "--store", store)
    assert result.exit_code == 1
    assert result.stderr.endswith(
        "error: no temporary file can be made ([Errno 28] No space left on device): free some "
        "space, or name another folder for temporary files by TMPDIR\n"
    )
    assert counts(result.stdout) == {"measured before": 0, "measured now": 0, "left": 6}


def test_records_are_exported(hetune, campaign, store, runs, tmp_path):
    runs([Status.TIMEOUT])
    path = tmp_path / "records.parquet"
    result = hetune("profile", campaign, "--store", store, "--export", path)
    assert result.exit_code == 0, result.output
    assert f"wrote 6 records to {path}" in result.stdout
    assert pq.read_table(path)["status"].to_pylist().count("ok") == 5


def test_a_dry_run_measures_nothing(hetune, campaign, store):
    result = hetune("profile", campaign, "--store", store, "--dry-run", "--units", 3)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["clique", "1", "28", "1", "3"] in [row[:5] for row in rows]
    assert "mine: 6 units of 2 problems on 2 graphs, less than a minute" in result.stdout
    assert "3 units of these will be measured" in result.stdout
    assert not store.exists()


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--units", 3)])
def test_a_campaign_that_measures_nothing_is_an_error(more, hetune, campaign, store):
    campaign.write_text(CAMPAIGN.replace("vanilla/*", "vanila/*"))
    result = hetune("profile", campaign, "--store", store, *more)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error: the campaign 'mine' has nothing to measure: no variant of its programs has an id "
        "that matches 'vanila/*': take another pattern"
    )
    assert not store.exists()


def test_without_a_gpu_nothing_is_begun(hetune, campaign, store, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = hetune("profile", campaign, "--store", store, "--device", "cuda")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no GPU: torch sees none here")
    assert not store.exists()


def test_a_dry_run_needs_no_gpu_and_foretells_no_time(hetune, campaign, store):
    result = hetune("profile", campaign, "--store", store, "--dry-run", "--device", "cuda")
    assert result.exit_code == 0, result.output
    assert "minutes" not in result.stdout
    assert "on a GPU, for which no time is foretold" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("nosuch",),
            "nosuch cannot be read (No such file or directory): give the path of a TOML or JSON "
            "file, or one of smoke, default, full, gpu",
        ),
        (("smoke", "--limit-minutes", 0), "--limit-minutes 0: take more than 0"),
        (
            ("smoke", "--export", "no/such/file"),
            "--export no/such/file: name a file in a folder that exists",
        ),
        (("smoke", "--units", 0), "--units 0: take 1 or more"),
        (("smoke", "--device", "gpu"), "no device 'gpu': take one of cpu, cuda"),
        (("smoke", "--threads", 0), "--threads 0: take 1 to 1024"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, hetune, store):
    result = hetune("profile", *arguments, "--store", store)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
    assert not store.exists()

"""The process that measures, and the one that keeps it at work."""

from __future__ import annotations

import errno
import json
import mmap
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import psutil
import pytest
from tests.profiling._made_up import measurement

from hetune.profiling.corpus import build, recipe
from hetune.profiling.corpus.sources import digest_of
from hetune.profiling.measure.candidate import Loss
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import graph_facts, units_of
from hetune.profiling.measure.record import GraphFacts, Stamp
from hetune.profiling.process.heartbeat import SETTING_UP, Heartbeat
from hetune.profiling.process.measuring import MeasuringProcess
from hetune.profiling.process.messages import (
    Order,
    Refusal,
    decode_message,
    decode_order,
    encode,
)
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.records import Measurement, Status
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.errors import WorkerError
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.graph import index_native
from hetune.variants.registry import Registry, override_default_registry

FAULTY = (sys.executable, str(Path(__file__).with_name("faulty_measuring.py")))
STAMP = Stamp("campaign", "machine", "1.0")
LIMITS = Limits(memory_bytes=2 << 30)
# Long enough for a busy machine, short enough to wait for a hang.
SHORT = replace(LIMITS, unit_seconds=5.0)


def problem(faults: str = "tiny") -> ProblemSpec:
    graph = recipe(faults, "typed", options={"nodes": 40, "edges": 120})
    return ProblemSpec(graph, labeled_preset("rgcn", 4, 4, 1), 1)


def units(faults: str) -> list[Unit]:
    """The first four variants, in their order: each takes the fault at its place."""
    return list(units_of(problem(faults)))[:4]


@pytest.fixture(scope="module")
def faulty() -> Iterator[Supervisor]:
    with Supervisor(LIMITS, command=FAULTY) as supervisor:
        yield supervisor


def endings(found: list[Measurement]) -> list[str]:
    return [measurement.status.value for measurement in found]


def test_a_unit_that_ends_the_process_is_lost_and_no_other(faulty, monkeypatch):
    monkeypatch.setattr(faulty, "limits", SHORT)
    before = faulty.restarts
    wanted = units("segfault,hang,killed,-")
    found = faulty.measure(wanted, STAMP)
    assert [m.unit for m in found] == [unit.key for unit in wanted]
    assert endings(found) == ["failed", "timeout", "memory", "ok"]
    assert [m.error for m in found] == [
        "the process ended with signal SIGSEGV",
        "a step took longer than the limit of 5 s",
        "the process was killed, as the system does where memory runs out",
        "",
    ]
    facts = graph_facts(build(wanted[0].problem.graph))
    for record in found:
        assert record.graph_fingerprint == facts.fingerprint
        assert record.graph_features == facts.features
    assert faulty.restarts == before + 3


def test_what_a_crashing_process_says_is_in_the_record(faulty):
    found = faulty.measure(units("abort,exit")[:2], STAMP)
    assert endings(found) == ["memory", "failed"]
    assert found[0].error == (
        "the process ended with signal SIGABRT: terminate called after throwing an instance of "
        "'std::bad_alloc'"
    )
    assert found[1].error == "the process ended with exit status 3"


def test_what_is_no_answer_is_refused_and_runs_nothing(faulty):
    found = faulty.measure(units("-,damage")[:2], STAMP)
    assert endings(found) == ["ok", "failed"]
    assert "sent what is no answer" in found[1].error


@pytest.mark.parametrize(
    "message",
    [
        [measurement(), measurement(1)],
        Loss(Status.MEMORY, "too large"),
        Refusal("no compiler"),
        GraphFacts("0" * 32, (1.5, float("inf"))),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_are_json_and_arrive_as_they_were(message):
    assert decode_message(encode(message)) == message
    json.loads(encode(message))


def test_orders_arrive_as_they_were():
    order = Order(problem(), ("dst/b256",), STAMP, LIMITS, 7)
    assert decode_order(encode(order)) == order


@pytest.mark.parametrize(
    ("fault", "status", "error"),
    [
        ("setup:raise", "failed", "IndexError: list index out of range"),
        ("setup:hunger", "memory", "MemoryError: Unable to allocate 128. GiB"),
    ],
)
def test_what_goes_wrong_before_any_unit_runs_is_every_unit_s(fault, status, error, faulty):
    before = faulty.restarts
    found = faulty.measure(units(fault), STAMP)
    assert endings(found) == [status] * 4
    assert all(m.error.startswith(error) and m.graph_fingerprint for m in found)
    assert faulty.restarts == before  # the process survives


def test_a_process_that_ends_before_any_unit_runs_is_replaced_once(faulty):
    before = faulty.restarts
    found = faulty.measure(units("setup:exit"), STAMP)
    assert endings(found) == ["failed"] * 4
    assert faulty.restarts == before + 1


def test_a_graph_that_cannot_be_made(faulty):
    broken = replace(problem(), graph=replace(problem().graph, kind="nothing"))
    found = faulty.measure([replace(unit, problem=broken) for unit in units("-")], STAMP)
    assert endings(found) == ["failed"] * 4
    assert "no kind 'nothing'" in found[0].error
    assert (found[0].graph_fingerprint, found[0].graph_features) == ("", ())


def test_a_file_that_is_not_there_or_another_is_no_result(faulty, tmp_path):
    path = tmp_path / "graph.tsv"
    path.write_text("a\tr\tb\n")
    options = (("digest", digest_of(path)), ("path", str(path)))
    of_file = replace(problem(), graph=replace(problem("-").graph, kind="file", options=options))
    wanted = [replace(unit, problem=of_file) for unit in units("-")]
    path.write_text("a\tr\tc\n")
    with pytest.raises(WorkerError, match=r"has changed .* put back what it was"):
        faulty.measure(wanted, STAMP)
    path.unlink()
    with pytest.raises(WorkerError, match="cannot be read"):
        faulty.measure(wanted, STAMP)
    path.write_text("a\tr\tb\n")
    assert endings(faulty.measure(wanted, STAMP)) == ["ok"] * 4


def test_what_libraries_print_is_no_answer(faulty):
    assert endings(faulty.measure(units("print"), STAMP)) == ["ok"] * 4


def children() -> list[psutil.Process]:
    return psutil.Process().children()


def test_a_process_that_is_lost_while_idle_is_nobody_s_fault(faulty):
    faulty.measure(units("-"), STAMP)
    [process] = (child for child in children() if FAULTY[1] in child.cmdline())
    process.kill()
    process.wait()
    assert endings(faulty.measure(units("-"), STAMP)) == ["ok"] * 4


def test_a_process_that_does_not_start():
    command = (sys.executable, "-c", "raise SystemExit('no such library')")
    with (
        Supervisor(LIMITS, command=command) as supervisor,
        pytest.raises(WorkerError, match=r"does not start: .* status 1: no such library; mend"),
    ):
        supervisor.measure(units("-"), STAMP)


def test_an_order_that_cannot_be_read_ends_the_process_at_once(monkeypatch):
    monkeypatch.setattr("hetune.profiling.process.supervisor.encode", lambda order: b"{}")
    with (
        Supervisor(LIMITS, command=FAULTY) as supervisor,
        pytest.raises(WorkerError, match=r"does not start: (?s:.*)ValueError"),
    ):
        supervisor.measure(units("-"), STAMP)


def no_room(*arguments: object, **options: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "call",
    ["tempfile.mkstemp", "os.posix_fallocate", "tempfile.TemporaryFile", "subprocess.Popen"],
)
def test_a_full_disk_is_an_error_that_says_how_to_mend_it(call, monkeypatch):
    wanted, known = units("-"), psutil.Process().num_fds()
    monkeypatch.setattr(call, no_room)
    with (
        Supervisor(LIMITS, command=FAULTY) as supervisor,
        pytest.raises(WorkerError, match=r"No space left on device\): free some space.* TMPDIR$"),
    ):
        supervisor.measure(wanted, STAMP)
    assert psutil.Process().num_fds() == known


def test_an_interrupted_parent_leaves_no_process_behind():
    def interrupted() -> float:
        raise KeyboardInterrupt

    known = set(children())
    supervisor = Supervisor(LIMITS, command=FAULTY, clock=interrupted)
    with pytest.raises(KeyboardInterrupt):
        supervisor.measure(units("-"), STAMP)
    assert set(children()) <= known


def test_a_real_worker_measures_and_ends_with_its_supervisor():
    wanted = units("-")[:2]
    known = set(children())
    with Supervisor() as supervisor:
        found = supervisor.measure(wanted, STAMP)
        assert len(set(children()) - known) == 1
    assert set(children()) <= known
    assert endings(found) == ["ok", "ok"], found[0].error
    assert [m.unit for m in found] == [unit.key for unit in wanted]
    assert all(len(m.samples) >= 7 for m in found)


def test_a_worker_keeps_the_last_graph(monkeypatch):
    monkeypatch.setattr("hetune.profiling.process.measuring.limit_memory", lambda nbytes: None)
    heartbeat, answers, graphs = Heartbeat.create(), [], []

    def measure(problem, graph, variants, stamp, *, limits, bench, seed, beat):
        graphs.append(graph)
        return []

    worker = MeasuringProcess(heartbeat, answers.append, measure)
    for faults in ("one", "one", "two"):
        wanted = units(faults)
        worker.answer(Order(problem(faults), (wanted[0].variant,), STAMP, LIMITS, 0))
    assert graphs[0] is graphs[1] is not graphs[2]
    assert [type(answer) for answer in answers] == [GraphFacts, list] * 3
    heartbeat.close()


@pytest.mark.parametrize(
    ("mode", "compiler", "said"),
    [(0o777, "", "can be written by others"), (0o700, "none-of-that-name", "that is not there")],
)
def test_where_nothing_can_be_compiled_is_no_result(mode, compiler, said, monkeypatch, tmp_path):
    monkeypatch.setattr("hetune.profiling.process.measuring.limit_memory", lambda nbytes: None)
    monkeypatch.setenv("HETUNE_CXX", compiler)
    tmp_path.chmod(mode)
    index_native.library()  # kept by the process: not to be of this registry
    heartbeat, answers = Heartbeat.create(), []
    with override_default_registry(Registry(tmp_path)):
        order = Order(problem(), (units("-")[0].variant,), STAMP, LIMITS, 0)
        MeasuringProcess(heartbeat, answers.append).answer(order)
    heartbeat.close()
    assert isinstance(answers[-1], Refusal)
    assert said in answers[-1].reason


def test_a_process_that_can_compile_nothing_is_an_error(faulty):
    before = faulty.restarts
    with pytest.raises(WorkerError, match="there is no compiler: install one"):
        faulty.measure(units("setup:refuse"), STAMP)
    assert endings(faulty.measure(units("-"), STAMP)) == ["ok"] * 4
    assert faulty.restarts == before


def test_a_heartbeat_is_shared_by_descriptor():
    ours = Heartbeat.create()
    theirs = Heartbeat(os.dup(ours.descriptor))
    assert theirs.read() == (0, SETTING_UP)
    ours.beat(5)
    ours.beat(6)
    assert theirs.read() == (2, 6)
    ours.close()
    theirs.close()


def test_a_heartbeat_has_its_blocks_before_it_is_memory(monkeypatch):
    blocks, real = [], mmap.mmap

    def seen(descriptor: int, size: int) -> mmap.mmap:
        blocks.append(os.fstat(descriptor).st_blocks)
        return real(descriptor, size)

    monkeypatch.setattr("mmap.mmap", seen)
    Heartbeat.create().close()
    assert len(blocks) == 1
    assert blocks[0] > 0  # on a full disk, writing where there is none ends the process

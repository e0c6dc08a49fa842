"""Runs that wait for threads are noticed, and have one thread meanwhile. No real clock is asked."""

from __future__ import annotations

import logging
import threading

import pytest
import torch

from hetune import nn
from hetune.variants.graph.threads import kernel_threads, used_threads, using_threads
from hetune.variants.runtime import bound_run, layer_runner, thread_watch
from hetune.variants.runtime.choice import Chosen
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.thread_watch import MOST_REST, REST, RUNS, ThreadWatch

HELD_UP, SHARED, ALONE = 15.9e-3, 0.35e-3, 0.7e-3


@pytest.fixture(autouse=True)
def _nobody_was_warned(monkeypatch):
    monkeypatch.setattr(thread_watch, "_warned", threading.Event())


def watch() -> ThreadWatch:
    return ThreadWatch("hybrid/b256 on a graph of 10 edges", 2, SHARED)


def runs(watch: ThreadWatch, count: int, several: float, one: float = ALONE) -> list[int]:
    """Threads of runs that take so many seconds with several threads, and with one."""
    used = []
    for _ in range(count):
        used.append(watch.threads)
        watch.record(used[-1], one if used[-1] == 1 else several)
    return used


def test_what_takes_what_it_should_keeps_its_threads():
    found = watch()
    assert set(runs(found, 1000, SHARED)) == {2}
    assert set(runs(found, 1000, 5 * SHARED)) == {2}  # slow, but not held up


def test_runs_that_are_held_up_have_one_thread(caplog):
    found = watch()
    assert runs(found, RUNS + 100, HELD_UP) == [2] * RUNS + [1] * 100
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert caplog.messages[0] == (
        "hybrid/b256 on a graph of 10 edges took 15.90 ms with 2 threads, where 0.35 are "
        "expected, and 0.70 with one: other programs use the processors, so it has one thread for "
        "now; with torch.set_num_threads(1), or HETUNE_THREADS=1 for a service, all have"
    )
    runs(found, 3000, HELD_UP)
    assert len(caplog.records) == 1  # said once
    runs(watch(), 100, HELD_UP)
    assert len(caplog.records) == 1  # nobody is warned a second time


def test_one_that_is_held_up_among_others_is_no_reason():
    found = watch()
    for _ in range(50):
        assert set(runs(found, RUNS - 1, HELD_UP)) == {2}
        assert set(runs(found, 1, SHARED)) == {2}


def test_all_threads_are_tried_again_seldom_and_kept_once_they_are_faster():
    found = watch()
    busy = runs(found, 20 * MOST_REST, HELD_UP)
    assert busy.count(2) < 0.01 * len(busy)
    quiet = runs(found, 2 * MOST_REST, SHARED)
    assert quiet[-1] == 2
    assert set(runs(found, 1000, SHARED)) == {2}
    again = runs(found, RUNS + 1, HELD_UP)
    assert again == [2] * RUNS + [1]


def test_all_threads_are_tried_again_after_as_many_runs_as_the_docs_say():
    found = watch()
    used = runs(found, 2 * RUNS + REST + 1 + 2 * REST + 1, HELD_UP)
    tried = [position for position, threads in enumerate(used) if threads == 2]
    assert tried == [*range(RUNS), 2 * RUNS + REST, 2 * RUNS + 3 * REST + 1]


def test_one_thread_that_is_no_faster_is_not_kept(caplog):
    found = watch()
    used = runs(found, 10 * MOST_REST, HELD_UP, one=HELD_UP)
    assert used[RUNS : 2 * RUNS] == [1] * RUNS
    assert used.count(1) < 0.01 * len(used)
    assert not caplog.records


def test_what_other_threads_tell_late_changes_nothing():
    found = watch()
    runs(found, RUNS, HELD_UP)
    assert found.threads == 1
    for _ in range(100):
        found.record(2, HELD_UP)
    assert runs(found, RUNS, HELD_UP) == [1] * RUNS


class Machine:
    """Where runs take so long by the number of their threads; a clock that knows no other time."""

    def __init__(self, monkeypatch) -> None:
        self.seconds = {1: ALONE, 2: HELD_UP}
        self.now, self.used = 0.0, []
        monkeypatch.setattr(bound_run, "perf_counter", lambda: self.now)
        monkeypatch.setattr(layer_runner, "SHORT_SECONDS", 5e-3)
        run = Executable.run

        def timed(executable, features, weights, out=None, mark=None, *_, **__):
            self.used.append(kernel_threads())
            result = run(executable, features, weights, out)
            if mark is not None:
                mark()
                self.now += self.seconds[kernel_threads()]
                mark()
            return result

        monkeypatch.setattr(Executable, "run", timed)


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


@pytest.fixture
def fast(no_grad):
    return compile_layer(nn.RGCN(8, 8, 3), expected_runs=100)


def test_a_layer_has_one_thread_where_several_are_held_up(fast, x, graph, machine):
    results = [fast(x, graph) for _ in range(20)]
    assert machine.used == [2] * RUNS + [1] * (20 - RUNS)
    assert used_threads() == 1
    assert fast.explain(x, graph).reason.endswith(
        "; with one thread for now: " + thread_watch.HELD_UP
    )
    assert all(torch.equal(found, results[0]) for found in results)
    assert kernel_threads() == 2


def test_explaining_says_nothing_of_it_otherwise(fast, x, graph, machine):
    fast(x, graph)
    assert "for now" not in fast.explain(x, graph).reason


def test_each_graph_has_threads_of_its_own(fast, x, graph, machine):
    for _ in range(2 * RUNS):
        fast(x, graph)
    machine.used.clear()
    fast(x, graph.unindexed())
    assert machine.used == [2]


def test_new_graphs_of_a_size_learn_from_each_other(x, graph, machine, no_grad):
    fast = compile_layer(nn.RGCN(8, 8, 3), dynamic=True)
    with using_threads(2):
        for _ in range(2 * RUNS + 1):
            fast(x, graph.unindexed())
    assert machine.used[0] == 2
    assert machine.used[-1] == 1


@pytest.mark.parametrize(
    "threads", [{"count": 1}, {"count": 2, "exactly": True}], ids=["one", "exactly two"]
)
def test_who_says_how_many_threads_gets_them(threads, fast, x, graph, machine):
    with using_threads(**threads):
        for _ in range(20):
            fast(x, graph)
    assert set(machine.used) == {threads["count"]}


def test_variants_that_are_compared_have_equal_threads(x, graph, machine, no_grad):
    fast = compile_layer(nn.RGCN(8, 8, 3), explore=True)
    with using_threads(2):
        fast.warm(graph)
        for _ in range(8):
            fast(x, graph)
    assert set(machine.used) == {2}


def test_long_runs_are_not_watched(fast, graph, machine):
    variant = fast._promoted[fast.variants[0]]
    with using_threads(2):
        assert fast._runs.watch(Chosen(variant, seconds=4e-3), graph.unindexed()) is not None
        assert fast._runs.watch(Chosen(variant, seconds=6e-3), graph.unindexed()) is None

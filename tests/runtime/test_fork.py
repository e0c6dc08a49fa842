"""A process that is forked after runs with two threads runs, too: it does not wait for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from hetune.variants.graph.lazy_steps import Steps
from hetune.variants.graph.state import GraphSlot, GraphState

SCRIPT = """
import os, sys, torch
torch.set_num_threads(2)
import hetune
from hetune.variants.testing.graphs import typed_graph

def graph(edges):
    return typed_graph((3000, 2000), [(0, 1, edges), (1, 0, edges), (0, 0, edges)])

fast, x, first = hetune.compile(hetune.nn.RGCN(8, 8, 3)), torch.randn(5000, 8), graph(6000)
with torch.no_grad():
    if (child := os.fork()) == 0:  # nothing has run yet, but torch may have started threads
        fast(x, first)
        os._exit(torch.get_num_threads())
    assert os.waitpid(child, 0)[1] == 1 << 8
    expected = fast(x, first)
    if (child := os.fork()) == 0:
        same = torch.equal(fast(x, first), expected)
        fast(x, graph(7000))
        (torch.randn(500, 500) @ torch.randn(500, 500)).sort()
        os._exit(10 * torch.get_num_threads() + same)
    _, status = os.waitpid(child, 0)
    assert torch.equal(fast(x, first), expected)
    print(os.waitstatus_to_exitcode(status), torch.get_num_threads())
"""


def test_a_forked_process_runs_with_one_thread():
    run = [sys.executable, "-c", SCRIPT]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.split() == ["11", "2"], ended.stderr


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_that_are_gone():
    state, steps, slot = GraphState(), Steps(), GraphSlot[None, int]()
    over, begun = threading.Event(), threading.Barrier(3)

    def build() -> int:
        begun.wait()
        over.wait()
        return 1

    threads = [
        threading.Thread(target=state.of, args=(slot, None, build)),
        threading.Thread(target=steps.step, args=("step", build)),
    ]
    for thread in threads:
        thread.start()
    begun.wait()
    if (child := os.fork()) == 0:
        signal.alarm(5)
        os._exit(state.of(slot, None, lambda: 3) + steps.step("step", lambda: 4))
    over.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for thread in threads:
        thread.join()
    assert state.of(slot, None, lambda: 5) == steps.step("step", lambda: 6) == 1

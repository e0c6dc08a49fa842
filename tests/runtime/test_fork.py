"""A process that is forked after runs with two threads runs, too: it does not wait for them."""

from __future__ import annotations

import subprocess
import sys

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

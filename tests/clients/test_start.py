"""What ends a command before it has begun: no traceback is shown."""

import errno
import signal
import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys, time
from hetune.clients.cli import start

class Interrupts:
    def find_spec(self, name, *_):
        if name.endswith("clients.cli.app"):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)

sys.meta_path.insert(0, Interrupts())
start.main()
"""


def test_an_interrupt_while_it_loads_says_nothing():
    found = subprocess.run(
        (sys.executable, "-c", INTERRUPTED),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("name", ["g" * 5000, f"{'g' * 5000}.nt", f"{'g' * 300}.csv"])
@pytest.mark.parametrize(
    "command",
    [("run", "--layer", "rgcn"), ("explain", "--layer", "rgcn"), ("remote", "graphs", "upload")],
    ids=" ".join,
)
def test_a_graph_of_many_characters(hetune, command, name):
    result = hetune(*command, name)
    assert result.exit_code == 2, result.stdout
    assert result.stderr.startswith("error: ")
    assert len(result.stderr) < 1000
    assert "Traceback" not in result.stderr


def test_a_path_that_cannot_be_used(hetune, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied", "/theirs/graph.nt")

    monkeypatch.setattr("hetune.clients.cli.sources.GraphSource.open", refuse)
    result = hetune("run", "aifb", "--layer", "rgcn")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: cannot use /theirs/graph.nt (Permission denied): name another one, or make it "
        "accessible\n"
    )

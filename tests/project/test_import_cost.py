"""What importing hetune brings along: it is paid at every start of every process."""

import subprocess
import sys

LIBRARIES = ("fastapi", "matplotlib", "pyarrow", "scipy", "triton", "xgboost")
PEERS = ("dgl", "torch_geometric")


def imported(statement):
    code = f"import sys, hetune\n{statement}\nprint(*{{n.partition('.')[0] for n in sys.modules}})"
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    return set(said.stdout.split())


def test_what_is_seldom_needed_is_imported_when_it_is():
    found = imported("hetune.compile, hetune.load, hetune.nn")
    assert "torch" in found
    assert not {*LIBRARIES, *PEERS} & found


def test_torch_is_imported_with_what_needs_it():
    assert "torch" not in imported("")

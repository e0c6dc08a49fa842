"""What importing hetune brings along: it is paid at every start of every process."""

import subprocess
import sys

LIBRARIES = ("fastapi", "matplotlib", "pyarrow", "scipy", "triton", "xgboost")
PEERS = ("dgl", "torch_geometric")


def test_what_is_seldom_needed_is_imported_when_it_is():
    code = "import sys, hetune\nprint(*sorted({name.partition('.')[0] for name in sys.modules}))"
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    imported = said.stdout.split()
    assert "torch" in imported
    assert not {*LIBRARIES, *PEERS} & set(imported)

"""Many processes use one store, are stopped and killed: what was acknowledged is there, once."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.full import FULL

SCRIPT = Path(__file__).with_name("store_lives.py")
STEPS = 300 if FULL else 40
SEEDS = range(4) if FULL else range(1)
SECONDS = 600


def run(url, seed):
    command = [sys.executable, str(SCRIPT), str(url), str(STEPS), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{STEPS} steps: ")


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_file(tmp_path, seed):
    run(tmp_path / "store.db", seed)


@pytest.mark.postgresql
@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_server(postgresql_url, seed):
    run(postgresql_url, seed)

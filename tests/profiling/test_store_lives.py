"""Many processes use one store, are stopped and killed: what was acknowledged is there, once."""

import pytest
from tests.full import FULL
from tests.profiling._forked import run as forked

STEPS = 300 if FULL else 40
SEEDS = range(4) if FULL else range(1)


def run(url, seed):
    done = forked("store_lives", str(url), str(STEPS), str(seed))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{STEPS} steps: ")


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_file(tmp_path, seed):
    run(tmp_path / "store.db", seed)


@pytest.mark.postgresql
@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_server(postgresql_url, seed):
    run(postgresql_url, seed)

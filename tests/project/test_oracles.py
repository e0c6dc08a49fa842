"""In CI nothing that results are compared with may be missing unnoticed."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# As pyproject.toml has it: there are no wheels for others.
HAS_DGL = sys.version_info < (3, 12) and platform.machine() != "aarch64"
PACKAGES = ["torch_geometric", *(["dgl"] if HAS_DGL else [])]


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not os.environ.get("CI"), reason="only in CI there must be all of them")
@pytest.mark.parametrize("package", PACKAGES)
def test_ci_has_the_layers_of_others(package):
    """Tests that miss one are skipped, some of them by the module."""
    done = run("-c", f"import {package}", DGLBACKEND="pytorch")
    assert done.returncode == 0, f"pip install -e '.[dev]':\n{done.stderr}"


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 error"), ("", "1 skipped")])
def test_ci_has_the_graphs_that_it_names(ci, outcome, tmp_path):
    test = "tests/graph/test_generate.py::test_the_real_numbers_are_real[aifb]"
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = run("-P", "-m", "pytest", *options, test, CI=ci, HETUNE_DATA=str(tmp_path))
    assert f"no real graphs in {tmp_path}" in done.stdout
    assert outcome in done.stdout.splitlines()[-1]

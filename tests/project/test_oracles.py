"""In CI nothing that results are compared with may be missing unnoticed."""

import importlib
import os
import platform
import sys

import pytest
from tests.conftest import real_graphs

# As pyproject.toml has it: there are no wheels for others.
HAS_DGL = sys.version_info < (3, 12) and platform.machine() != "aarch64"
PACKAGES = ["torch_geometric", *(["dgl"] if HAS_DGL else [])]


@pytest.mark.skipif(not os.environ.get("CI"), reason="only in CI there must be all of them")
@pytest.mark.parametrize("package", PACKAGES)
def test_ci_has_the_layers_of_others(package, monkeypatch):
    """Tests that miss one are skipped, some of them by the module."""
    monkeypatch.setenv("DGLBACKEND", "pytorch")
    importlib.import_module(package)


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail), ("", pytest.skip)])
def test_ci_has_the_graphs_that_it_names(ci, outcome, tmp_path, monkeypatch):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("HETUNE_DATA", str(tmp_path))
    with pytest.raises(outcome.Exception, match=f"no real graphs in {tmp_path}"):
        real_graphs()

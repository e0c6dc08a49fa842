"""The GPU's check, as far as it needs no GPU: one process interprets, the others only look."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gpu_check
import pytest

ROOT = Path(__file__).resolve().parents[2]


def interpreted(*arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TRITON_INTERPRET": "1"}
    command = [sys.executable, ROOT / "benchmarks" / "gpu_check.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.slow
def test_it_goes_on_where_it_was(tmp_path, capsys):
    pytest.importorskip("triton")
    out = tmp_path / "gpu_check.json"
    arguments = ["--device", "cpu", "--graphs", "one node", "--widths", "4", "--rounds", "2"]
    others = "correct-layers/gcn", "correct-kge", "gradients/gat", "homogeneous/1M/gcn/64"
    arguments += ["--out", str(out), "--only", ",".join(("awkward/rgcn-mean,serve/", *others))]
    assert gpu_check.main([*arguments, "--limit", "0"]) == 3
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 of 8 units")
    done = interpreted(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    held = json.loads(out.read_text())
    assert held["machine"]["card"] == "cpu, interpreted"
    served = held["units"].pop("serve/one node")
    assert served.get("skipped") or max(served["errors"].values()) < 2e-5
    checks = [held["units"].pop(key) for key in others]
    assert [unit["checked"] for unit in checks[:-1]] == [6, 6, 1]
    assert {each["status"] for each in checks[-1]["candidates"]} == {"ok"}
    assert len(held["units"]) == 3
    for unit in held["units"].values():
        assert unit["variants"] == 6  # plans
        assert unit["error_ieee"] < 1e-5
    # All of it is known now, so nothing runs.
    assert gpu_check.main(arguments) == 0


def test_what_fails_is_told_and_kept(tmp_path, capsys, monkeypatch):
    def fail(*arguments):
        raise AssertionError("relative error 1")

    monkeypatch.setattr(gpu_check.Check, "correct", fail)
    out = tmp_path / "gpu_check.json"
    arguments = ["--device", "cpu", "--only", "awkward/hgt/1/self", "--out", str(out)]
    assert gpu_check.main(arguments) == 1
    assert "failed: awkward/hgt/1/self loops: AssertionError" in capsys.readouterr().out
    monkeypatch.setattr(gpu_check.Check, "correct", lambda *arguments: {"plans": 1})
    assert gpu_check.main(arguments) == 1
    assert gpu_check.main([*arguments, "--again"]) == 0


def test_the_units_of_a_gpu(capsys):
    assert gpu_check.main(["--list"]) == 0
    keys = capsys.readouterr().out.splitlines()
    expected = {
        "ahead",
        "serve/biokg",
        "serve/full",
        "sanitizer/memcheck",
        "correct/hgt/2/fb15k237/64",
    }
    expected |= {"peers/wikikg2/hgt/64", "roofline/aggregation/mag", "gradients/hgt"}
    expected |= {"training/am/rgat/64", "homogeneous/10M/gatv2/64"}
    assert expected <= set(keys)
    assert len(set(keys)) == len(keys)


def test_without_a_gpu_it_says_so(capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert gpu_check.main([]) == 2
    assert "torch sees no GPU here" in capsys.readouterr().err


BARE = """
import importlib.abc, importlib.metadata, runpy, sys

BLOCKED = {"hetune", *ABSENT.split()}


class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED - {"hetune"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def version(name, known=importlib.metadata.version):
    if name in BLOCKED:
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)


sys.meta_path.insert(0, Blocker())
importlib.metadata.version = version
import torch

import hetune
from hetune.variants.testing.graphs import AWKWARD

graph = AWKWARD["duplicate edges"]()
layer = hetune.compile(hetune.nn.RGCN(8, 8, graph.num_etypes), backend="torch")
with torch.no_grad():
    layer(torch.randn(graph.num_nodes, 8), graph)
sys.argv = [SCRIPT, "--list"]
runpy.run_path(SCRIPT, run_name="__main__")
"""
ABSENT = "xgboost sklearn rich typer click sqlalchemy alembic safetensors torch_geometric dgl"
ABSENT += " pandas matplotlib pydantic fastapi jinja2 httpx"


def test_it_needs_no_installation_and_few_packages():
    script = str(ROOT / "benchmarks" / "gpu_check.py")
    code = f"SCRIPT, ABSENT = {script!r}, {ABSENT!r}\n{BARE}"
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT / "benchmarks")))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "peers/am/rgcn/64" in done.stdout

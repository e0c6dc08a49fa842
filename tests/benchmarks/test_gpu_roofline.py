"""Shares of a card's bounds: the arithmetic here, the kernels in a process that interprets."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _gpu_report import roofline_lines
from _gpu_roofline import Roofline, Work

ROOT = Path(__file__).resolve().parents[2]
INTERPRETED = """
import json
import _gpu_gather
import _gpu_roofline
from _gpu_roofline import Roofline
import torch

table, ids = torch.randn(9, 16), torch.randint(0, 9, (37,), dtype=torch.int32)
for name, run in _gpu_gather.copies(table, ids).items():
    run()
out = torch.empty(37, 16)
_gpu_gather._copied[(3,)](table, ids, out, 37, BLOCK=16, WIDTH=16)
assert torch.equal(out, table[ids.long()])
sums = torch.empty(3, 16)
_gpu_gather._summed[(3,)](table, ids, sums, 37, BLOCK=16, WIDTH=16)
torch.testing.assert_close(sums.sum(0), table[ids.long()].sum(0))
_gpu_gather.BLOCKS = (16,)
_gpu_roofline.PRODUCTS, _gpu_roofline.SUMS = _gpu_roofline.PRODUCTS[:1], _gpu_roofline.SUMS[:2]
tried = Roofline("cpu", rounds=2, product=16, copied=4096, unit_s=3600.0)
units = tried.units("duplicate edges", 16)
print(json.dumps({unit.key: unit.run() for unit in units}))
"""
COMPILED = """
import _gpu_gather
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

types = {"table_ptr": "*fp32", "ids_ptr": "*i32", "out_ptr": "*fp32", "rows": "i32"}
types |= {"BLOCK": "constexpr", "WIDTH": "constexpr"}
for kernel in (_gpu_gather._copied, _gpu_gather._summed):
    for block in (min(_gpu_gather.BLOCKS), max(_gpu_gather.BLOCKS)):
        source = ASTSource(kernel, types, {"BLOCK": block, "WIDTH": 64})
        done = triton.compile(source, target=GPUTarget("cuda", 90, 32))
        assert done.asm["cubin"]
"""


def run(code: str, **more: str) -> str:
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT / "benchmarks")))
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command, environment = [sys.executable, "-c", code], {**kept, "PYTHONPATH": path, **more}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_yardsticks_compile_for_a_gpu(tmp_path):
    pytest.importorskip("triton")
    run(COMPILED, TRITON_CACHE_DIR=str(tmp_path))


@pytest.mark.slow
def test_every_unit_runs_through_the_interpreter():
    pytest.importorskip("triton", minversion="3.7.1")
    found = json.loads(run(INTERPRETED, TRITON_INTERPRET="1"))
    assert list(found) == [
        "roofline/aggregation/duplicate edges",
        "roofline/attention/duplicate edges",
        "roofline/gather-gemm ieee/duplicate edges",
        "roofline/gather-gemm tf32x3/duplicate edges",
        "roofline/gather-gemm tf32/duplicate edges",
    ]
    for unit in found.values():
        assert unit["refused"] == {}
        assert unit["share"] == max(unit["shares"].values()) > 0
        assert {"product", "copy", "pick 16 rows a program"} <= set(unit["times"])
    aggregation = found["roofline/aggregation/duplicate edges"]
    assert aggregation["flop"] == 2 * 64 * aggregation["edges"]


def test_a_share_is_of_the_longest_bound():
    work = Work(None, flop=8e9, nbytes=3e9, picks={}, schedules=())
    times = {"product": 1.0, "copy": 1.0, "pick a": 0.8, "pick b": 0.6, "one": 3.0, "two": 2.0}
    shares = Roofline("cpu", product=1000, copied=10**9).shares(
        work, {name: {"median_ms": ms} for name, ms in times.items()}, ["one", "two"]
    )
    assert shares["tflops"] == pytest.approx(2.0)
    assert shares["copy_gb_s"] == pytest.approx(2000.0)
    assert shares["bounds_ms"] == {"flop": 4.0, "bytes": 1.5, "pick": 0.6}
    assert (shares["best"], shares["best_ms"], shares["default_ms"]) == ("two", 2.0, 3.0)
    assert (shares["share"], shares["bound"]) == (2.0, "flop")


def test_what_the_units_say():
    unit = {
        "best": "edges=4",
        "best_ms": 1.25,
        "default_ms": 1.5,
        "share": 0.65,
        "bound": "pick",
        "tflops": 50.0,
        "copy_gb_s": 3000.0,
    }
    (line,) = roofline_lines({"roofline/aggregation/mag": unit, "roofline/x": {"failed": "no"}})
    assert line.startswith("aggregation/mag")
    assert "65.0% of pick" in line
    assert "below 70%" in line

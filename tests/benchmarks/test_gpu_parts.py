"""Walks over parts: tables here, kernels in processes that interpret or compile them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gpu_parts
import pytest
import torch
from _gpu_parts_candidates import CANDIDATES, PRODUCTS, kernels
from _gpu_parts_index import cut, levels_of, programs, segments_of
from _gpu_parts_table import lines
from _gpu_parts_units import QueuedStopwatch

from hetune.profiling.measure.stopwatch import CudaStopwatch

ROOT = Path(__file__).resolve().parents[2]
DRAWN = """
import torch
from _gpu_parts_candidates import CANDIDATES, PRODUCTS, _triton, product
from _gpu_parts_expected import attended, sums
from _gpu_parts_graphs import Edges
from _gpu_parts_index import levels_of
from _gpu_parts_runs import Kernels, bind_softmax, bind_sum
from pathlib import Path
from hetune.variants.testing.conformance import relative_error

torch.manual_seed(0)
degrees = torch.tensor([0, 1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 70, 0, 1, 2, 600])
dst = torch.repeat_interleave(torch.arange(16), degrees).int()
src = torch.randint(0, 16, dst.shape, dtype=torch.int32)
at = Edges(src, dst, torch.zeros_like(src), 16, 1)
"""
INTERPRETED = f"""{DRAWN}
kernels = Kernels("cpu", Path("."))
x, k, v = torch.randn(16, 64), torch.randn(16, 64), torch.randn(16, 64)
for given, short, stages, parts in (
    ((8, 2, 1), True, 0, (16, 4)),
    ((4, 8, 4), True, 1, (64, 128)),
    ((4, 8, 4), False, 1, (16, 4)),
):
    levels = levels_of(at.pointers, *parts)
    out = torch.full((16, 64), torch.nan)
    how = _triton("sum", 64, *given, short=short, stages=stages)
    bind_sum(how, kernels, levels, src, x, out)()
    assert relative_error(out, sums(x, src, dst)) < 1e-6
    out = torch.full((16, 64), torch.nan)
    how = _triton("softmax", 64, *given, short=short)
    bind_softmax(how, kernels, levels, src, (x, k, v), out)()
    assert relative_error(out, attended((x, k, v), src, dst)) < 1e-6
"""
TYPED = f"""{DRAWN}
from _gpu_parts_typed import tiles

ids, types = torch.arange(40, dtype=torch.int32) % 16, torch.arange(40) // 15
w, x, out = torch.randn(3, 64, 64), torch.randn(16, 64), torch.full((40, 64), torch.nan)
table = tiles(types, 3, 64)
kernel = product(64, 32, "ieee", 4)
Kernels("cpu", Path(".")).call(kernel, table[0].numel(), (x, w, ids, *table, out, 3))()
right = torch.einsum("rk,rkn->rn", x[ids.long()], w[types])
torch.testing.assert_close(out, right, rtol=1e-4, atol=1e-4)
"""
TODAY = f"""{DRAWN}
from _gpu_parts_today import SCHEDULES, today_softmax, today_sum

x, k, v = torch.randn(16, 64), torch.randn(16, 64), torch.randn(16, 64)
for right, ways in (
    (sums(x, src, dst), today_sum(at, x)),
    (attended((x, k, v), src, dst), today_softmax(at, (x, k, v))),
):
    for make in list(ways.values())[::3]:
        run, out = make()
        given = run()
        out = given if given is not None else out
        assert relative_error(out, right) < 1e-5
"""
COMPILED = """
import re, sys
from _gpu_parts_candidates import CANDIDATES, PRODUCTS
from _gpu_parts_compile import _resources, asm_of

for op in ("sum", "softmax"):
    made = asm_of(next(c.kernel for c in CANDIDATES[op, 64] if "plain" in c.name))
    tile = next(t for t in made.asm["ttgir"].splitlines() if "sizePerThread = [1, 1, 4]" in t)
    # Neither lanes nor warps share out the edges, and each loads 16 bytes.
    assert re.search(r"threadsPerWarp = \\[1, 2, 16\\], warpsPerCTA = \\[1, 4, 1\\]", tile), tile
    assert "ld.global.v4" in made.asm["ptx"]
    used = _resources(made.asm["cubin"], made.metadata.name)
    assert used == {} or used["stack"] == used["local"] == 0, used
"""


def run(code: str, **more: str) -> str:
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT / "benchmarks")))
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command, environment = [sys.executable, "-c", code], {**kept, "PYTHONPATH": path, **more}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("code", [INTERPRETED, TYPED, TODAY], ids=["walks", "products", "today"])
def test_kernels_are_right_through_the_interpreter(code):
    pytest.importorskip("triton", minversion="3.7.1")
    run(code, TRITON_INTERPRET="1")


@pytest.mark.slow
def test_threads_have_all_edges_of_their_columns(tmp_path):
    pytest.importorskip("triton")
    run(COMPILED, TRITON_CACHE_DIR=str(tmp_path))


def pointers(*degrees: int) -> torch.Tensor:
    return torch.tensor([0, *degrees]).cumsum(0).int()


def test_parts_are_cut_and_sorted_by_length():
    parts = cut(segments_of(pointers(0, 5, 2, 9)), 4)
    assert parts.length.tolist() == [4, 4, 4, 2, 0, 1, 1]
    assert parts.begin.tolist() == [0, 7, 11, 5, 0, 4, 15]
    assert parts.row.tolist() == [1, 3, 3, 2, 0, 1, 3]
    assert parts.slot.tolist() == [0, 2, 3, -1, -1, 1, 4]
    assert parts.carries == 5
    assert parts.split.begin.tolist() == [0, 2]
    assert parts.split.length.tolist() == [2, 3]
    assert parts.split.row.tolist() == [1, 3]


def test_levels_end_where_every_row_is_whole():
    levels = levels_of(pointers(1000, 3), 8, 4)
    assert [parts.begin.numel() for parts in levels] == [126, 32, 8, 2, 1]
    assert [parts.carries for parts in levels] == [125, 32, 8, 2, 0]


def test_programs_take_parts_of_one_length():
    parts = cut(segments_of(pointers(*[1] * 9, *[2] * 3, *[7] * 3)), 8)
    table = programs(parts, 2, 8)
    assert table.first.tolist() == [0, 2, 3, 6, 14, 15]
    assert table.most.tolist() == [7, 7, 2, 1, 1]
    assert programs(parts, 4).first.tolist() == [0, 3, 6, 10, 14, 15]


def test_candidates_are_told_apart():
    for candidates in CANDIDATES.values():
        names = [candidate.name for candidate in candidates]
        assert len(set(names)) == len(names)
    labels = [kernel.label for kernel in kernels()]
    assert len(set(labels)) == len(labels)
    assert set(PRODUCTS.values()) <= set(kernels())


def test_the_verdict_is_of_the_best_of_each_kind():
    def unit(triton: float, cuda: float) -> dict:
        shares = {"triton a": triton, "triton b": triton / 2, "cuda a": cuda}
        ways = {n: {"median_ms": 1 / s, "share": s, "error": 0.0} for n, s in shares.items()}
        return {"candidates": ways, "refused": {"cuda b": "no"}, "bounds_ms": {"pick": 1.0}}

    said = lines({"sum/64/mag": unit(0.72, 0.9), "softmax/64/am": unit(0.6, 0.79)})
    assert said[-1].startswith("verdict: Triton < 70% where CUDA >= 80%: nowhere of 2")
    assert "triton a 1.389 (72%); cuda a 1.111 (90%)" in said[1]
    assert said[2] == "  not cuda b: no"
    said = lines({"sum/64/mag": unit(0.6, 0.9), "rates": {"failed": "no"}})
    assert said[-1].endswith("sum/64/mag of 1 walks")


def test_units_are_listed_without_a_gpu(capsys):
    assert gpu_parts.main(["--list", "--graphs", "am"]) == 0
    assert capsys.readouterr().out.split() == [
        "rates", "sum/64/am", "softmax/64/am", "product/64/am", "host", "sum-copies/64/am",
    ]  # fmt: skip


def test_results_are_printed_again(capsys, tmp_path):
    out = tmp_path / "out.json"
    out.write_text(json.dumps({"units": {"rates": {"tflops": 50.0, "copy_gb_s": 2800.0}}}))
    assert gpu_parts.main(["--table", "--out", str(out)]) == 0
    assert capsys.readouterr().out == "float32 50.0 TFLOP/s, copy 2800 GB/s\n"


def test_the_card_waits_for_all_kernels_before_the_first_begins(monkeypatch):
    said = []

    class Event:
        def record(self):
            said.append("event")

        def synchronize(self):
            said.append("waited")

        def elapsed_time(self, end):
            return 2.0

    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: said.append("sleep"))
    watch = CudaStopwatch(event=Event, wait=None, flush=lambda: said.append("flush"))
    _, sample = QueuedStopwatch(watch).time(lambda mark: said.append("run"))
    assert said == ["flush", "sleep", "event", "run", "event", "waited"]
    assert sample.seconds == pytest.approx(2e-3)

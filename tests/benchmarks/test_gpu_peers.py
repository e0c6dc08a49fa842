"""The GPU's comparison with peers, on the CPU: every step but events and memory."""

import json

import pytest
import torch

pytest.importorskip("torch_geometric")

import _gpu_peers
import gpu_check
from _gpu_choices import choice_lines
from _gpu_peers import Cell, Cells, fastest_peers
from _gpu_report import peers_lines, variants_lines
from _peers.problem import Candidate

from hetune.variants.plan.choices import schedule_id
from hetune.variants.plan.variants import DEFAULT_SCHEDULES, Variant

GRAPH = "duplicate edges"


def cell(unit_s: float = 3600.0, **options) -> Cell:
    """One that is not cut short, however busy the machine is."""
    return Cell(Cells("cpu", rounds=3, unit_s=unit_s, **options), "rgcn", GRAPH, 16)


def test_a_cell_has_every_plan_and_every_peer(monkeypatch):
    default = _gpu_peers.each_plan
    some = {"vanilla", "hybrid"}  # an interpreter takes seconds for each

    def keep(variant: Variant) -> bool:
        return default(variant) and variant.plan_id in some

    monkeypatch.setattr(_gpu_peers, "each_plan", keep)
    found = cell().measure()
    assert found["reference"] == "PyG"
    schedule = schedule_id(DEFAULT_SCHEDULES["cuda"])
    assert set(found["plans"]) == {f"{plan}/{schedule}" for plan in some}
    assert found["best_plan"] in found["plans"]
    known = {c["name"]: c for c in found["candidates"]}
    assert {
        "hetune/compile",
        "hetune/cuda graph",
        "expert/compaction",
        "grouped/compaction",
        "pyg/RGCNConv",
    } <= set(known)
    assert {c["status"] for c in known.values()} == {"ok"}
    for candidate in known.values():
        assert len(candidate["times_ms"]) == 3
        assert candidate["ratio"] == candidate["median_ms"] / candidate["beside_ms"]
    assert {c["precision"] for n, c in known.items() if n.endswith("bf16")} == {"bf16"}
    assert all(c["relative_error"] < 1e-5 for c in known.values() if c["precision"] == "ieee")


@pytest.fixture(autouse=True)
def _rarely(monkeypatch) -> None:
    """An interpreter takes long for each run of a plan."""
    monkeypatch.setattr(_gpu_peers, "_FEW_ROUNDS", 1)


@pytest.fixture
def one_plan(monkeypatch) -> None:
    """Of hetune's plans only one is looked at."""
    monkeypatch.setattr(_gpu_peers, "each_plan", lambda variant: variant.id == "vanilla/t64-p2048")


def fails(error: BaseException):
    def build(problem):
        def run():
            raise error

        return run

    return build


def wrong(problem):
    return lambda: problem.x * 2


@pytest.mark.parametrize(
    ("build", "status", "detail"),
    [
        (fails(torch.OutOfMemoryError("CUDA out of memory. Tried to")), "out of memory", "CUDA"),
        (fails(ValueError("no such shape")), "failed", "ValueError: no such shape"),
        (fails(_gpu_peers.OutOfTime("no result within 3 s")), "too slow", "within 3 s"),
        (wrong, "wrong", "more than 1e-04"),
    ],
)
def test_what_goes_wrong_is_a_result(build, status, detail, monkeypatch, one_plan):
    candidate = Candidate("peer/bad", "rgcn", build)
    monkeypatch.setattr(Cell, "candidates", lambda self: [candidate])
    (entry,) = cell().measure()["candidates"]
    assert entry["status"] == status
    assert detail in entry["detail"]


def test_a_card_that_answers_no_more_fails_the_unit(monkeypatch, one_plan):
    candidate = Candidate("peer/bad", "rgcn", fails(RuntimeError("illegal memory access")))
    monkeypatch.setattr(Cell, "candidates", lambda self: [candidate])
    monkeypatch.setattr(_gpu_peers, "answers", lambda device: False)
    with pytest.raises(RuntimeError, match="answers no more: RuntimeError: illegal memory"):
        cell().measure()


def test_candidates_for_which_no_time_is_left_are_named():
    with pytest.raises(AssertionError, match="no time was left"):
        cell(unit_s=0.0).measure()


def test_cells_of_a_precision_have_keys_of_their_own():
    keys = [u.key for u in Cells("cuda", precision="tf32").units(["am"], ["hgt"], [64])]
    assert keys == ["variants-tf32/am/hgt/64", "peers-tf32/am/hgt/64"]


def unit(graph_ms: float, peer_ratio: float, **more) -> dict:
    plan = {"variant": "src/b256", "status": "ok", "median_ms": graph_ms}
    own = {"name": "hetune/compile", "status": "ok", "median_ms": 2 * graph_ms, "ratio": 2.0}
    ms = {"median_ms": peer_ratio * graph_ms}
    peer = {"name": "pyg/RGCNConv", "status": "ok", "ratio": peer_ratio, **ms}
    lost = {"name": "pyg/FastRGCNConv", "status": "out of memory"}
    fast = {"name": "grouped/x bf16", "status": "ok", "ratio": 0.1, "median_ms": 0.1 * graph_ms}
    graph = {**own, "name": "hetune/cuda graph", "median_ms": graph_ms / 2, "ratio": 0.5}
    candidates = [{**c, "precision": "ieee"} for c in (own, graph, peer, lost)]
    candidates.append({**fast, "precision": "bf16"})
    return {
        "plans": {"src/b256": plan},
        "best_plan": "src/b256",
        "precision": "ieee",
        "candidates": candidates,
        **more,
    }


def test_what_the_cells_say():
    lines = peers_lines(
        {
            "peers/aifb/rgcn/64": unit(0.5, 8.0),
            "peers/am/rgcn/64": unit(1.0, 3.0),
            "peers/bgs/rgcn/64": {"failed": "ValueError"},
            "ahead": {"plans": 6},
        }
    )
    assert lines[0] == "rgcn, width 64, ieee"
    times, over = ["0.5000", "1.0000", "0.2500"], ["8.00", "4.00", "16.00"]
    assert lines[2].split() == ["aifb", *times, *over, "pyg/RGCNConv"]
    times, over = ["1.0000", "2.0000", "0.5000"], ["3.00", "1.50", "6.00"]
    assert lines[3].split() == ["am", *times, *over, "pyg/RGCNConv"]
    assert "best plan: geometric mean 4.90x (goal 3x), least 3.00x" in lines[4]
    assert lines[4].endswith("of 2 graphs: kept")
    assert "compile: geometric mean 2.45x" in lines[5]
    assert lines[5].endswith("not kept")
    assert "cuda graph: geometric mean 9.80x" in lines[6]
    assert lines[7].strip() == "without a result: pyg/FastRGCNConv out of memory (aifb, am)"


def test_the_best_variant_stands_beside_the_fastest_peer():
    peers, kernels = unit(0.5, 8.0), {"kernel": {"us": 100.0, "count": 2.0}}
    variants = {**unit(0.25, 1.0), "kernels": kernels, "candidates": []}
    variants["plans"] = {n: {**p, "host_ms": 0.1} for n, p in variants["plans"].items()}
    units = {"variants/aifb/rgcn/64": variants, "peers/aifb/rgcn/64": peers}
    line, mean = variants_lines(units)
    assert line.split()[:3] == ["aifb/rgcn/64", "0.2500", "ms,"]
    assert "kernels 0.1000" in line
    assert line.split()[-3:] == ["ms", "16.00x", "pyg/RGCNConv"]
    assert mean == "rgcn: geometric mean 16.00x, least 16.00x, of 1 graphs"
    assert fastest_peers(units) == {"aifb/rgcn/64": ["pyg/RGCNConv"]}


def test_choices_are_judged_by_times_of_before():
    plans = {
        f"{plan}/t64-p2048": {"median_ms": ms} for plan, ms in (("src", 1.0), ("vanilla", 3.0))
    }
    cells = {"best_plan": "src/t64-p2048", "plans": plans}
    line, mean = choice_lines({f"variants/{GRAPH}/rgcn/8": cells, "ahead": {"plans": 6}})
    chosen = line.split()[-1]
    regret = plans[chosen]["median_ms"]
    assert line.split()[-2] == f"{regret:.3f}x"
    assert mean == f"regret: geometric mean {regret:.3f}x, at worst {regret:.3f}x"


def test_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Cell, "measure", lambda self: unit(1.0, 3.0))
    out = tmp_path / "gpu_check.json"
    arguments = ["--graphs", "am", "--only", "peers/am/rgcn", "--out", str(out)]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert gpu_check.main(arguments) == 2
    assert "torch sees no GPU here" in capsys.readouterr().err
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("gpu_check.card", lambda device: {"card": "made up"})
    assert gpu_check.main([*arguments, "--limit", "-1"]) == 3
    assert gpu_check.main(arguments) == 0
    held = json.loads(out.read_text())
    assert list(held["units"]) == ["peers/am/rgcn/64"]
    assert held["machine"] == {"card": "made up"}
    capsys.readouterr()
    assert gpu_check.main([*arguments, "--table"]) == 0
    assert "geometric mean 3.00x" in capsys.readouterr().out

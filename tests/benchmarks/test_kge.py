"""Peers that score triples score as plain PyTorch does in float64; cells are measured and told."""

import inspect
import json
import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch_geometric")

import kge
from _peers.kge import SCORES, KgeProblem, candidates
from _registry import missing
from tests.benchmarks.test_peers import random_graph
from tests.benchmarks.test_run import folder  # noqa: F401


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("score", SCORES)
def test_peers_have_the_scores_and_gradients_of_plain_pytorch(score):
    problem = KgeProblem(score, random_graph(1), 60, 16)
    cell = kge.KgeCell(score, "", 60, 16, "step")
    want, _ = cell.reference(problem, "full")
    assert want.keys() == {"scores", *problem.tables}
    assert [*inspect.signature(SCORES[score].rows).parameters][3:] == [*problem.tables][2:]
    for candidate in candidates(score):
        is_peer = candidate.family != "hetune" and not candidate.compiled
        if is_peer and missing(candidate) is None:
            found = cell.find(candidate.name).build(replace(problem))()
            assert cell.error(problem, found, want) < 1e-5, candidate.name


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory needs /proc")
@pytest.mark.filterwarnings("ignore")
def test_cells_are_measured_and_told(folder, capsys):  # noqa: F811
    out = folder / "out.json"
    chosen = ("--what", "scores", "--layers", "distmult", "--only", "hetune,torch/plain")
    size = ("--graphs", "tiny", "--batches", "64", "--widths", "16", "--rounds", "3")
    assert kge.main([*chosen, *size, "--threads", "1", "--out", str(out)]) == 0
    (cell,) = json.loads(out.read_text())["cells"]
    assert cell["key"] == "scores/distmult/tiny/64x16"
    assert [c["status"] for c in cell["candidates"]] == ["ok", "ok"], cell
    assert "| scores distmult |" in capsys.readouterr().out


def test_a_table_of_results_tells_ratios():
    def candidate(name, median, peak):
        return {"name": name, "status": "ok", "median_ms": median, "peak_bytes": peak}

    own = candidate("hetune/compile", 1.0, 10)
    others = [("torch/plain", 4.0, 200), ("pykeen/interaction", 6.0, 1), ("expert/grouped", 2.0, 1)]
    found = [own, *(candidate(*other) for other in others)]
    cell = {"what": "step", "layer": "rescal", "candidates": found}
    line = kge.summary([cell]).splitlines()[2]
    assert line == "| step rescal | 6.0x | 4.0x | | 2.0x | 20x |"

"""Every peer that trains has PyG's gradients: in float64, on small graphs with awkward parts."""

import json
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch

pytest.importorskip("torch_geometric")

import training
from _peers import _torch_training, dgl
from _peers import training as peers
from _peers.problem import Problem
from _training_cells import Epoch, Gradients, TrainingCell
from tests.benchmarks.test_peers import random_graph
from tests.benchmarks.test_run import folder  # noqa: F401

from hetune.variants.graph.hetero import HeteroGraph


def problem_of(layer, heads=1, dtype=torch.float64, **options):
    graph = random_graph(1)
    if layer in ("gcn", "gat"):  # in both directions
        src, dst = torch.cat([graph.src, graph.dst]), torch.cat([graph.dst, graph.src])
        graph = HeteroGraph(src, dst, torch.zeros_like(src), num_nodes=graph.num_nodes)
    return Problem(layer, graph, 12, heads, dtype, trains=True, **options)


def error(problem, got, want):
    return TrainingCell(problem.layer, "", 12, problem.heads).error(problem, got, want)


def of_pyg(layer, heads=1):
    problem = problem_of(layer, heads)
    [pyg] = (c for c in peers.candidates(layer) if c.name == f"pyg/{layer.upper()}Conv")
    return problem, Gradients(problem, pyg.build(problem))()


CASES = [
    pytest.param(candidate, heads, id=f"{layer}-{candidate.name}-{heads}")
    for layer in training.LAYERS
    for candidate in peers.candidates(layer)
    if candidate.family == "expert" or "Fast" in candidate.name
    for heads in ((1, 2) if layer in ("rgat", "hgt") else (1,))
]


@pytest.mark.parametrize(("candidate", "heads"), CASES)
def test_gradients_are_pyg_s(candidate, heads):
    problem, want = of_pyg(candidate.layer, heads)
    got = Gradients(problem, candidate.build(problem))()
    assert set(got) == set(want)
    assert error(problem, got, want) < (1e-12 if candidate.layer != "gcn" else 1e-6)  # norms


@pytest.mark.parametrize("layer", training.LAYERS)
@pytest.mark.filterwarnings("ignore::hetune.FallbackWarning")
def test_hetune_s_gradients_pass(layer):
    (_, want), problem = of_pyg(layer), problem_of(layer, dtype=torch.float32)
    [own] = (c for c in peers.candidates(layer) if c.family == "hetune")
    run = Gradients(problem, own.build(problem))
    assert error(problem, run(), want) < 1e-5
    assert not run.ran().startswith("original"), run.ran()


@pytest.mark.dgl
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", ["rgcn", "hgt", "gcn", "gat"])
def test_dgl_s_gradients_are_those_of_its_model(layer):
    pytest.importorskip("dgl")
    problem, want = of_pyg(layer)
    if layer == "hgt":
        light = peers.of_form(partial(_torch_training.hgt, side="source", light=True), problem)
        want = Gradients(problem, light)()
    single = replace(problem, dtype=torch.float32)
    for candidate in peers.candidates(layer):
        if candidate.family == "dgl":
            assert candidate.model == (dgl.LIGHT_HGT if layer == "hgt" else "full")
            got = Gradients(single, candidate.build(single))()
            assert error(problem, got, want) < 1e-5, candidate.name


@pytest.mark.parametrize("layer", ["rgcn", "hgt", "gcn", "featureless"])
def test_epochs_lose_the_same(layer):
    """The second epoch's loss depends on the first one's step."""
    options = {"is_featureless": True} if layer == "featureless" else {}
    problem = problem_of("rgcn" if options else layer, **options)
    losses = {}
    for candidate in peers.candidates(problem.layer):
        if candidate.family in ("expert", "pyg") and not candidate.compiled:
            epoch = Epoch(replace(problem), candidate.build)
            epoch()
            losses[candidate.name] = float(epoch()["loss"])
    assert len(losses) >= 3
    assert max(losses.values()) - min(losses.values()) < 1e-6, losses


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory needs /proc")
@pytest.mark.filterwarnings("ignore")
def test_cells_are_measured_and_told(folder, capsys):  # noqa: F811
    out = folder / "out.json"
    chosen = ("--what", "step,epoch", "--layers", "rgcn", "--only", "hetune,pyg/RGCNConv")
    size = ("--graphs", "tiny+inv", "--widths", "8", "--rounds", "3", "--threads", "1")
    assert training.main([*chosen, *size, "--out", str(out)]) == 0
    step, epoch = json.loads(out.read_text())["cells"]
    for cell in (step, epoch):
        assert [c["status"] for c in cell["candidates"]] == ["ok", "ok"], cell
        own, _ = cell["candidates"]
        assert own["ran"]
        assert own["peak_bytes"] > 0
        assert cell["roofline_ms"] > 0
    assert step["key"] == "step/rgcn/tiny+inv/8x1"
    table = capsys.readouterr().out
    assert "| step rgcn |" in table
    assert " of 1 |" in table


def test_a_table_of_results_tells_what_ran_compiled():
    def cell(layer, ran):
        times = {"status": "ok", "median_ms": 1.0}
        own = {"name": "hetune/compile", "ran": ran, **times, "peak_bytes": 1}
        pyg = {"name": training.tables.PYG[layer], **times, "median_ms": 4.0, "peak_bytes": 4}
        return {"what": "step", "layer": layer, "candidates": [own, pyg], "roofline_ms": 0.5}

    ran = ("src_pair", "original: gradients are needed")
    lines = training.summary([cell("rgcn", ran[0]), cell("gcn", ran[1])]).splitlines()
    assert lines[2] == "| step rgcn | 4.0x | 4.0x | 4.0x | | 0.25 | 0.50 | 1 of 1 |"
    assert lines[3] == "| step gcn | 4.0x | 4.0x | 4.0x | | 0.25 | 0.50 | 0 of 1 |"

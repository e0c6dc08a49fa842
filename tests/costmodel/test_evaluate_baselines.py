"""Choosers that a cost model has to beat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetune.costmodel.evaluate import baselines
from hetune.costmodel.evaluate.metrics import pick
from hetune.costmodel.problems import CandidateSample
from hetune.variants.runtime.roofline import MachineModel, roofline_seconds

from ._judged import launch, problem


def chosen(chooser, given):
    picked = pick(chooser, given)
    return picked and picked.variant


def test_vanilla_is_the_layer_as_written():
    written = "vanilla/b1024"
    assert chosen(baselines.vanilla, problem({"a": 1.0, written: 2.0})) == written
    assert chosen(baselines.vanilla, problem({"a": 1.0})) is None


def test_best_fixed_is_best_by_geometric_mean_layer_by_layer():
    chooser = baselines.best_fixed(
        [
            problem({"a": 1.0, "b": 1.5}, graph="g1"),
            problem({"a": 9.0, "b": 1.0}, graph="g2"),
            problem({"a": 1.0, "b": 1.5}, graph="g1", layer="hgt"),
        ]
    )
    assert chosen(chooser, problem({"a": 1.0, "b": 1.5})) == "b"
    assert chosen(chooser, problem({"a": 2.0, "b": 1.5}, layer="hgt")) == "a"
    assert chosen(chooser, problem({"a": 2.0, "b": 1.5}, layer="unseen")) == "b"


def test_a_variant_that_was_not_measured_counts_as_the_slowest():
    chooser = baselines.best_fixed(
        [problem({"a": 1.0, "b": 2.0}), problem({"b": 1.0, "c": 4.0}), problem({"b": 1, "c": 4})]
    )
    assert chosen(chooser, problem({"a": 1.0, "b": 2.0, "c": 3.0})) == "b"


def test_best_fixed_falls_back_to_the_next_best_that_was_measured():
    chooser = baselines.best_fixed([problem({"a": 1.0, "b": 2.0, "c": 3.0})])
    assert chosen(chooser, problem({"c": 1.0, "b": 1.0})) == "b"
    assert chosen(chooser, problem({"new": 1.0})) == "new"


def test_by_width_takes_the_nearest_widths():
    chooser = baselines.by_width(
        [
            problem({"a": 1.0, "b": 2.0}, d_in=32, d_out=32),
            problem({"a": 2.0, "b": 1.0}, d_in=256, d_out=256),
            problem({"a": 2.0, "b": 1.0}, d_in=32, d_out=32, layer="hgt"),
        ]
    )
    both = {"a": 1.0, "b": 1.0}
    assert chosen(chooser, problem(both, d_in=32, d_out=32)) == "a"
    assert chosen(chooser, problem(both, d_in=64, d_out=32)) == "a"
    assert chosen(chooser, problem(both, d_in=128, d_out=200)) == "b"
    assert chosen(chooser, problem(both, d_in=256, d_out=256, layer="hgt")) == "b"


def test_by_graph_asks_the_nearest_graphs_and_no_widths():
    training = [
        problem({"a": t, "b": 3 - t}, graph=f"{size}{i}", nodes=nodes + i, d_in=d_in)
        for size, nodes, t in (("small", 100, 1.0), ("large", 100_000, 2.0))
        for i in range(5)
        for d_in in (32, 64)
    ]
    chooser = baselines.by_graph(training)
    both = {"a": 1.0, "b": 1.0}
    for d_in in (32, 999):
        assert chosen(chooser, problem(both, nodes=150, graph="x", d_in=d_in)) == "a"
        assert chosen(chooser, problem(both, nodes=50_000, graph="y", d_in=d_in)) == "b"
    assert chosen(chooser, problem(both, nodes=50_000, graph="z", layer="unseen")) == "b"


def test_by_graph_tells_graphs_of_one_name_apart():
    training = [
        problem({"a": t, "b": 3 - t}, fingerprint=f"{size}{i}", nodes=nodes + i)
        for size, nodes, t in (("small", 100, 1.0), ("large", 100_000, 2.0))
        for i in range(5)
    ]
    chooser = baselines.by_graph(training)
    both = {"a": 1.0, "b": 1.0}
    assert chosen(chooser, problem(both, fingerprint="x", nodes=150)) == "a"
    assert chosen(chooser, problem(both, fingerprint="y", nodes=50_000)) == "b"


def test_the_roofline_model_sums_up_launches():
    launches = tuple(launch(1.0, flops) for flops in (2e9, 1e9, 5e8))
    given = replace(
        problem({}),
        candidates=(
            CandidateSample("one", 1.0, 0.0, launches[:1]),
            CandidateSample("two", 1.0, 0.0, launches[1:]),
        ),
    )
    machine = MachineModel(matrix_flops=1e9, launch_seconds=0.1)
    first, *others = roofline_seconds(np.array([x.columns for x in launches]), machine, 2)
    predicted = baselines.roofline(machine)(given)
    assert predicted == {"one": pytest.approx(first), "two": pytest.approx(sum(others))}
    assert predicted["two"] < predicted["one"]


def test_first_run_pays_for_all_candidates():
    given = problem({"a": 1.0, "b": 2.0, "c": 3.0})
    picked = pick(baselines.first_run, given)
    assert (picked.variant, picked.spent) == ("a", 6.0)


def test_first_run_may_be_misled_by_noise_but_repeats_itself():
    given = [problem({"a": 1.0, "b": 1.0001}, graph=str(i), iqr=0.1) for i in range(40)]
    picks = [chosen(baselines.first_run, g) for g in given]
    assert set(picks) == {"a", "b"}
    assert picks == [chosen(baselines.first_run, g) for g in given]


BOTH = {"vanilla/b1024": 1.0, "dst/b1024": 1.0}


@pytest.mark.parametrize(
    ("etypes", "largest", "variant"),
    [(2, 1_000, "dst/b1024"), (1_300, 16_000, "vanilla/b1024")],
)
def test_pyg_loops_over_few_relations_and_takes_many_at_once(etypes, largest, variant):
    pytest.importorskip("torch_geometric")
    given = problem(BOTH, etypes=etypes, largest=largest)
    assert chosen(baselines.pyg_heuristic, given) == variant


def test_pyg_chooses_nothing_for_other_layers():
    assert chosen(baselines.pyg_heuristic, problem(BOTH, layer="hgt")) is None


def test_all_baselines_answer_for_a_problem_with_other_variants():
    training = [problem({"a": 1.0, "b": 2.0}), problem({"a": 1.0, "b": 2.0}, layer="hgt")]
    given = problem({"c": 1.0, "d": 2.0}, graph="other")
    for name, chooser in baselines.baselines(training).items():
        if name != baselines.PYG:
            assert chosen(chooser, given) in ("c", "d"), name

"""When predictions cannot tell, the default variant runs; how far that goes is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetune.costmodel.evaluate.baselines import roofline
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.manifest import ModelManifest
from hetune.costmodel.model.ties import default_of, offered_of, tie_of, unless_tied
from hetune.variants.frontend.presets import labeled_preset, preset_program
from hetune.variants.plan.sides import default_variant
from hetune.variants.plan.variants import variants_of

from ._judged import problem
from ._synthetic import FINGERPRINT, MACHINE, problems, small_model

DEFAULT = default_variant(variants_of(preset_program("rgcn", 64, 64), "cpu")).id
PROBLEMS = 100


@pytest.mark.parametrize(
    ("seconds", "roofline", "default", "tie", "expected"),
    [
        ((1.0, 1.04), (9, 9), 1, 1.05, 1),
        ((1.0, 1.06), (9, 9), 1, 1.05, 0),
        ((1.0, 1.04), (9, 9), 1, 1.0, 0),
        ((1.0, 1.0), (9, 9), 1, 1.0, 1),
        ((1.2, 1.0), (9, 9), 1, 1.05, 1),
        ((1.04, 1.0, 1.02), (9, 9, 9), None, 1.05, 1),
        ((1.0, 1.04), (8, 9), 1, 1.05, 0),
        ((1.0, 1.04), (10, 9), 1, 1.05, 1),
        ((1.0, 1.02, 1.04), (9, 8, 9), 2, 1.05, 2),
    ],
)
def test_the_default_runs_unless_another_is_faster_by_more_than_the_tie_or_by_both_models(
    seconds, roofline, default, tie, expected
):
    assert unless_tied(seconds, roofline, default, tie) == expected


def test_scores_on_edges_are_offered_where_rows_of_sources_fit_no_cache():
    plan = "dst+weights-first+edge-scores+one-pass/b1024"
    measured = problem({plan: 1.0, "hybrid+weights-first/b1024": 2.0}, layer="rgat")
    larger = problem({plan: 1.0, "hybrid+weights-first/b1024": 2.0}, layer="rgat", table=2**26)
    assert offered_of(measured, MACHINE).tolist() == [False, True]
    assert offered_of(larger, MACHINE).tolist() == [True, True]
    assert offered_of(larger, replace(MACHINE, shared_bytes=2**26)).tolist() == [False, True]
    assert roofline(MACHINE)(measured).keys() == {"hybrid+weights-first/b1024"}
    assert plan in roofline(MACHINE)(larger)


def losing(slope: float, free: float = 1.0):
    """Regrets that spread by 20%, and grow with the tie where it is above `free`."""
    spread = np.linspace(-0.2, 0.2, PROBLEMS)
    return lambda tie: np.exp(0.3 + spread + slope * max(0.0, tie - free))


def test_the_tie_is_the_largest_that_costs_no_more_than_a_standard_error():
    assert tie_of(losing(0.0), "cuda") == 1.2
    assert tie_of(losing(100.0), "cuda") == 1.0
    assert tie_of(losing(100.0, free=1.05), "cuda") == 1.05
    error = np.linspace(-0.2, 0.2, PROBLEMS).std() / PROBLEMS**0.5
    assert tie_of(losing(error / 0.0301), "cuda") == 1.03


def test_a_tie_may_also_gain():
    regrets = losing(100.0, free=1.03)
    assert tie_of(lambda tie: regrets(tie) * np.exp(-2 * min(tie, 1.03)), "cuda") == 1.03


def test_on_a_cpu_a_tie_is_no_less_than_what_sessions_differ_by():
    assert tie_of(losing(100.0, free=1.05), "cpu") == 1.12
    assert tie_of(losing(100.0, free=1.15), "cpu") == 1.15


def test_the_default_variant_of_a_problem_is_that_of_its_layer():
    assert default_of(problem({"a": 1.0, DEFAULT: 2.0})) == 1
    assert default_of(problem({"a": 1.0, "b": 2.0})) is None


@pytest.mark.parametrize(("share", "plan"), [(0.0, "dst+separate-sums"), (1.0, "src")])
def test_the_default_variant_on_one_side_is_the_plan_of_that_side(share, plan):
    times = {DEFAULT: 1.0, f"{plan}/b256": 1.0, f"{plan}/b1024": 1.1, f"{plan}/b4096": 1.2}
    assert default_of(problem(times, share=share)) == 2
    assert default_of(problem({DEFAULT: 1.0}, share=share)) is None


def with_default(numbers, tie):
    """Problems whose fifth candidate is the default one, and a model with a tie."""
    renamed = [
        replace(
            each,
            program=labeled_preset("rgcn", 64, 64),
            candidates=tuple(
                replace(c, variant=DEFAULT) if i == 4 else c for i, c in enumerate(each.candidates)
            ),
        )
        for each in numbers
    ]
    model = small_model()
    return renamed, CostModel(model.families, replace(model.manifest, tie=tie))


@pytest.mark.parametrize("tie", [1.0, 1.3, 1e9])
def test_a_model_chooses_by_its_tie(tie):
    wanted, model = with_default(problems(graph_families=4, widths=(64,), seed=3), tie)
    for each in wanted:
        totals, bounds = model.totals(each), roofline(MACHINE)(each)
        best = min(totals, key=totals.__getitem__)
        tied = totals[DEFAULT] <= max(tie, 1.12) * totals[best]
        expected = DEFAULT if tied and bounds[best] >= bounds[DEFAULT] else best
        assert model.choose(each) == expected


def test_a_model_learns_its_tie_and_keeps_it():
    wanted, _ = with_default(problems(graph_families=6, widths=(64,)), 1.0)
    model = CostModel.fit(wanted, MACHINE, FINGERPRINT, target="roofline-ratio", folds=2)
    assert 1.12 <= model.manifest.tie <= 1.2
    assert ModelManifest.from_json(model.manifest.as_json()) == model.manifest
    unheld = CostModel.fit(wanted, MACHINE, FINGERPRINT, target="roofline-ratio", folds=0)
    assert unheld.manifest.tie == 1.0

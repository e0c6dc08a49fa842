"""When predictions cannot tell, the usual variant runs; how far that goes is learned."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.manifest import Manifest
from hetune.costmodel.model.ties import tie_of, unless_tied, usual_of, usual_variants
from hetune.variants.plan.variants import plan_of, usual, variants_of
from hetune.variants.runtime.build import layer_program

from ._judged import problem
from ._synthetic import FINGERPRINT, MACHINE, problems, small_model

USUAL = usual(variants_of(layer_program("rgcn", 64, 64))).id
PROBLEMS = 100


@pytest.mark.parametrize(
    ("seconds", "usual", "tie", "expected"),
    [
        ((1.0, 1.04), 1, 1.05, 1),
        ((1.0, 1.06), 1, 1.05, 0),
        ((1.0, 1.04), 1, 1.0, 0),
        ((1.0, 1.0), 1, 1.0, 1),
        ((1.2, 1.0), 1, 1.05, 1),
        ((1.04, 1.0, 1.02), None, 1.05, 1),
    ],
)
def test_the_usual_variant_runs_unless_another_is_faster_by_more_than_the_tie(
    seconds, usual, tie, expected
):
    assert unless_tied(seconds, usual, tie) == expected


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


def test_the_usual_variant_of_a_problem_is_that_of_its_layer():
    assert usual_of(problem({"a": 1.0, USUAL: 2.0})) == 1
    assert usual_of(problem({"a": 1.0, "b": 2.0})) is None
    assert usual_of(problem({"a": 1.0, USUAL: 2.0}, layer="no such")) is None


@pytest.mark.parametrize(("share", "plan"), [(0.0, "dst+separate-sums"), (1.0, "src")])
def test_the_usual_variant_on_one_side_is_the_plan_of_that_side(share, plan):
    times = {USUAL: 1.0, f"{plan}/b256": 1.0, f"{plan}/b1024": 1.1, f"{plan}/b4096": 1.2}
    found = problem(times, share=share)
    assert usual_of(found) == 2
    assert usual_variants([found]) == (f"{plan}/b256",)
    assert usual_of(found, (USUAL, f"{plan}/b256")) == 1


def sized(small: float, middle: float, large: float, plan: str = plan_of(USUAL), layer="rgcn"):
    """A problem whose plan was measured in three sizes of blocks, and another one in one."""
    times = {f"{plan}/b256": small, f"{plan}/b1024": middle, f"{plan}/b4096": large}
    return problem({**times, "vanilla/b4096": 0.1}, layer=layer)


def test_usual_variants_have_the_size_that_is_fastest_as_a_rule():
    plan = plan_of(USUAL)
    often = [*[sized(1.0, 1.1, 1.2)] * 4, sized(9.0, 1.0, 1.2)]  # what is far off does not count
    assert usual_variants(often) == (f"{plan}/b256",)
    assert usual_variants([sized(1.2, 1.0, 1.3), *often[:1]]) == (f"{plan}/b1024",)
    assert usual_variants([]) == ()


def test_where_all_sizes_ran_the_same_nothing_is_compared():
    same = [sized(1.0, 1.0, 1.0)] * 5
    assert usual_variants(same) == ()
    assert usual_variants([*same, sized(1.0, 1.1, 0.8)]) == (f"{plan_of(USUAL)}/b4096",)


def test_a_problem_with_fewer_sizes_does_not_count():
    alone = problem({f"{plan_of(USUAL)}/b256": 0.1, USUAL: 1.0})
    assert usual_variants([alone, alone, sized(1.0, 0.9, 1.1)]) == (USUAL,)
    assert usual_variants([problem({USUAL: 1.0, "vanilla/b256": 0.1})]) == ()
    assert usual_variants([sized(1.0, 1.1, 0.8, layer="no such")]) == ()


def test_plans_learn_apart():
    hgt = plan_of(usual(variants_of(layer_program("hgt", 64, 64))).id)
    found = usual_variants([sized(1.0, 1.1, 1.2), sized(1.2, 1.1, 1.0, hgt, "hgt")])
    assert found == (f"{hgt}/b4096", f"{plan_of(USUAL)}/b256")


def test_a_plan_of_one_side_learns_from_all_graphs():
    plan = "dst+separate-sums"
    found = problem({f"{plan}/b256": 1.0, f"{plan}/b1024": 1.1, f"{plan}/b4096": 1.2}, share=0.5)
    assert usual_variants([found]) == (f"{plan}/b256",)
    assert usual_of(found) is None  # here the hybrid plan is the usual one


def test_the_usual_variant_is_the_learned_one_of_its_plan():
    plan = plan_of(USUAL)
    found = problem({"a": 1.0, f"{plan}/b256": 2.0, USUAL: 3.0})
    assert usual_of(found, (f"{plan}/b256",)) == 1
    assert usual_of(found, ("a", "vanilla/b256")) == 2
    assert usual_of(found) == 2
    assert usual_of(found, (f"{plan}/b4096",)) is None
    variants = variants_of(layer_program("rgcn", 64, 64))
    assert usual(variants, ("vanilla/b256", f"{plan}/b256")).id == f"{plan}/b256"
    assert usual(variants, ("no such/b256",)).id == USUAL


def with_usual(numbers, tie):
    """Problems whose fifth candidate is the usual one, and a model with a tie."""
    renamed = [
        dataclasses.replace(
            each,
            layer="rgcn",
            candidates=tuple(
                dataclasses.replace(c, variant=USUAL) if i == 4 else c
                for i, c in enumerate(each.candidates)
            ),
        )
        for each in numbers
    ]
    model = small_model()
    return renamed, CostModel(model.families, dataclasses.replace(model.manifest, tie=tie))


@pytest.mark.parametrize("tie", [1.0, 1.3, 1e9])
def test_a_model_chooses_by_its_tie(tie):
    wanted, model = with_usual(problems(graph_families=4, widths=(64,), seed=3), tie)
    for each in wanted:
        totals = model.totals(each)
        best = min(totals, key=totals.__getitem__)
        expected = USUAL if totals[USUAL] <= max(tie, 1.12) * totals[best] else best
        assert model.choose(each) == expected


def test_a_model_learns_its_tie_and_keeps_it():
    wanted, _ = with_usual(problems(graph_families=6, widths=(64,)), 1.0)
    model = CostModel.fit(wanted, MACHINE, FINGERPRINT, target="roofline-ratio", folds=2)
    assert 1.12 <= model.manifest.tie <= 1.2
    assert Manifest.from_json(model.manifest.as_json()) == model.manifest
    unheld = CostModel.fit(wanted, MACHINE, FINGERPRINT, target="roofline-ratio", folds=0)
    assert unheld.manifest.tie == 1.0

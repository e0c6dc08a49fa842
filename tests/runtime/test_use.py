"""Which variant a call runs: preparation, memory, and trying out."""

from __future__ import annotations

import gc
import math
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import pytest

from hetune.variants.errors import MemoryLimitError
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.graph.threads import using_threads
from hetune.variants.kernel.device import DEVICES
from hetune.variants.plan.sides import default_variant
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.calls import PATIENCE, Calls, Policy, about_seconds
from hetune.variants.runtime.choice import choose, chosen, contenders
from hetune.variants.runtime.cost_estimates import CostEstimates
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.layer_use import LayerUse
from hetune.variants.testing.graphs import typed_graph

VARIANTS = variants_of(rgcn_program(8, 8), "cpu")


@dataclass(frozen=True)
class Told:
    """A estimator that says what the test tells it to."""

    seconds: tuple[float, ...]
    prepare: tuple[float, ...] = ()
    factor: float = 1.0
    estimating_seconds: float = 0.0
    tie: float = 1.0
    agreed: bool = False

    def estimate(self, table, domain, threads):
        count = len(table.variants)
        seconds = np.array([*self.seconds, *[99.0] * (count - len(self.seconds))])
        prepare = np.array([*self.prepare, *[0.0] * (count - len(self.prepare))])
        launches = np.zeros(len(table.launches))
        agreed = np.full(count, self.agreed) if self.agreed else None
        return CostEstimates(
            seconds,
            launches,
            prepare,
            "the test",
            default=table.default,
            tie=self.tie,
            agreed=agreed,
        )

    def spread(self, table, domain, threads):
        return np.full(len(table.variants), self.factor)


@pytest.fixture
def graph():
    """Of both sides."""
    return typed_graph((3, 7), [(0, 1, 20), (1, 0, 20)])


def ids(count, use, graph, policy):
    return [use.next(VARIANTS, graph, policy, ready)[0].variant.id for _ in range(count)]


def ready(variant):
    return variant


def test_preparation_counts_the_less_the_more_runs_it_serves(graph):
    told = Told((2.0, 1.0), (0.0, 3.0))
    slow, fast = VARIANTS[0], VARIANTS[1]
    assert chosen(VARIANTS, graph, told, expected_runs=1).variant is slow
    assert chosen(VARIANTS, graph, told, expected_runs=10).variant is fast
    assert chosen(VARIANTS, graph, told).variant is fast
    once = choose(VARIANTS, graph, told, expected_runs=1)
    assert once.id == slow.id
    assert once.reason.endswith("what is prepared for 1 run included")


def test_a_prepared_variant_is_left_only_for_a_gain(graph):
    told, prepared = Told((1.0, 0.9), (5.0, 5.0)), VARIANTS[0].id
    for runs, best in ((1, VARIANTS[0]), (99, VARIANTS[1])):
        assert chosen(VARIANTS, graph, told, expected_runs=runs, prepared=prepared).variant is best


def test_calls_are_expected_to_go_on_as_they_did(graph):
    policy = Policy(Told((2.0, 1.0), (0.0, 3.0)))
    found = ids(8, Calls(), graph, policy)
    assert found[0] == VARIANTS[0].id
    assert found[7] == VARIANTS[1].id
    assert sorted(found, key=found.index) == found  # one change, and no way back


def test_expected_runs_can_be_told(graph):
    policy = Policy(Told((2.0, 1.0), (0.0, 3.0)), expected_runs=100)
    assert set(ids(5, Calls(), graph, policy)) == {VARIANTS[1].id}


def test_the_question_is_put_off_until_runs_have_taken_as_long(graph):
    first = default_variant(VARIANTS, side=Domain(graph).side)
    told = Told((1.0,), estimating_seconds=10.5 * about_seconds(first, graph) / PATIENCE)
    use = Calls()
    assert set(ids(10, use, graph, Policy(told))) == {first.id}
    assert not use.asked
    assert ids(1, use, graph, Policy(told)) == [VARIANTS[0].id]
    assert use.asked


@pytest.mark.parametrize(
    "policy",
    [{"expected_runs": 1.0}, {"memory_limit": 10**9}, {"explore": True}],
    ids=["runs are told", "memory is limited", "variants are tried"],
)
def test_the_question_is_asked_at_once_where_its_answer_is_needed(policy, graph):
    told = Told((1.0,), estimating_seconds=1e9)
    assert ids(1, Calls(), graph, Policy(told, **policy)) == [VARIANTS[0].id]


def test_nothing_is_compiled_to_put_off_the_question(graph):
    policy = Policy(Told((1.0,), estimating_seconds=1e9))
    assert Calls().next(VARIANTS, graph, policy, lambda variant: None)[0].variant is VARIANTS[0]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (rgcn_program(8, 8), "hybrid+separate-sums/b1024"),
        (rgat_program(8, 8), "hybrid+weights-first+one-pass/b1024"),
        (hgt_program(8, 8), "hybrid+scores-hybrid+folded+separate-sums/b1024"),
    ],
    ids=["rgcn", "rgat", "hgt"],
)
def test_the_default_variant_is_the_one_that_adapts_most(program, expected):
    assert default_variant(variants_of(program, "cpu")).id == expected


@pytest.mark.parametrize("program", [rgcn_program(8, 8), rgat_program(8, 8), hgt_program(8, 8)])
@pytest.mark.parametrize("device", DEVICES)
def test_on_one_side_the_default_variant_is_the_plan_of_that_side(program, device):
    variants = variants_of(program, device)
    hybrid = default_variant(variants).id
    assert default_variant(variants, side="dst").id == hybrid.replace("hybrid", "dst")
    fused = hybrid.replace("+separate-sums", "")
    assert default_variant(variants, side="src").id == fused.replace("hybrid", "src")


@pytest.mark.parametrize(
    ("widths", "blocks"), [((8, 64), 1024), ((64, 127), 1024), ((128, 8), 256), ((64, 256), 256)]
)
def test_wide_rows_have_small_blocks_as_a_rule(widths, blocks):
    for make in (rgcn_program, rgat_program, hgt_program):
        [*schedules] = default_variant(variants_of(make(*widths), "cpu")).schedules
        assert {schedule.block_nodes for schedule in schedules} == {blocks}


def test_a_layer_without_hybrid_plans_has_one_default_variant():
    vanilla = tuple(v for v in VARIANTS if v.plan_id == "vanilla")
    assert default_variant(vanilla, side="dst") is default_variant(vanilla)


@pytest.mark.parametrize(
    ("edges", "side"),
    [
        ([(0, 1, 20)], "src"),
        ([(1, 0, 20)], "dst"),
        ([(0, 1, 20), (1, 0, 20)], ""),
        ([], "dst"),
    ],
)
def test_which_side_a_graph_has_alone(edges, side):
    """Edges from 3 nodes to 50 have fewer pairs at their sources."""
    graph = typed_graph((3, 50), edges)
    assert Domain(graph).side == side
    told = Told((1.0,), estimating_seconds=1e9)
    found = ids(1, Calls(), graph, Policy(told))
    assert found == [default_variant(VARIANTS, side=side).id]


def all_but_default(seconds: float) -> tuple[float, ...]:
    """Times: 1 of the default variant, this of the second one, 9 of others."""
    assert default_variant(VARIANTS) is not VARIANTS[1]
    return tuple(
        1.0 if v is default_variant(VARIANTS) else seconds if v is VARIANTS[1] else 9.0
        for v in VARIANTS
    )


@pytest.mark.parametrize(
    ("faster", "tie", "agreed", "expected"),
    [
        (0.96, 1.0, False, VARIANTS[1]),
        (0.96, 1.05, False, default_variant(VARIANTS)),
        (0.96, 1.05, True, VARIANTS[1]),
        (0.94, 1.05, False, VARIANTS[1]),
        (1.1, 1.05, False, default_variant(VARIANTS)),
    ],
)
def test_the_default_variant_runs_where_predictions_cannot_tell(
    graph, faster, tie, agreed, expected
):
    told = Told(all_but_default(faster), tie=tie, agreed=agreed)
    choice = choose(VARIANTS, graph, told)
    assert choice.id == expected.id
    assert chosen(VARIANTS, graph, told).variant is expected
    assert contenders(VARIANTS, graph, told)[0] is expected
    assert ("cannot tell" in choice.reason) == (choice.seconds == 1.0 > faster)


def test_a_usual_variant_that_does_not_fit_is_not_taken_for_a_tie(graph):
    needs = {c.id: c.peak_bytes for c in choose(VARIANTS, graph, Told((1.0,))).candidates}
    small = min(VARIANTS, key=lambda v: needs[v.id])
    assert needs[small.id] < needs[default_variant(VARIANTS).id]
    times = {small: 0.99, default_variant(VARIANTS): 1.0}
    told = Told(tuple(times.get(v, 9.0) for v in VARIANTS), tie=1.05)
    assert choose(VARIANTS, graph, told).id == default_variant(VARIANTS).id
    assert choose(VARIANTS, graph, told, memory_limit=needs[small.id]).id == small.id


def test_contenders_are_those_that_the_prediction_cannot_tell_apart(graph):
    told = Told((1.0, 1.2, 1.3, 1.6), factor=1.1)
    assert [v.id for v in contenders(VARIANTS, graph, told)] == [v.id for v in VARIANTS[:2]]
    wide = Told((1.0, 1.2, 1.3, 1.6), factor=2.0)
    assert len(contenders(VARIANTS, graph, wide, most=3)) == 3


def test_exploring_keeps_what_was_fastest_and_ends(graph):
    policy = Policy(Told((1.0, 1.2, 1.3), factor=1.5), explore=True)
    use, truth = Calls(), {VARIANTS[0].id: 3.0, VARIANTS[1].id: 2.0, VARIANTS[2].id: 4.0}
    tried = []
    for _ in range(40):
        chosen, tell = use.next(VARIANTS, graph, policy, ready)
        tried.append(chosen.variant.id)
        if tell is not None:
            tell(truth[chosen.variant.id])
    assert set(tried[:12]) == set(truth)
    assert set(tried[12:]) == {VARIANTS[1].id}


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
@pytest.mark.parametrize("runs", [0, 1, 3], ids="after {} runs".format)
def test_a_variant_whose_run_fails_is_not_tried_again(failing, runs, graph):
    """The first ones of three fail, after so many runs each that did not."""
    policy = Policy(Told((1.0, 1.2, 1.3), factor=1.5), explore=True)
    use, tried = Calls(), []
    fails = [variant.id for variant in VARIANTS[:failing]]
    for _ in range(20):
        found, tell = use.next(VARIANTS, graph, policy, ready)
        name = found.variant.id
        if tell is not None:
            tell(math.inf if name in fails and tried.count(name) == runs else 1.0)
        tried.append(name)
    left = VARIANTS[failing % 3].id
    assert set(tried[12:]) == {left}
    assert all(tried.count(name) == runs + 1 for name in fails if name != left)


@pytest.mark.parametrize("explore", [False, True], ids=["asked", "tried"])
def test_no_variant_fits(explore, graph):
    use, policy = Calls(), Policy(Told((1.0,)), memory_limit=1, explore=explore)
    for _ in range(2):
        with pytest.raises(MemoryLimitError, match="raise memory_limit to at least"):
            use.next(VARIANTS, graph, policy, ready)


def test_limits_that_differ_from_call_to_call_do_not_add_up():
    use = LayerUse()
    first, unlimited = use.calls(1000), use.calls(None)
    for limit in range(7):
        assert use.calls(limit) is not first
        assert use.calls(None) is unlimited
    assert use.calls(6) is use.calls(6)
    assert use.calls(1000) is not first


def test_calls_with_other_threads_are_others():
    use = LayerUse()
    with using_threads(1):
        alone = use.calls(None)
    with using_threads(2):
        assert use.calls(None) is not alone
    with using_threads(1):
        assert use.calls(None) is alone


def test_decisions_are_remembered_by_demands_as_long_as_who_predicted(graph):
    use = LayerUse()

    def decide_twice() -> None:
        told, runs = Told((1.0,)), []

        def decision(expected_runs: float):
            def chosen():
                runs.append(expected_runs)
                return choose(VARIANTS, graph, told, expected_runs=expected_runs)

            return use.decision(told, (expected_runs, 1), chosen)

        assert decision(math.inf) is decision(math.inf)
        assert decision(1.0) is decision(1.0)
        assert decision(math.inf) == choose(VARIANTS, graph, told).decision
        assert runs == [math.inf, 1.0]

    decide_twice()
    gc.collect()
    assert not use._decisions


def test_the_first_run_of_a_variant_has_preparation_in_it():
    use = LayerUse()
    assert use.record("a", 9.0)
    assert use.times["a"].median is None
    assert not any(use.record("a", float(seconds)) for seconds in range(11))
    assert use.times["a"].median == 6.0


def test_a_call_waits_for_the_first_question_of_another_thread(graph):
    use = Calls()

    @dataclass(frozen=True)
    class Interrupted(Told):
        """While it predicts, another thread calls, and has long enough to fail."""

        def estimate(self, table, domain, threads):
            if not others:
                others.append(pool.submit(ids, 1, use, graph, policy))
                wait(others, timeout=0.1)
            return super().estimate(table, domain, threads)

    others = []
    policy = Policy(Interrupted((1.0,)), explore=True)
    with ThreadPoolExecutor(1) as pool:
        assert ids(1, use, graph, policy) == [VARIANTS[0].id]
        assert others[0].result() == [VARIANTS[0].id]


def test_a_choice_tells_its_launches_and_candidates(graph):
    choice = choose(VARIANTS, graph, Told((2.0, 1.0)))
    assert choice.id == VARIANTS[1].id
    assert choice.expected_runs == math.inf
    assert [c.id for c in choice.candidates[:2]] == [VARIANTS[1].id, VARIANTS[0].id]
    assert len(choice.launches) == len(VARIANTS[1].plan.launches)
    assert "predicted by the test" in choice.reason or "by the test" in choice.reason


@pytest.mark.parametrize(
    "policy",
    [{}, {"expected_runs": 3.0}, {"memory_limit": 10**9}, {"explore": True}],
    ids=["learned", "runs are told", "memory is limited", "variants are tried"],
)
@pytest.mark.parametrize("before", [0, 1, 7])
def test_what_calls_run_is_foreseen(before, policy, graph):
    first = default_variant(VARIANTS, side=Domain(graph).side)
    asking = 4.5 * about_seconds(first, graph) / PATIENCE
    told = Told((4.0, 3.0, 2.0, 1.0), (0.0, 1.5, 11.0, 40.0), factor=1.6, estimating_seconds=asking)
    use, policy = Calls(), Policy(told, **policy)
    ids(before, use, graph, policy)
    count = use.count
    foreseen = {variant.id for variant in use.foreseen(VARIANTS, graph, policy)}
    assert use.count == count
    assert set(ids(300, use, graph, policy)) <= foreseen
    assert len(foreseen) <= 5

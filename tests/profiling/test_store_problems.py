"""Measurements become problems: a time for each launch, grouped by what was measured."""

import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from tests.costmodel import _synthetic
from tests.profiling._made_up import (
    MACHINE,
    OTHER_MACHINE,
    OTHER_PROGRAM,
    PROGRAM,
    measurement,
)

from hetune.costmodel.features.graph import NAMES
from hetune.costmodel.model.training_rows import TrainingRows
from hetune.costmodel.problems import CandidateSample, LaunchSample, Problem, count_graphs
from hetune.profiling.records import PROTOCOLS, LaunchRecord, Measurement, Status
from hetune.profiling.store.problems import problems, select
from hetune.profiling.store.store import ALL, Store
from hetune.profiling.store.summary import standard_error
from hetune.variants.errors import StoreError
from hetune.variants.frontend.presets import labeled_preset

from ._filled import fill


def test_an_empty_store_has_none(store):
    assert problems(store) == ()


def test_samples_become_lower_quartiles(store):
    launch = LaunchRecord("k1", "product", (1.0, 2.0), (0.3, 0.1, 0.2, 0.4))
    other = LaunchRecord("k2", "fused", (3.0,), (0.5,))
    one = measurement(1, samples=(1.0, 2.0, 4.0, 8.0, 3.0), launches=(launch, other))
    store.add([one, measurement(2, samples=(5.0,), launches=(other,))], MACHINE)
    assert problems(store) == (
        Problem(
            graph="hub",
            family="hubs",
            graph_features=one.graph_features,
            program=PROGRAM,
            threads=2,
            machine=MACHINE.digest,
            candidates=(
                CandidateSample(
                    "hybrid/b1",
                    2.0,
                    2.0,
                    (
                        LaunchSample("product", (1.0, 2.0), pytest.approx(0.175)),
                        LaunchSample("fused", (3.0,), 0.5),
                    ),
                    one.prepare_seconds,
                    one.preparation,
                    standard_error(one.samples, 0.25),
                ),
                CandidateSample(
                    "hybrid/b2",
                    5.0,
                    0.0,
                    (LaunchSample("fused", (3.0,), 0.5),),
                    one.prepare_seconds,
                    one.preparation,
                ),
            ),
            graph_fingerprint="f" * 64,
        ),
    )


DST = "dst+weights-first/b256"


def hybrid(blocks: int, *samples: float, **changes) -> Measurement:
    """One of a variant of RGAT, which records are of."""
    made = replace(measurement(blocks, samples=samples), **changes)
    return replace(made, variant=f"hybrid+weights-first/b{blocks}")


@pytest.mark.parametrize(("share", "seconds"), [(0.0, 9.0), (0.5, 1.0), (1.0, 1.0)])
def test_on_graphs_of_one_side_hybrid_plans_have_the_times_of_that_side_s(store, share, seconds):
    """Though they were measured by themselves, as they were run then."""
    features = [1.0] * len(NAMES)
    features[NAMES.index("src_side_edge_share")] = share
    both = replace(hybrid(256, 1.0), graph_features=tuple(features))
    launch = (LaunchRecord("k", "product", (4.0,), (8.0,)),)
    side = replace(both, unit="dst", variant=DST, samples=(9.0,), launches=launch)
    store.add([both, side], MACHINE)
    [problem] = problems(store)
    found = {c.variant: c for c in problem.candidates}
    assert {name: c.seconds for name, c in found.items()} == {both.variant: seconds, DST: 9.0}
    assert (found[both.variant].launches == found[DST].launches) is (share == 0)


def test_variants_that_run_the_same_code_on_the_same_blocks_share_their_samples(store):
    def launch(blocks: float, *samples: float) -> tuple[LaunchRecord]:
        return (LaunchRecord(f"k{blocks}", "fused", (3.0, blocks), samples),)

    given = [
        hybrid(256, 1.0, 5.0, launches=launch(8, 0.5, 2.0)),
        hybrid(1024, 2.0, launches=launch(8, 0.75)),  # a larger size of blocks
        hybrid(4096, 4.0, launches=launch(16, 3.0)),
    ]
    other_plan = replace(given[0], unit="another", variant=DST, samples=(9.0, 9.0))
    store.add([*given, other_plan], MACHINE)
    [problem] = problems(store, share=0.5)
    first, second, third = (one.variant for one in given)
    assert {c.variant: c.seconds for c in problem.candidates} == {
        first: 2.0, second: 2.0, third: 4.0, DST: 9.0,
    }  # fmt: skip
    launches = {c.variant: c.launches[0].seconds for c in problem.candidates}
    assert launches[first] == launches[second] == 0.75
    # A GPU's columns do not tell all of its schedules apart.
    changes = {"device": "cuda", "protocol": PROTOCOLS["cuda"]}
    on_gpu = [replace(one, unit=f"cuda{one.unit}", **changes) for one in given]
    store.add(on_gpu, MACHINE)
    [problem] = problems(store, device="cuda", share=0.5)
    found = {c.variant: c.seconds for c in problem.candidates}
    assert [found[one.variant] for one in on_gpu] == [3.0, 2.0, 4.0]


def test_samples_of_variants_that_were_measured_together_count_once(store):
    launches = (LaunchRecord("k", "fused", (3.0, 8.0), (0.5, 0.6, 0.7)),)
    first = hybrid(256, 1.0, 5.0, 6.0, launches=launches)
    others = hybrid(1024, 2.0, launches=launches)
    together = replace(first, unit="together", variant="hybrid+weights-first/b4096")
    store.add([first, others, together], MACHINE)
    [problem] = problems(store, share=0.5)
    assert [c.seconds for c in problem.candidates] == [3.5, 3.5, 3.5]


@pytest.mark.parametrize("count", range(1, 12))
def test_quartiles_are_numpy_s(store, count):
    samples = tuple(np.random.default_rng(count).random(count).tolist())
    store.add([measurement(samples=samples)], MACHINE)
    [problem] = problems(store)
    low, middle, high = np.percentile(samples, (25, 50, 75))
    assert problem.best.seconds == pytest.approx(low, rel=1e-14)
    [median] = problems(store, share=0.5)
    assert median.best.seconds == pytest.approx(middle, rel=1e-14)
    assert problem.best.iqr == pytest.approx(high - low, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_the_standard_error_is_that_of_times_measured_anew(share):
    draw = np.random.default_rng(0)
    samples = draw.lognormal(size=9)
    rank = round(share * 8)
    anew = np.sort(draw.choice(samples, (100_000, 9)), axis=1)[:, rank]
    assert standard_error(samples, share) == pytest.approx(anew.std(), rel=0.02)


def test_one_sample_has_no_error():
    assert standard_error((3.0,), 0.25) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"family": "roads"},
        {"graph_fingerprint": "0" * 64},
        {"program": OTHER_PROGRAM},
        {"threads": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_inputs_are_other_problems(store, changes):
    store.add([measurement(1), measurement(2), measurement(3, **changes)], MACHINE)
    assert sorted(len(problem.candidates) for problem in problems(store)) == [1, 2]


def test_names_of_graphs_and_campaigns_do_not_matter(store):
    store.add([measurement(1), measurement(2, graph="hub2", campaign="full")], MACHINE)
    [problem] = problems(store)
    assert problem.graph == "hub"
    assert len(problem.candidates) == 2


def test_only_what_ended_well_counts(store):
    bad = [status for status in Status if status is not Status.OK]
    store.add([measurement(n, status=status) for n, status in enumerate(bad)], MACHINE)
    assert problems(store) == ()
    store.add([measurement(9)], MACHINE)
    assert [c.variant for p in problems(store) for c in p.candidates] == ["hybrid/b9"]


@pytest.mark.parametrize(
    "changes",
    [
        {"launches": ()},
        {"launches": (LaunchRecord("k1", "product", (1.0,), (0.0,)),)},
    ],
)
def test_what_models_cannot_learn_from_is_left_out_and_counted(changes, store, caplog):
    seconds = (0.0, 1.0, 1.0, 1.0, 1.0)
    one_zero = measurement(4, launches=(LaunchRecord("k4", "product", (4.0,), seconds),))
    bad = [measurement(2, **changes), measurement(3, program=OTHER_PROGRAM, **changes)]
    store.add([measurement(1), *bad, one_zero], MACHINE)
    with caplog.at_level(logging.WARNING):
        [found] = problems(store)
    assert [c.variant for c in found.candidates] == ["hybrid/b1", "hybrid/b4"]
    assert caplog.messages == [
        f"{store.place}: 2 measurements hold a time of 0 seconds, or no launches, and do not count"
    ]


def test_a_record_that_teaches_nothing_keeps_no_model_from_being_fitted(tmp_path):
    fill(tmp_path / "a.db", _synthetic.problems(graph_families=2, graphs=1))
    with Store.open(tmp_path / "a.db") as store:
        before = problems(store)
        nothing = (LaunchRecord("k", "product", (1.0,), (0.0,)),)
        added = [measurement(1, launches=nothing), measurement(2, launches=()), measurement(3)]
        store.add(added, MACHINE)
        with closing(sqlite3.connect(tmp_path / "a.db")) as other, other:
            other.execute(
                "UPDATE profiling_measurements SET samples = '[1e-320]' WHERE unit = ?",
                [measurement(3).unit],
            )
        assert problems(store) == before
        assert len(TrainingRows.of(problems(store), _synthetic.MACHINE).problems) == len(before)


def test_protocols_are_not_mixed(store, caplog):
    store.add([measurement(1), measurement(2, protocol=0), measurement(3, protocol=0)], MACHINE)
    with caplog.at_level(logging.WARNING):
        assert [c.variant for p in problems(store) for c in p.candidates] == ["hybrid/b1"]
    assert "2 measurements" in caplog.text
    assert "another protocol than 2" in caplog.text


def test_devices_are_not_mixed(store):
    store.add([measurement(1), measurement(2, device="cuda"), measurement(3)], MACHINE)
    [cpu], [gpu] = problems(store), problems(store, device="cuda")
    assert (cpu.device, gpu.device) == ("cpu", "cuda")
    assert [c.variant for c in cpu.candidates] == ["hybrid/b1", "hybrid/b3"]
    assert [c.variant for c in gpu.candidates] == ["hybrid/b2"]


def test_single_kernels_count_where_they_are_named(store):
    linear = labeled_preset("linear", 32, 64)
    store.add([measurement(1), measurement(2, program=linear)], MACHINE)
    assert [p.program for p in problems(store)] == [PROGRAM]
    assert [p.program for p in problems(store, programs=[linear])] == [PROGRAM, linear]


def test_the_newest_code_of_a_variant_counts(store):
    old = measurement(1, variant="vanilla", graph_features=(1.0,))
    new = measurement(2, variant="vanilla", graph_features=(1.0, 2.0))
    store.add([old], MACHINE)
    store.add([new], MACHINE)
    [problem] = problems(store)
    assert problem.graph_features == (1.0, 2.0)
    assert [c.seconds for c in problem.candidates] == [np.quantile(new.samples, 0.25)]


def test_what_was_measured_before_and_is_added_later_does_not_count(store):
    new = measurement(2, variant="vanilla", graph_features=(1.0, 2.0))
    before = new.measured_at - timedelta(days=30)
    old = measurement(1, variant="vanilla", graph_features=(1.0,), measured_at=before)
    store.add([new], MACHINE)
    store.add([old], MACHINE)
    [problem] = problems(store)
    assert problem.graph_features == (1.0, 2.0)
    assert [c.seconds for c in problem.candidates] == [np.quantile(new.samples, 0.25)]


def unsteady(n, drift, name, family):
    return measurement(n, graph=name, graph_fingerprint=name, family=family, drift=drift)


def test_what_was_measured_on_an_unsteady_machine_does_not_count(store, caplog, monkeypatch):
    monkeypatch.setattr("hetune.profiling.store.problems.MOST_DRIFT", 0.5)
    drifts = {"busy": (0.6, 0.7, 0.0), "calm": (0.6, 0.1, 0.0), "quiet": (0.0, 0.0, 0.0)}
    store.add(
        [
            unsteady(10 * g + n, drift, name, f"family of {name}")
            for g, (name, of_variants) in enumerate(drifts.items())
            for n, drift in enumerate(of_variants)
        ],
        MACHINE,
    )
    found = problems(store)
    assert [(problem.graph, len(problem.candidates)) for problem in found] == [
        ("calm", 3),
        ("quiet", 3),
    ]
    assert "1 of 3 problems (graph families family of busy)" in caplog.text
    assert "do not count: to measure them again" in caplog.text


@pytest.mark.parametrize(
    ("drifts", "families"),
    [
        ((0.0, 0.9, 0.9), ("a", "b", "c")),  # fewer than half are left
        ((0.0, 0.0, 0.9), ("a", "a", "b")),  # one family is left
    ],
)
def test_unsteady_measurements_count_where_too_little_is_left_without_them(
    store, monkeypatch, drifts, families
):
    monkeypatch.setattr("hetune.profiling.store.problems.MOST_DRIFT", 0.5)
    members = zip(drifts, families, strict=True)
    store.add([unsteady(n, d, f"g{n}", f) for n, (d, f) in enumerate(members)], MACHINE)
    found = select(store, least_families=2)
    assert len(found.problems) == 3
    [remark] = found.remarks
    assert "count all the same" in remark


def test_machines_are_not_mixed(store):
    store.add([measurement(1)], MACHINE)
    store.add([measurement(2, machine=OTHER_MACHINE.digest)], OTHER_MACHINE)
    with pytest.raises(StoreError, match="name one of"):
        problems(store)
    [problem] = problems(store, OTHER_MACHINE.digest)
    assert problem.machine == OTHER_MACHINE.digest
    assert {p.machine for p in problems(store, ALL)} == {MACHINE.digest, OTHER_MACHINE.digest}


def test_the_order_of_measuring_does_not_matter(tmp_path):
    found = []
    batch = [
        measurement(
            n,
            program=labeled_preset(("hgt", "rgcn")[n % 2], 1 + n % 3, 4),
            graph_fingerprint=f"{n % 4 // 2}",
        )
        for n in range(24)
    ]
    for number, order in enumerate((batch, batch[::-1])):
        with Store.open(tmp_path / f"{number}.db") as store:
            store.add(order, MACHINE)
            found.append(problems(store))
    assert found[0] == found[1]
    assert len(found[0]) == 12
    assert count_graphs(found[0]) == 2

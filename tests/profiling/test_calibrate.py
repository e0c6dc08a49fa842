"""Calibrating: sizes of caches, rates, and the correction that is left to make."""

import math
from dataclasses import asdict, replace
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.registry.calibration import ROOFLINE
from hetune.profiling.calibrate import calibration, observations, probes
from hetune.profiling.calibrate.caches import DEFAULT, Caches, detect
from hetune.profiling.calibrate.correction import Observed, correct, error, predictions
from hetune.profiling.calibrate.rates import Tables, machine_of, measure_machine
from hetune.profiling.corpus.recipes import build, recipe
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.records import LaunchRecord, Measurement, Status
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.roofline import MachineModel, roofline_seconds

KB, MB = 1 << 10, 1 << 20


# Caches.


def cache(root, index, level, kind, size):
    folder = root / f"sys/devices/system/cpu/cpu0/cache/index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", level), ("type", kind), ("size", size)):
        (folder / name).write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([(2, "Unified", "2048K"), (3, "Unified", "36M")], Caches(2 * MB, 36 * MB)),
        ([(1, "Data", "48K"), (2, "Unified", "1M"), (3, "Unified", "8M")], Caches(MB, 8 * MB)),
        ([(1, "Data", "64K"), (1, "Instruction", "64K")], Caches(64 * KB, 64 * KB)),
        ([(1, "Data", "64K"), (2, "Unified", "4M")], Caches(4 * MB, 4 * MB)),
        ([], DEFAULT),
        ([(2, "Unified", "0K"), (3, "Unified", "36M")], DEFAULT),
        ([(2, "Unified", "8M"), (3, "Unified", "1M")], DEFAULT),
        ([(2, "Unified", "1M"), (3, "Unified", "900G")], DEFAULT),
        ([(3, "Unified", "36M")], DEFAULT),
    ],
)
def test_sizes_of_caches_are_what_the_system_says_if_plausible(told, expected, tmp_path):
    for index, (level, kind, size) in enumerate(told):
        cache(tmp_path, index, level, kind, size)
    assert detect(tmp_path) == expected


# Rates.


def test_tables_fit_the_level_of_memory_that_they_are_for():
    tables = Tables.of(Caches(MB, 32 * MB))
    assert tables.own <= MB // 2
    assert tables.shared == (16 * MB, 4 * MB, MB)
    assert tables.memory > 32 * MB
    assert Tables.of(Caches(64 * KB, 64 * KB)).shared == (32 * KB,)


def timed(tables, shared, **changed):
    """Seconds for each unit on one thread."""
    seconds = {"matrix": 1e-11, "vector": 1e-11, "special": 1e-9, "launch": 5e-6, "own": 1e-11}
    for size, rate in zip(tables.shared, shared, strict=True):
        seconds[f"shared {size}"] = 1 / rate
    exchange = {"kept": 2e-9, "exchanged": 12e-9}
    return {**seconds, "memory": 1e-10, "memory in order": 1e-10, **exchange, **changed}


def test_rates_are_those_of_one_thread():
    caches = Caches(MB, 32 * MB)
    tables = Tables.of(caches)
    machine = machine_of(timed(tables, (40e9, 40e9, 40e9)), caches, tables, threads=4)
    assert asdict(machine) == pytest.approx(
        {
            "matrix_flops": 25e9,
            "vector_flops": 12.5e9,
            "special": 0.25e9,
            "own_bytes": MB,
            "shared_bytes": 32 * MB,
            "own_rate": 25e9,
            "shared_rate": 10e9,
            "memory_rate": 2.5e9,
            "exchange_seconds": 10e-9,
            "launch_seconds": 5e-6,
            "unevenness": MachineModel().unevenness,
        }
    )


@pytest.mark.parametrize(
    ("shared", "size", "rate"),
    [
        ((20e9, 40e9, 40e9), 32 * MB, 30e9),  # the mean time of a byte
        ((10e9, 30e9, 60e9), 8 * MB, 40e9),
        ((10e9, 10e9, 30e9), 2 * MB, 30e9),
        ((10e9, 10e9, 10e9), 2 * MB, 10e9),
    ],
)
def test_a_shared_cache_no_faster_than_memory_is_taken_to_be_smaller(shared, size, rate):
    caches = Caches(MB, 32 * MB)
    tables = Tables.of(caches)
    machine = machine_of(timed(tables, shared), caches, tables, threads=1)
    assert (machine.shared_bytes, machine.shared_rate) == (size, pytest.approx(rate))


def test_no_memory_is_faster_than_a_nearer_one():
    caches = Caches(MB, 32 * MB)
    tables = Tables.of(caches)
    seconds = timed(tables, (200e9, 200e9, 200e9), **{"memory in order": 1e-15})
    machine = machine_of(seconds, caches, tables, threads=1)
    assert machine.own_rate >= machine.shared_rate >= machine.memory_rate


def test_a_machine_is_measured():
    told = []
    before = torch.get_num_threads()
    machine = measure_machine(
        2,
        rounds=2,
        caches=Caches(256 * KB, 4 * MB),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 2), (2, 2)]
    assert torch.get_num_threads() == before
    rates = asdict(machine)
    assert 0 <= rates.pop("exchange_seconds") < 1e-3
    assert all(0 < value < math.inf for value in rates.values())
    assert machine.own_bytes == 256 * KB
    assert machine.own_rate >= machine.shared_rate >= machine.memory_rate


def test_time_limits_the_rounds():
    told = []
    measure_machine(
        1,
        rounds=50,
        seconds=0.0,
        caches=Caches(256 * KB, 4 * MB),
        progress=lambda done, total: told.append(done),
    )
    assert told == [1, 2, 3]


def test_probes_say_how_much_they_do():
    graph = probes.random_graph(20, 100, 2)
    pairs = len({(s, t) for s, t in zip(graph.src.tolist(), graph.etype.tolist(), strict=True)})
    assert probes.product(64, graph).units == 2 * pairs * 64 * 64
    assert probes.aggregation(graph).units == 100 * 256
    assert probes.fma(1000, 2).units == 1000 * 2 * 384
    rows = torch.zeros(30, dtype=torch.int32)
    assert probes.gather(torch.zeros(1, 64), rows, 2).units == 30 * 256
    for shift in (0, 1):
        exchange = probes.exchange(30, 2, shift)
        assert exchange.units == 30 * 4
        exchange.run()


def test_one_thread_exchanges_nothing_and_no_time_is_below_none():
    caches = Caches(MB, 32 * MB)
    tables = Tables.of(caches)
    for threads, changed in ((1, {}), (2, {"kept": 20e-9})):
        seconds = timed(tables, (40e9, 40e9, 40e9), **changed)
        assert machine_of(seconds, caches, tables, threads).exchange_seconds == 0


# The correction.


def observed(families, seconds, predicted=1e-3):
    """Launches; the roofline model is not asked, `predict` below is."""
    columns = np.ones((len(families), len(COLUMNS)))
    columns[:, 0] = predicted
    return Observed(tuple(families), columns, np.array(seconds), np.zeros(3), 2)


def predict(problem):
    return problem.columns[:, 0]


def test_offsets_are_medians_by_family_shrunk_where_launches_are_few():
    slow = [observed(["product"] * 2 + ["fused"], [2e-3, 2e-3, 0.5e-3]) for _ in range(4)]
    found = correct(slow, predict)
    assert found.offsets == pytest.approx(
        {"product": math.log(2) * 8 / 16, "fused": math.log(0.5) * 4 / 12}
    )
    many = correct(slow * 100, predict).offsets
    assert many == pytest.approx({"product": math.log(2), "fused": math.log(0.5)}, rel=0.03)


def test_single_outliers_do_not_move_offsets():
    problems = [observed(["fused"] * 20, [1e-3] * 19 + [10.0])]
    assert correct(problems, predict).offsets == {"fused": 0.0}


def test_broken_measurements_do_not_make_huge_offsets():
    offsets = correct([observed(["fused"] * 1000, [100.0] * 1000)], predict).offsets
    assert offsets == {"fused": pytest.approx(math.log(8))}


def test_errors_are_those_on_problems_that_offsets_were_not_fitted_to():
    alike = [observed(["fused"] * 8, [2e-3] * 8) for _ in range(50)]
    assert error(alike, predict) == pytest.approx(math.log(2))
    assert correct(alike, predict).error < 0.05
    assert correct(alike[:1], predict).error == pytest.approx(math.log(2))
    # What was learned of one family says nothing of another.
    unalike = [observed(["fused"] * 8, [2e-3] * 8), observed(["product"] * 8, [2e-3] * 8)]
    assert correct(unalike, predict).error == pytest.approx(math.log(2))


def test_without_a_model_the_roofline_model_predicts():
    problem = observed(["fused"], [1e-3], predicted=1e9)
    machine = MachineModel(matrix_flops=1e9)
    wanted = roofline_seconds(problem.columns, machine, 2)
    assert predictions(None, machine)(problem).tolist() == wanted.tolist()


def measurement(launches, status=Status.OK):
    facts = dict.fromkeys(Measurement.__dataclass_fields__, "")
    facts |= {"status": status, "launches": launches, "graph_features": (1.0,), "threads": 2}
    return Measurement(**{**facts, "measured_at": datetime.now(UTC)})


def test_distinct_launches_of_units_with_times_are_looked_at():
    one = LaunchRecord("a", "fused", (1.0, 2.0), (3.0, 1.0, 2.0))
    other = LaunchRecord("b", "product", (3.0, 4.0), (5.0,))
    units = [measurement((one,)), measurement((one, other)), measurement((), Status.WRONG)]
    found = Observed.of(units)
    assert found is not None
    assert found.families == ("fused", "product")
    assert found.columns.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found.seconds.tolist() == [1.5, 5.0]  # lower quartiles
    assert (found.graph_features.tolist(), found.threads) == ([1.0], 2)
    assert Observed.of(units[2:]) is None


# A few launches.


def test_the_graphs_can_be_made():
    names = [graph.name for graph in observations.graphs()]
    assert names == ["own", "shared", "hubs", "memory"]
    smallest = build(observations.graphs()[0])
    assert (smallest.num_nodes, smallest.num_edges) == (2_000, 15_000)


def test_a_few_launches_are_measured():
    tiny = recipe("tiny", "typed", options={"nodes": 30, "edges": 100, "etypes": 3})
    told = []
    found = observations.observe(
        recipes=[tiny],
        programs=[labeled_preset("rgcn", 8, 8)],
        threads=1,
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    (problem,) = found
    assert {"product", "fused"} <= set(problem.families)
    assert problem.columns.shape == (len(problem.families), len(COLUMNS))
    assert (problem.seconds > 0).all()
    assert told[-1] == ("measuring", 1, 1)
    assert (
        observations.observe(
            recipes=[tiny], programs=[labeled_preset("rgcn", 8, 8)], threads=1, seconds=-1
        )
        == ()
    )


# All of it.

MEASURED = MachineModel(matrix_flops=1e12)
TRAINED = MachineModel(matrix_flops=2e12)
ELSEWHERE = replace(this_machine(), cpu="another one")


class Model:
    """Predicts 1 ms for one machine's rates, and wildly for any other's."""

    def __init__(self, fingerprint, good):
        self.good = good
        self.manifest = SimpleNamespace(
            machine=TRAINED,
            digest="its digest",
            fingerprint=fingerprint,
            device="cpu",
        )

    def predict(self, launches, machine):
        count = len(launches.families)
        wild = np.where(np.arange(count) % 2, 1e-6, 1.0)
        return np.full(count, 1e-3) if machine == self.good else wild


@pytest.fixture
def calibrate(monkeypatch):
    """Calibrates with a model, and launches of 2 ms that were measured."""

    def run(model, **options):
        problems = tuple(observed(["fused"] * 10, [2e-3] * 10) for _ in range(20))
        monkeypatch.setattr(calibration, "load_best", lambda device: model)
        monkeypatch.setattr(calibration, "measure_machine", lambda **given: MEASURED)
        monkeypatch.setattr(calibration, "observe", lambda **given: problems)
        return calibration.calibrate(**options)

    return run


def test_nobody_else_measures_meanwhile(calibrate, monkeypatch):
    seen = []

    def measure(**given):
        with measuring_lock(wait=False) as is_alone:
            seen.append(is_alone)
        return MEASURED

    calibrate(None)
    monkeypatch.setattr(calibration, "measure_machine", measure)
    calibration.calibrate()
    assert seen == [False]


def test_a_foreign_model_is_corrected_for_the_measured_rates(calibrate):
    found = calibrate(Model(ELSEWHERE, good=MEASURED))
    made = found.calibration
    assert made.machine == found.measured == MEASURED
    assert made.offsets == {"fused": pytest.approx(math.log(2), rel=0.05)}
    assert (made.model_id, made.fingerprint) == ("its digest", this_machine().digest)
    assert made.error_after < 0.05 < made.error_before
    assert not found.at_home


def test_a_model_keeps_its_rates_where_it_predicts_better_with_them(calibrate):
    found = calibrate(Model(ELSEWHERE, good=TRAINED))
    assert (found.calibration.machine, found.measured) == (TRAINED, MEASURED)
    assert found.calibration.measured == MEASURED
    assert found.calibration.error_before == pytest.approx(math.log(2))


def test_a_model_of_this_machine_is_left_as_it_is(calibrate):
    found = calibrate(Model(this_machine(), good=TRAINED))
    assert found.at_home
    assert (found.calibration.machine, found.calibration.offsets) == (MEASURED, {})


def test_without_a_model_there_are_rates_and_no_offsets(calibrate):
    made = calibrate(None).calibration
    assert (made.machine, made.offsets, made.model_id) == (MEASURED, {}, ROOFLINE)
    assert made.error_before is not None
    assert made.error_after is not None


def test_quick_measures_rates_only(calibrate):
    made = calibrate(Model(ELSEWHERE, good=MEASURED), quick=True).calibration
    assert (made.machine, made.offsets, made.model_id) == (MEASURED, {}, ROOFLINE)
    assert made.error_before is made.error_after is None


@pytest.mark.parametrize("good", [MEASURED, TRAINED], ids=["measured", "trained"])
def test_quick_keeps_what_was_learned_of_the_model(good, calibrate, monkeypatch, tmp_path):
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path))
    whole = calibrate(Model(ELSEWHERE, good=good)).calibration
    whole.save()
    later = replace(MEASURED, memory_rate=1e9)
    monkeypatch.setattr(calibration, "measure_machine", lambda **given: later)
    made = calibration.calibrate(quick=True).calibration
    assert (made.machine, made.offsets, made.model_id) == (good, whole.offsets, whole.model_id)
    assert made.measured == later
    of_another = Model(ELSEWHERE, good=good)
    of_another.manifest.digest = "another digest"
    monkeypatch.setattr(calibration, "load_best", lambda device: of_another)
    made = calibration.calibrate(quick=True).calibration
    assert (made.machine, made.offsets, made.model_id) == (later, {}, ROOFLINE)

"""The selector: learned choices, explained, and never a failure."""

from __future__ import annotations

import dataclasses
import logging
import math
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import hetune
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.model.bundle import save
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.overhead import Overhead
from hetune.costmodel.model.regressor import LaunchRegressor
from hetune.costmodel.registry.calibration import Calibration
from hetune.costmodel.registry.default_model import ForeignModelWarning, calibrated
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection import selector as selector_module
from hetune.costmodel.selection.explanation import Explanation
from hetune.costmodel.selection.selector import LEARNED, RETRY_SECONDS, Selector
from hetune.variants.errors import InputError, MemoryLimitError, ModelError, VariantError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.presets import preset_program
from hetune.variants.passes.backward import backward
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.cost_estimates import RooflineEstimator
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.testing.graphs import AWKWARD, typed_graph

from ._synthetic import MACHINE, small_model
from .test_model_registry import report

LAYERS = ("rgcn", "rgat", "hgt")


@pytest.fixture
def graph():
    return typed_graph((40, 300), [(0, 1, 2000), (1, 0, 500), (1, 1, 0)])


@pytest.fixture
def selector():
    return Selector(small_model())


class Broken:
    """A model that fails whatever it is asked."""

    def __init__(self, error: BaseException) -> None:
        self.manifest, self._error = small_model().manifest, error
        self.launch_seconds = 0.0
        self.run_seconds = 0.0

    def predict(self, *args):
        raise self._error

    interval = contributions = prepare_seconds = predict


def table_of(layer: str) -> CandidateTable:
    return CandidateTable.of(variants_of(preset_program(layer, 16, 16), "cpu"))


@pytest.mark.parametrize("layer", LAYERS)
def test_the_choice_has_the_least_predicted_time(selector, graph, layer):
    choice = selector.choose(layer, graph, 16)
    estimates = selector.estimate(table_of(layer), Domain(graph), 1)
    assert len(choice.candidates) == len(estimates.seconds)
    first = next(c for c in choice.candidates if choice.scored.is_offered(c.id))
    is_tied = choice.id == choice.scored.ids[estimates.default]
    assert choice.seconds <= first.seconds * (small_model().tie if is_tied else 1)
    assert "by the cost model" in choice.reason
    assert sum(choice.launches) <= choice.seconds


def test_warming_up_asks_the_trees_of_every_family(monkeypatch):
    model, asked = small_model(), set()
    predict = LaunchRegressor.predict

    def noted(regressor, *rows, **options):
        asked.add(id(regressor))
        return predict(regressor, *rows, **options)

    monkeypatch.setattr(LaunchRegressor, "predict", noted)
    assert Selector(model).warm_up().source == LEARNED
    assert asked == {id(family.regressor) for family in model.families.values()}
    assert len(asked) == 3


def test_warming_up_plans_a_layer():
    module = hetune.nn.RGCN(5, 9, 3)
    assert Selector().warm_up(module).id in {
        v.id for v in variants_of(adapt(module).program, "cpu")
    }


def test_a_module_has_widths_of_its_own(selector, graph):
    module = hetune.nn.RGCN(16, 16, 3)
    assert selector.choose(module, graph).id == selector.choose("rgcn", graph, (16, 16)).id


def test_a_stack_hands_widths_on(selector, graph):
    first, second = selector.choose_stack(["rgcn", "rgat"], graph, [16, 32, 8])
    assert first.id == selector.choose("rgcn", graph, (16, 32)).id
    assert second.id == selector.choose("rgat", graph, (32, 8)).id
    with pytest.raises(InputError, match="3 in all"):
        selector.choose_stack(["rgcn", "rgat"], graph, [16, 32])
    for widths in (16, np.int64(16), np.array(16), None):
        with pytest.raises(InputError, match="give a list of integers"):
            selector.choose_stack(["rgcn", "rgat"], graph, widths)
    for layers in ("rgcn", None, 4):
        with pytest.raises(InputError, match=f"layers={layers!r}: give a list of names"):
            selector.choose_stack(layers, graph, (16, 16, 16, 16, 16))


def test_what_cannot_be_chosen_is_said(selector, graph):
    with pytest.raises(InputError, match=r"widths=\(d_in, d_out\)"):
        selector.choose("rgcn", graph)
    with pytest.raises(InputError, match="no layer 'mlp'"):
        selector.choose("mlp", graph, 16)
    with pytest.raises(VariantError, match="Linear has no variants"):
        selector.choose(nn.Linear(2, 2), graph)
    with pytest.raises(MemoryLimitError, match="raise memory_limit"):
        selector.choose("rgcn", graph, 16, memory_limit=1)
    with pytest.raises(InputError, match="memory_limit='50MB': give an integer of bytes"):
        selector.choose("rgcn", graph, 16, memory_limit="50MB")
    for runs in (0, -1, math.nan, "3"):
        with pytest.raises(InputError, match="expected_runs"):
            selector.explain("rgcn", graph, 16, expected_runs=runs)
    for widths in ((64,), 64.0, "64", (64, None)):
        with pytest.raises(InputError, match=r"give \(d_in, d_out\), or one integer for both"):
            selector.choose("rgcn", graph, widths)
    assert selector.choose("rgcn", graph, np.int64(16)).id
    with pytest.raises(InputError, match="graph is a str: give a HeteroGraph"):
        selector.choose("rgcn", "aifb", 16)


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_graphs_have_choices(selector, name):
    choice = selector.choose("rgat", AWKWARD[name](), 16)
    assert np.isfinite([c.seconds for c in choice.candidates]).all()


@pytest.mark.parametrize(
    "error",
    [
        ModelError("the trees are gone"),
        ValueError("odd"),
        KeyError("fused"),
        MemoryError(),
        TypeError("odd"),
        OSError("odd"),
        RuntimeError("odd"),
    ],
    ids=repr,
)
def test_a_model_that_fails_leaves_it_to_the_roofline_model(graph, error, caplog):
    broken = Selector(Broken(error))
    with caplog.at_level(logging.WARNING):
        first = broken.choose("rgcn", graph, 16)
        broken.choose("rgat", graph, 16)
    expected = Selector(None, broken.machine).choose("rgcn", graph, 16)
    assert (first.id, first.reason) == (expected.id, expected.reason)
    said = [r for r in caplog.records if "roofline model chooses in place" in r.message]
    assert len(said) == 1
    assert (broken.spread(table_of("rgcn"), Domain(graph), 1) >= 1).all()
    assert isinstance(broken.explain("rgcn", graph, 16), Explanation)


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
def test_times_that_are_not_finite_are_no_predictions(graph, seconds, caplog):
    model = small_model()
    papers = dataclasses.replace(model.manifest, overhead=Overhead(0.0, seconds))
    choice = Selector(CostModel(model.families, papers)).choose("rgcn", graph, 16)
    assert choice.source != LEARNED
    assert "predicts times that are not finite" in caplog.text


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_is_no_failure_of_a_model_is_raised(graph, error, monkeypatch):
    """An interrupt, and what the roofline model itself raises."""

    def fail(*_):
        raise error

    broken = Selector(Broken(error()))
    monkeypatch.setattr(RooflineEstimator, "estimate", fail)
    with pytest.raises(error):
        broken.choose("rgcn", graph, 16)


def test_without_a_model_the_roofline_model_answers(graph):
    choice = Selector().choose("hgt", graph, 16)
    assert "by the roofline model" in choice.reason
    for launch in Selector().explain("hgt", graph, 16).launches:
        assert (launch.low, launch.high) == (0.5 * launch.seconds, 2 * launch.seconds)
    estimates = RooflineEstimator().estimate(table_of("hgt"), Domain(graph), 1)
    assert Selector().estimate(table_of("hgt"), Domain(graph), 1).seconds.tolist() == (
        estimates.seconds.tolist()
    )


def test_a_family_that_a_model_lacks_is_left_to_the_roofline_model(selector, graph):
    _, last, _ = backward(preset_program("rgcn", 16, 16), ("x", "w")).stages
    choice = selector.choose(last.program, graph)
    assert choice.source == LEARNED
    assert "by the cost model (outer: the roofline model)" in choice.reason
    assert choice.seconds > max(choice.launches) > 0


def test_offsets_scale_families(graph):
    model = small_model()
    table, domain = table_of("rgat"), Domain(graph)
    plain = Selector(model).estimate(table, domain, 1)
    scaled = Selector(model, offsets={"fused": np.log(3.0)}).estimate(table, domain, 1)
    ratio = scaled.launches / plain.launches
    for family, factor in zip(table.families, ratio.tolist(), strict=True):
        assert factor == pytest.approx(3.0 if family == "fused" else 1.0)


def test_an_explanation_names_launches_features_and_runners_up(selector, graph):
    explained = selector.explain("rgat", graph, 16)
    table = table_of("rgat")
    variant = next(v for v in table.variants if v.id == explained.choice.id)
    assert len(explained.launches) == len(variant.plan.launches)
    for launch in explained.launches:
        assert launch.low <= launch.seconds <= launch.high
        assert launch.features
    text = str(explained)
    assert explained.choice.id in text
    assert "launches of a run" in text
    assert explained.choice.candidates[1].id in text


def test_spreads_come_from_intervals(selector, graph):
    spread = selector.spread(table_of("rgcn"), Domain(graph), 1)
    assert (spread >= 1).all()
    assert spread.max() > 1


def test_prices_are_remembered_for_a_graph(graph):
    class Counting(Selector):
        asked = 0

        def estimate(self, table, domain, threads):
            self.asked += 1
            return super().estimate(table, domain, threads)

    counting = Counting(small_model())
    for _ in range(3):
        counting.choose("rgcn", graph, 16)
    assert counting.asked == 1


def test_compile_takes_a_selector(graph):
    module = hetune.nn.RGCN(8, 8, 3)
    x = torch.randn(graph.num_nodes, 8)
    with torch.no_grad():
        layer = hetune.compile(module, backend="torch", selector=Selector(small_model()))
        found = layer(x, graph)
        assert layer.explain(x, graph).reason.startswith("least predicted time by the cost model")
        assert torch.allclose(found, module(x, graph), atol=1e-5)


def test_what_is_loaded_follows_the_registry(tmp_path, monkeypatch):
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path))
    packaged = Selector.load()
    assert Selector.load() is packaged
    registry = ModelRegistry()
    key = registry.add(small_model())
    assert Selector.load().model.manifest.digest == packaged.model.manifest.digest
    registry.promote(key, report=report(1.1))
    with pytest.warns(ForeignModelWarning):
        champion = Selector.load()
    assert champion.model.manifest.digest == small_model().manifest.digest
    assert Selector.load() is champion
    registry.rollback()
    assert Selector.load().model.manifest.digest == packaged.model.manifest.digest


def test_a_champion_that_could_not_be_read_is_tried_again(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path))
    now = 0.0
    # Its own alone: event loops of other threads would wait by this clock, and not wake up.
    monkeypatch.setattr(selector_module, "time", SimpleNamespace(monotonic=lambda: now))
    registry = ModelRegistry()
    key = registry.add(small_model())
    registry.promote(key, report=report(1.1))
    (damaged,) = tmp_path.rglob("fused.npz")
    content = damaged.read_bytes()
    damaged.write_bytes(b"")
    stand_in = Selector.load()
    damaged.write_bytes(content)
    now = RETRY_SECONDS / 2
    assert Selector.load() is stand_in
    now = RETRY_SECONDS
    with pytest.warns(ForeignModelWarning):
        assert Selector.load().model.manifest.digest == small_model().manifest.digest
    assert caplog.text.count("the champion does not answer") == 1


def test_corrections_are_for_the_model_that_they_were_made_for(tmp_path):
    model, registry = small_model(), ModelRegistry(tmp_path)
    other = CostModel(model.families, dataclasses.replace(model.manifest, target="log-seconds"))
    measured = dataclasses.replace(MACHINE, matrix_flops=2 * MACHINE.matrix_flops)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    machine, made_for = this_machine().digest, model.manifest.digest
    calibration = Calibration(MACHINE, {"fused": 1.0}, machine, made_for, now, None, None, measured)
    calibration.save(registry.calibrations)
    assert calibrated(model, registry)
    assert not calibrated(other, registry)
    rates = [Selector.adapted(each, registry).machine for each in (model, other, None)]
    assert rates == [MACHINE, measured, measured]


def test_a_path_without_a_model_is_an_error(tmp_path):
    with pytest.raises(ModelError):
        Selector.load(tmp_path / "none")


def test_loading_a_saved_model_chooses_alike(tmp_path, graph):
    model = small_model()
    save(model, tmp_path / "bundle")
    with pytest.warns(ForeignModelWarning, match="cpu: Synthetic 3000"):
        loaded = Selector.load(tmp_path / "bundle")
    assert isinstance(loaded.model, CostModel)
    expected = Selector(model).choose("rgat", graph, 16)
    assert dataclasses.replace(loaded.choose("rgat", graph, 16)) == dataclasses.replace(expected)

"""Cost models for GPUs: fitted to a made-up card, kept, chosen with, and never mixed with CPUs'."""

from __future__ import annotations

import dataclasses
import json
import logging

import numpy as np
import pytest
import torch

import hetune
from hetune.costmodel.evaluate import baselines
from hetune.costmodel.evaluate.metrics import FIXED, ROOFLINE, pick
from hetune.costmodel.evaluate.model_card import card_of
from hetune.costmodel.evaluate.report import MODEL, cross_validate, judge
from hetune.costmodel.features import gpu_launch
from hetune.costmodel.model import bundle
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.manifest import ModelManifest
from hetune.costmodel.registry import default_model
from hetune.costmodel.registry.default_model import (
    ForeignModelWarning,
    foreign,
    load_best,
    packaged,
)
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection.champion import ROOFLINE as NONE
from hetune.costmodel.selection.champion import ChampionFollower
from hetune.costmodel.selection.selector import LEARNED, Selector
from hetune.variants.errors import ModelError
from hetune.variants.frontend.presets import preset_program
from hetune.variants.plan.sides import run_on
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry.sealed_json import unsealed
from hetune.variants.runtime.cost_estimates import RooflineEstimator
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.launch_columns import column_names
from hetune.variants.runtime.roofline import MachineModel
from hetune.variants.runtime.table import CandidateTable

from . import _synthetic
from ._synthetic_gpu import (
    FINGERPRINT,
    GPU,
    graph,
    problems,
    small_model,
    table_of,
    true_seconds,
)

CUDA = variants_of(preset_program("rgcn", 16, 16), "cuda")


@pytest.fixture
def selector():
    return Selector(small_model())


# Fitting.


def test_a_model_says_what_it_is_for():
    papers = small_model().manifest
    assert papers.device == "cuda"
    assert papers.features == gpu_launch.NAMES
    assert papers.columns == column_names("cuda")
    assert (papers.machine, papers.fingerprint) == (GPU, FINGERPRINT)


def test_schedules_matter_and_are_learned():
    """On families that it has not seen it picks better than the roofline or any fixed variant."""

    def fit(given):
        return CostModel.fit(given, GPU, FINGERPRINT, target="roofline-ratio", folds=0)

    scores = cross_validate(problems(), fit, folds=2, machine=GPU).scores
    assert scores[MODEL].regret < min(scores[ROOFLINE].regret, scores[FIXED].regret)
    best_of = {problem.best.variant.rpartition("/")[2] for problem in problems()}
    assert len(best_of) > 1


@pytest.mark.parametrize(
    ("given", "rates"),
    [
        (problems(), MachineModel()),
        (_synthetic.problems(graph_families=2), GPU),
        (
            [*problems(), *(dataclasses.replace(p, device="cpu") for p in problems()[:1])],
            GPU,
        ),
    ],
    ids=["a CPU's rates", "a GPU's rates", "both devices"],
)
def test_devices_are_not_mixed(given, rates):
    with pytest.raises(ModelError, match="a cost model is for one device; fit one for each"):
        CostModel.fit(given, rates, FINGERPRINT, target="log-seconds", folds=0)


def test_rates_of_another_device_are_refused():
    with pytest.raises(ModelError, match=r"for the device 'cuda', and the rates .* of 'cpu'"):
        small_model().totals(problems()[0], MachineModel())


def test_the_device_is_part_of_the_data():
    one = problems()[:1]
    other = [dataclasses.replace(one[0], device="cpu")]
    digests = {small_model().manifest.data.of(each).digest for each in (one, other)}
    assert len(digests) == 2


# Bundles.


def test_a_loaded_model_predicts_what_the_saved_one_does(tmp_path):
    bundle.save(small_model(), tmp_path / "gpu")
    loaded = bundle.load(tmp_path / "gpu")
    assert dataclasses.replace(loaded.manifest, files={}) == small_model().manifest
    assert loaded.totals(problems()[0]) == small_model().totals(problems()[0])


def test_manifests_say_what_device_they_are_of():
    record = json.loads(_synthetic.small_model().manifest.as_json())
    assert record.pop("device") == "cpu"
    with pytest.raises(ModelError, match="damaged"):
        ModelManifest.from_json(json.dumps(record))
    assert packaged().manifest.device == "cpu"


def test_the_package_may_hold_a_model_for_gpus(tmp_path, monkeypatch):
    assert packaged("cuda") is None  # nothing was measured yet
    monkeypatch.setattr(default_model, "_PACKAGED", tmp_path)
    bundle.save(small_model(), tmp_path / "cuda")
    assert packaged("cuda").manifest.device == "cuda"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "tpu"}, "no cost models for the device 'tpu'"),
        ({"device": "cpu"}, "its manifest is damaged .*rates: expected"),
    ],
)
def test_a_bundle_of_no_device_is_refused(tmp_path, change, message):
    bundle.save(small_model(), tmp_path / "gpu")
    file = tmp_path / "gpu/manifest.json"
    file.write_text(json.dumps(unsealed(json.loads(file.read_text())) | change))
    with pytest.raises(ModelError, match=message):
        bundle.load(tmp_path / "gpu")


# Choosing.


@pytest.mark.parametrize("family", ["few", "hubs"])
def test_the_choice_is_among_the_variants_for_gpus(selector, family):
    here = graph(family, 99)
    choice = selector.choose("rgcn", here, 16)
    assert {c.id for c in choice.candidates} == {v.id for v in run_on(CUDA, Domain(here).side)}
    assert choice.source == LEARNED
    table = table_of("rgcn", 16)
    seconds = table.totals(true_seconds(table.columns(Domain(here))))
    chosen = [v.id for v in table.variants].index(choice.id)
    assert seconds[chosen] < 1.15 * seconds.min()


def test_stacks_and_explanations_are_for_gpus_too(selector):
    here = graph("few", 0)
    first, second = selector.choose_stack(["rgcn", "rgat"], here, [16, 32, 8])
    assert {first.id.rpartition("/")[2][0], second.id.rpartition("/")[2][0]} == {"t"}
    explained = selector.explain("rgcn", here, 16)
    for launch in explained.launches:
        assert launch.low <= launch.seconds <= launch.high
        assert {name for name, _ in launch.features} <= set(gpu_launch.NAMES)


def test_variants_for_another_device_are_left_to_the_roofline_model(caplog):
    here, cpu = graph("few", 0), Selector(_synthetic.small_model())
    expected = RooflineEstimator(cpu.machine).estimate(table_of("rgcn", 16), Domain(here), 1)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = cpu.estimate(table_of("rgcn", 16), Domain(here), 1)
    assert found.seconds.tolist() == expected.seconds.tolist()
    assert found.source == "the roofline model"
    assert (cpu.spread(table_of("rgcn", 16), Domain(here), 1) >= 1).all()
    (said,) = (r.getMessage() for r in caplog.records)
    assert "Selector.load(device='cuda')" in said
    table = CandidateTable.of(variants_of(preset_program("rgcn", 16, 16), "cpu"))
    assert Selector(small_model()).estimate(table, Domain(here), 1).source == "the roofline model"


def test_a_selector_is_for_one_device():
    assert Selector().device == Selector(machine=MachineModel()).device == "cpu"
    assert Selector(device="cuda").device == Selector(machine=GPU).device == "cuda"
    assert Selector(small_model()).machine == GPU
    for wrong in ({"device": "cpu"}, {"machine": MachineModel()}):
        with pytest.raises(ModelError, match="a selector is for one device"):
            Selector(small_model(), **wrong)


def test_nothing_was_measured_for_gpus_so_the_roofline_model_answers(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(default_model, "_logged", set())
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert load_best(ModelRegistry(tmp_path), "cuda") is None
    (said,) = (r.getMessage() for r in caplog.records)
    assert said == "no cost model for the device 'cuda', so the roofline model answers"
    choice = Selector(device="cuda").choose("hgt", graph("few", 0), 16)
    assert choice.reason.startswith("least predicted time by the roofline model for a GPU")
    assert choice.id.rpartition("/")[2].startswith("t")


def test_compiling_for_a_gpu_asks_for_its_selector(monkeypatch):
    asked = []

    def load(path=None, device="cpu"):
        asked.append(device)
        return Selector(device=device)

    monkeypatch.setattr(Selector, "load", load)
    module = hetune.nn.RGCN(8, 8, 2)
    for backend in ("torch", "triton", None):
        hetune.compile(module, backend=backend)
    assert asked == ["cpu", "cuda", "cpu"]
    here = graph("few", 0)
    with torch.no_grad():
        layer = hetune.compile(module, backend="triton")
        assert layer.explain(torch.randn(here.num_nodes, 8), here).id in layer.variants


# Model registries.


@pytest.fixture
def registry(tmp_path):
    return ModelRegistry(tmp_path / "models")


def test_each_device_has_a_registry_of_its_own(registry, tmp_path):
    gpu = registry.of("cuda")
    assert gpu.root == tmp_path / "models" / "cuda"
    assert gpu.of("cpu").root == registry.root
    assert registry.of("cpu") is registry
    key = gpu.add(small_model())
    assert gpu.aliases().candidate == key
    assert registry.entries() == ()
    assert registry.aliases().candidate is None
    assert [entry.id for entry in gpu.entries()] == [key]
    assert gpu.root.stat().st_mode & 0o077 == registry.root.stat().st_mode & 0o077 == 0
    registry.add(_synthetic.small_model())
    assert len(registry.entries()) == len(gpu.entries()) == 1


def test_a_registry_takes_models_for_its_device_only(registry):
    for here, model in ((registry, small_model()), (registry.of("cuda"), _synthetic.small_model())):
        with pytest.raises(ModelError, match="add it to that device's"):
            here.add(model)
        assert here.entries() == ()


def promote(registry):
    key = registry.add(small_model())
    # Judged on what it was fitted to, under other names, it wins.
    known = [dataclasses.replace(p, family=f"also {p.family}") for p in problems()]
    report = judge(problems(), known, lambda given: small_model(), machine=GPU)
    registry.promote(key, report=report)
    return key


def test_the_champion_of_a_device_answers_for_it(registry):
    key = promote(registry.of("cuda"))
    with pytest.warns(ForeignModelWarning, match="hetune calibrate --device cuda"):
        assert load_best(registry, "cuda").manifest.data == small_model().manifest.data
    follower = ChampionFollower(registry.of("cuda"))
    assert follower.active.model == key
    assert follower.active.selector.device == "cuda"
    registry.of("cuda").rollback()
    assert follower.refresh()
    assert follower.active.model == NONE
    assert follower.active.selector.device == "cuda"
    assert ChampionFollower(registry).active.selector.device == "cpu"


def test_what_a_gpu_s_model_calls_foreign_is_another_card():
    same = dataclasses.replace(FINGERPRINT, cpu="another one", cores=128)
    assert foreign(small_model(), same) == ""
    several = dataclasses.replace(FINGERPRINT, gpu="Synthetic GPU, Synthetic GPU")
    assert foreign(small_model(), several) == ""
    other = dataclasses.replace(FINGERPRINT, gpu="Another GPU")
    assert "gpu: Synthetic GPU -> Another GPU" in foreign(small_model(), other)


# Judging.


def test_baselines_know_the_schedules_of_gpus():
    given = problems()[0]
    for chooser, plan in ((baselines.vanilla, "vanilla"), (baselines.pyg_heuristic, None)):
        picked = pick(chooser, given)
        if picked is not None:
            assert picked.variant.endswith("/t64-p2048")
            assert plan is None or picked.variant.startswith(plan)
    assert pick(baselines.vanilla, given) is not None
    for chooser in baselines.baselines(problems()).values():
        if (picked := pick(chooser, given)) is not None:
            assert picked.variant in {c.variant for c in given.candidates}
    predicted = baselines.roofline(GPU)(given)
    assert predicted == pytest.approx(dict(_roofline(given)), rel=1e-9)


def _roofline(problem):
    for candidate in problem.candidates:
        columns = np.array([launch.columns for launch in candidate.launches])
        yield candidate.variant, gpu_launch.gpu_roofline_seconds(columns, GPU).sum()


def test_a_card_names_the_gpu():
    report = judge(problems()[:12], problems()[18:], lambda given: small_model(), machine=GPU)
    facts = card_of(small_model(), problems(), report).facts
    assert facts["device"] == "cuda"
    assert facts["machine"] == f"Synthetic GPU ({FINGERPRINT.digest})"

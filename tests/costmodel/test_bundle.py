"""Bundles: what is written is what is read, or an error that says what to do."""

from __future__ import annotations

import dataclasses
import errno
import functools
import json
import math
import operator
import os
import re
import shutil

import numpy as np
import pytest

from hetune.costmodel.features import graph, launch
from hetune.costmodel.model import bundle
from hetune.costmodel.model.manifest import FORMAT
from hetune.costmodel.problems import LaunchBatch
from hetune.variants.errors import ModelError
from hetune.variants.registry.sealed_json import unsealed
from hetune.variants.runtime.launch_columns import COLUMNS

from ._synthetic import FINGERPRINT, MACHINE, problems, small_model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "model"
    bundle.save(small_model(), path)
    return path


@pytest.fixture
def copy(saved, tmp_path):
    """A bundle to be damaged."""
    return shutil.copytree(saved, tmp_path / "copy")


def test_a_loaded_model_predicts_what_the_saved_one_does(saved):
    before, after = small_model(), bundle.load(saved)
    [problem] = problems(graph_families=1, graphs=1, widths=(64,), seed=9)
    launches = [(each.family, each.columns) for c in problem.candidates for each in c.launches]
    given = LaunchBatch.of(problem, launches), MACHINE
    np.testing.assert_array_equal(after.predict(*given), before.predict(*given))
    np.testing.assert_array_equal(after.interval(*given), before.interval(*given))
    assert after.totals(problem) == before.totals(problem)


def test_the_manifest_says_where_the_model_is_from(saved):
    manifest = bundle.load(saved).manifest
    assert dataclasses.replace(manifest, files={}) == small_model().manifest
    assert manifest.fingerprint == FINGERPRINT
    assert manifest.machine == MACHINE
    assert (manifest.features, manifest.graph_features) == (launch.NAMES, graph.NAMES)
    assert manifest.columns == COLUMNS
    assert re.fullmatch(r"[\w.]+(\+g[0-9a-f]{12}(\.dirty)?)?", manifest.code_version)
    assert manifest.data.graph_families == ("family0", "family1", "family2")
    assert manifest.data.problems == 12
    assert manifest.data.units == 72
    assert manifest.metrics["roofline-ratio"].keys() == {
        "regret",
        "regret_p95",
        "regret_max",
        "error",
    }


def test_a_bundle_holds_a_manifest_and_trees_and_is_small(saved):
    assert {path.name for path in saved.iterdir()} == {
        "manifest.json",
        *(f"{name}{end}" for name in small_model().families for end in (".npz", "-quantiles.npz")),
    }
    assert sum(path.stat().st_size for path in saved.iterdir()) < 2 << 20


def test_saving_a_loaded_model_again_changes_nothing(saved, tmp_path):
    bundle.save(bundle.load(saved), tmp_path / "again")
    for path in saved.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    assert bundle.digest(bundle.load(saved)) == bundle.digest(small_model())


def test_nothing_is_written_over(saved):
    with pytest.raises(ModelError, match="is there already"):
        bundle.save(small_model(), saved)


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match=r"No space left on device.*free some space"):
        bundle.save(small_model(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def manifest_with(**changes):
    def damage(path):
        file = path / "manifest.json"
        file.write_text(json.dumps(unsealed(json.loads(file.read_text())) | changes))

    return damage


def manifest_at(*place, value):
    """With another value at a place of the manifest."""

    def damage(path):
        file = path / "manifest.json"
        record = unsealed(json.loads(file.read_text()))
        *outer, last = place
        functools.reduce(operator.getitem, outer, record)[last] = value
        file.write_text(json.dumps(record))

    return damage


def manifest_is(text):
    return lambda path: (path / "manifest.json").write_text(text)


def without(field):
    def damage(path):
        file = path / "manifest.json"
        record = unsealed(json.loads(file.read_text()))
        del record[field]
        file.write_text(json.dumps(record))

    return damage


def flip(name):
    def damage(path):
        data = bytearray((path / name).read_bytes())
        data[len(data) // 2] ^= 1
        (path / name).write_bytes(data)

    return damage


def cut(name):
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:100])


def remove(name):
    return lambda path: (path / name).unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip("product.npz"), "SHA-256 of product.npz is not the manifest's"),
        (cut("fused-quantiles.npz"), "SHA-256 of fused-quantiles.npz"),
        (remove("traversal.npz"), "traversal.npz is missing"),
        (remove("manifest.json"), "manifest.json is missing"),
        (cut("manifest.json"), "manifest is damaged"),
        (without("families"), "manifest is damaged"),
        (without("target"), "manifest is damaged"),
        (manifest_with(surprise=1), "manifest is damaged"),
        (manifest_with(fingerprint={}), "manifest is damaged"),
        (manifest_with(format=99), f"format 99, and this version of hetune reads {FORMAT}"),
        (
            manifest_with(features=[*launch.NAMES, "phase_of_the_moon"]),
            "other features of a launch.*no longer there: phase_of_the_moon.*train it again",
        ),
        (manifest_with(graph_features=graph.NAMES[1:]), f"a graph .*new: {graph.NAMES[0]}"),
        (manifest_with(columns=COLUMNS[::-1]), "a launch's numbers .*another order"),
        (manifest_with(target="seconds"), "'seconds' is not a valid Target.*train it again"),
    ],
)
def test_what_is_wrong_with_a_bundle_is_said(copy, damage, message):
    damage(copy)
    with pytest.raises(ModelError, match=message) as raised:
        bundle.load(copy)
    assert str(copy) in str(raised.value)
    assert "again" in str(raised.value)


NO_SECONDS = (None, "1e-6", True, [], math.nan, math.inf, 10**400, -1e-6)
WRONG = {
    "format": (None, [1]),
    "features": (None, "abc", [1]),
    "columns": (None, {}),
    "target": (None, 1),
    "weighting": (None,),
    "families": (None, [], {"fused": None}, {"fused": {}}),
    "families/fused/rows": (None, -1, "many"),
    "families/fused/regressor": (None, [], "trees"),
    "families/fused/regressor/target": ("log-seconds", None),
    "families/fused/quantiles": ([], "trees"),
    "families/fused/widening": (None, "0.1", math.nan, -math.inf),
    "overhead": (None, [], {}, {"run_seconds": 1e-6}),
    "overhead/run_seconds": NO_SECONDS,
    "overhead/launch_seconds": NO_SECONDS,
    "preparation": (None, "abcdef", [], [1e-9], *([each] * 6 for each in NO_SECONDS)),
    "data": (None, []),
    "data/problems": (None, "many", math.nan),
    "data/graph_families": (None, "abc", [1]),
    "fingerprint": (None, []),
    "fingerprint/memory_gib": (-8, math.inf),
    "machine": (None, []),
    "machine/memory_rate": (0, *NO_SECONDS),
    "metrics": (None, [], {"roofline-ratio": None}, {"roofline-ratio": {}}),
    "metrics/roofline-ratio/regret": (None, "good", math.nan),
    "tie": (0.9, *NO_SECONDS),
    "code_version": (None, 1),
    "created_at": (None, 20260101, "yesterday"),
    "files": (None, [], {"fused.npz": 1}),
}


@pytest.mark.parametrize("place", WRONG)
def test_whatever_a_manifest_holds_it_is_damaged_or_right(copy, place):
    whole = (copy / "manifest.json").read_text()
    for value in WRONG[place]:
        manifest_is(whole)(copy)
        manifest_at(*place.split("/"), value=value)(copy)
        with pytest.raises(ModelError, match=r"its manifest is damaged|it has format"):
            bundle.load(copy)


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "1", '"text"', "{}", f'{{"format": {FORMAT}}}', "[" * 100_000],
    ids=lambda text: text[:15],
)
def test_a_manifest_that_is_none(copy, text):
    manifest_is(text)(copy)
    for read in (bundle.load, bundle.read_manifest):
        with pytest.raises(ModelError, match="its manifest is damaged"):
            read(copy)


def test_what_else_is_wrong_with_the_files_is_a_model_error(copy, monkeypatch):
    def fail(*_):
        raise MemoryError("no memory for trees")

    monkeypatch.setattr(bundle.LaunchRegressor, "load", fail)
    with pytest.raises(ModelError, match=r"cannot be read \(MemoryError: no memory for trees\)"):
        bundle.load(copy)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ModelError, match=r"manifest\.json is missing"):
        bundle.load(tmp_path / "nowhere")

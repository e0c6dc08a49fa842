"""XGBoost's trees in arrays: what they say is what XGBoost says."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import fields

import numpy as np
import pytest
import xgboost

from hetune.costmodel.model.booster import trees_of
from hetune.costmodel.model.quantiles import ErrorQuantiles
from hetune.costmodel.model.regressor import LaunchRegressor
from hetune.costmodel.model.trees import Trees
from hetune.variants.errors import ModelError

FEATURES = 5


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, (count, FEATURES)).astype(np.float32)


def booster(depth: int, trees: int = 7, **options: object) -> xgboost.Booster:
    X = rows(500)
    y = np.sin(X @ np.arange(1, FEATURES + 1)) - 0.4
    settings = {"max_depth": depth, "nthread": 1, "min_child_weight": 0.1, **options}
    return xgboost.train(settings, xgboost.DMatrix(X, y), trees)


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100])
def test_say_to_the_bit_what_xgboost_says(depth, count):
    whole = booster(depth)
    found = trees_of(whole)
    assert found.leaf.shape == (7, 2**depth)
    X = rows(count, seed=1)
    expected = whole.inplace_predict(X) if count else np.empty(0, np.float32)
    assert found.predict(X).tobytes() == expected.tobytes()


def test_a_row_on_a_threshold_goes_where_xgboost_sends_it():
    whole = booster(3, trees=1)
    found = trees_of(whole)
    feature, threshold = found.feature[0, 0], found.threshold[0, 0]
    X = rows(3)
    X[:, feature] = np.nextafter(threshold, -np.inf), threshold, np.nextafter(threshold, np.inf)
    assert found.predict(X).tolist() == whole.inplace_predict(X).tolist()


def test_trees_that_do_not_split_say_what_xgboost_says():
    whole = booster(4, gamma=1e9)
    found = trees_of(whole)
    assert found.leaf.shape == (7, 2)
    assert found.predict(rows(3)).tolist() == whole.inplace_predict(rows(3)).tolist()


def test_each_output_has_trees_of_its_own():
    whole = booster(4, objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9])
    found = trees_of(whole)
    said = found.predict(rows(20, seed=1))
    assert said.shape == (20, 3)
    assert said.tobytes() == whole.inplace_predict(rows(20, seed=1)).tobytes()


@pytest.mark.parametrize("depth", [1, 3, 8])
@pytest.mark.parametrize(
    "options", [{}, {"gamma": 3.0}, {"num_parallel_tree": 3, "subsample": 0.5}]
)
def test_contributions_are_xgboost_s(depth, options):
    whole, X = booster(depth, **options), rows(20, seed=1)
    found = trees_of(whole)
    assert options != {"gamma": 3.0} or (found.cover == 0).any() or depth == 1
    expected = whole.predict(xgboost.DMatrix(X), pred_contribs=True)
    np.testing.assert_allclose(found.contributions(X), expected, atol=3e-6)


def test_gains_are_xgboost_s():
    whole = booster(4)
    known = whole.get_score(importance_type="total_gain")
    expected = [known.get(f"f{feature}", 0.0) for feature in range(FEATURES)]
    np.testing.assert_allclose(trees_of(whole).gain, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda learner: learner.pop("gradient_booster"), "gradient_booster"),
        (lambda learner: _model(learner).update(tree_info=None), "int"),
        (lambda learner: _model(learner)["tree_info"].pop(), "arrays of trees have the shapes"),
        (lambda learner: _model(learner)["tree_info"].__setitem__(0, -1), "of no output"),
        (lambda learner: _tree(learner)["split_type"].__setitem__(0, 1), "by categories"),
        (lambda learner: _tree(learner)["split_indices"].__setitem__(0, 99), "out of bounds"),
        (lambda learner: _tree(learner)["left_children"].__setitem__(0, 10**6), "out of bounds"),
        (lambda learner: _tree(learner)["split_conditions"].__setitem__(0, 9), "as they predict"),
    ],
)
def test_what_does_not_read_as_it_predicts_is_refused(change, why, monkeypatch):
    whole = booster(3)
    document = json.loads(bytes(whole.save_raw("json")))
    change(document["learner"])
    monkeypatch.setattr(whole, "save_raw", lambda _: json.dumps(document).encode())
    with pytest.raises(ModelError, match=f"{why}.*version of XGBoost that hetune is tested with"):
        trees_of(whole)


def test_trees_that_are_too_deep_are_refused():
    with pytest.raises(ModelError, match=r"more than 8 levels.*depth of at most 8"):
        trees_of(booster(9))


def with_arrays(found: Trees, **changes: object) -> bytes:
    arrays = {field.name: getattr(found, field.name) for field in fields(found)}
    file = io.BytesIO()
    np.savez(file, **{**arrays, **changes})
    return file.getvalue()


def test_written_trees_are_the_same_and_hold_no_code():
    found = trees_of(booster(3))
    assert found.dump() == trees_of(booster(3)).dump() == Trees.load(found.dump()).dump()
    again = Trees.load(with_arrays(found))
    assert again.predict(rows(9)).tolist() == found.predict(rows(9)).tolist()
    for changes, why in (
        ({"leaf": np.array([[print]])}, "allow_pickle"),
        ({"more": found.leaf}, "more"),
        ({"feature": found.feature + FEATURES}, "looks at a feature"),
        ({"feature": found.feature[:, 1:]}, "shapes"),
        ({"leaf": found.leaf[0]}, "ValueError"),
        ({"leaf": found.leaf * np.nan}, "not finite"),
        ({"cover": found.cover * 0}, "no row"),
        ({"output": found.output - 1}, "of no output"),
        ({name: getattr(found, name)[:, :0] for name in ("feature", "threshold")}, "shapes"),
    ):
        with pytest.raises(ModelError, match=rf"no trees that hetune wrote.*{why}.*again"):
            Trees.load(with_arrays(found, **changes))


def fitted(**options: object) -> LaunchRegressor:
    X = rows(200)
    regressor = LaunchRegressor(tuple("abcde"), trees=20, **options)
    return regressor.fit(X, np.exp(X[:, 0].astype(float)), roofline=np.ones(200))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_with_what_is_no_number_are_refused(value):
    X = rows(4)
    X[2, 0] = value
    with pytest.raises(ModelError, match="a feature is not finite"):
        fitted().predict(X, roofline=np.ones(4))


@pytest.mark.parametrize("shape", [(2, 4), (2, 6), (2, 0), (5,)])
def test_rows_of_another_width_are_refused(shape):
    for ask in (fitted().predict, fitted().contributions):
        with pytest.raises(ModelError, match=r"none of 5 features"):
            ask(np.zeros(shape, np.float32), roofline=np.ones(2))


def test_other_trees_are_read_anew():
    regressor = fitted()
    before = regressor.predict(rows(9), roofline=np.ones(9))
    regressor.fit(rows(200), np.full(200, 7.0), roofline=np.ones(200))
    after = regressor.predict(rows(9), roofline=np.ones(9))
    assert after == pytest.approx(np.full(9, 7.0), rel=0.1)
    assert regressor.load(fitted().dump()).predict(rows(9), roofline=np.ones(9)).tolist() == (
        before.tolist()
    )


def test_copies_have_arrays_of_their_own():
    found = fitted().fitted_
    found.predict(rows(1))
    twin = copy.deepcopy(found)
    twin.leaf[:] = 0
    assert set(twin.predict(rows(3)).tolist()) == set(twin.base.tolist())


def test_quantiles_are_read_too():
    X = rows(200)
    quantiles = ErrorQuantiles(tuple("abcde"), trees=20)
    quantiles.fit(X, X[:, 0].astype(float), groups=np.arange(200) % 7)
    assert len(quantiles.fitted_.base) == 2


def _model(learner: dict) -> dict:
    return learner["gradient_booster"]["model"]


def _tree(learner: dict) -> dict:
    return _model(learner)["trees"][0]

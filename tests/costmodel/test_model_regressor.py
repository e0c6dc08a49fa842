"""Regressors of single kernel families: conventions, targets, monotonicity, intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetune.costmodel.model.folds import folds_of
from hetune.costmodel.model.quantiles import ErrorQuantiles
from hetune.costmodel.model.regressor import LaunchRegressor, Target
from hetune.variants.errors import ModelError

FEATURES = ("work", "blocks")


def rows(count: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, seconds and roofline: time is 3 times the roofline, and 6 times in few blocks."""
    random = np.random.default_rng(seed)
    X = random.uniform(0, 5, (count, 2)).astype(np.float32)
    roofline = 1e-5 * np.exp(X[:, 0].astype(np.float64))
    seconds = roofline * np.where(X[:, 1] < 1, 6, 3) * np.exp(0.05 * random.standard_normal(count))
    return X, seconds, roofline


@pytest.fixture(params=Target)
def regressor(request):
    return LaunchRegressor(
        FEATURES, target=request.param, increasing=frozenset({"work"}), trees=100, colsample=1.0
    )


def test_predicts_seconds_of_rows_that_it_has_not_seen(regressor):
    X, seconds, roofline = rows()
    new, expected, bound = rows(seed=1)
    found = regressor.fit(X, seconds, roofline=roofline).predict(new, roofline=bound)
    assert found.dtype == np.float64
    assert np.abs(np.log(found / expected)).mean() < 0.1


def test_equal_data_give_equal_trees_whatever_the_threads(regressor):
    X, seconds, roofline = rows(200)
    dumps = {
        replace(regressor, trees=3, jobs=jobs).fit(X, seconds, roofline=roofline).dump()
        for jobs in (1, 1, 2)
    }
    assert len(dumps) == 1


def test_seconds_never_fall_where_work_grows():
    random = np.random.default_rng(0)
    X = random.uniform(0, 5, (200, 2)).astype(np.float32)
    seconds = np.exp(random.standard_normal(200))
    regressor = LaunchRegressor(FEATURES, increasing=frozenset({"work"}), trees=20)
    regressor.fit(X, seconds, roofline=np.ones(200))
    line = np.column_stack([np.linspace(0, 5, 100), np.full(100, 2.0)])
    assert (np.diff(regressor.predict(line, roofline=np.ones(100))) >= 0).all()


def test_rows_count_by_their_weights(regressor):
    X = np.zeros((100, 2), np.float32)
    seconds = np.repeat([1.0, 4.0], 50)
    heavy = np.repeat([1.0, 1e-6], 50)
    regressor.fit(X, seconds, roofline=np.ones(100), weights=heavy)
    [found] = regressor.predict(X[:1], roofline=[1.0])
    assert found == pytest.approx(1.0, rel=0.01)


def test_contributions_add_up_to_the_logarithm(regressor):
    X, seconds, roofline = rows()
    regressor.fit(X, seconds, roofline=roofline)
    parts = regressor.contributions(X[:20], roofline=roofline[:20])
    assert parts.shape == (20, 3)
    expected = np.log(regressor.predict(X[:20], roofline=roofline[:20]))
    np.testing.assert_allclose(parts.sum(axis=1), expected, atol=1e-4)


def test_importance_is_the_share_of_what_splits_explain(regressor):
    X, seconds, roofline = rows()
    importance = regressor.fit(X, seconds, roofline=roofline).importance()
    assert sum(importance.values()) == pytest.approx(1)
    first = "work" if regressor.target == Target.SECONDS else "blocks"
    assert next(iter(importance)) == first


def test_trees_survive_being_written(regressor):
    X, seconds, roofline = rows()
    regressor.fit(X, seconds, roofline=roofline)
    again = LaunchRegressor(**regressor.get_params()).load(regressor.dump())
    np.testing.assert_array_equal(
        again.predict(X, roofline=roofline), regressor.predict(X, roofline=roofline)
    )
    assert again.dump() == regressor.dump()


@pytest.mark.parametrize(
    ("X", "seconds", "message"),
    [
        (np.zeros((0, 2)), np.zeros(0), "at least one row"),
        (np.zeros((2, 2)), np.ones(3), "3 times"),
        (np.array([[0.0, np.inf]]), np.ones(1), "feature 1 of row 0 is not finite"),
        (np.zeros((1, 2)), np.zeros(1), "time of row 0 is 0.0"),
    ],
)
def test_refuses_what_it_cannot_be_fitted_to(X, seconds, message):
    with pytest.raises(ModelError, match=message):
        LaunchRegressor(FEATURES).fit(X, seconds, roofline=np.ones(len(X)))


@pytest.mark.parametrize("kind", [LaunchRegressor, ErrorQuantiles])
def test_arguments_are_attributes_and_nothing_is_fitted_before_fit(kind):
    estimator = kind(FEATURES, trees=7)
    assert vars(estimator) == estimator.get_params()
    assert estimator.get_params()["trees"] == 7
    with pytest.raises(ModelError, match="no trees that hetune wrote"):
        estimator.load(b"no trees")


def test_predicting_before_fitting_is_an_error():
    with pytest.raises(ModelError, match="call fit first"):
        LaunchRegressor(FEATURES).predict(np.zeros((1, 2)), roofline=[1.0])


def test_trees_of_other_features_are_refused(regressor):
    X, seconds, roofline = rows()
    regressor.fit(X, seconds, roofline=roofline)
    with pytest.raises(ModelError, match="2 features, not 3"):
        LaunchRegressor((*FEATURES, "more")).load(regressor.dump())


def errors(seed: int, groups: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors whose spread grows with the first feature; every group is off by its own amount."""
    random = np.random.default_rng(seed)
    names = np.repeat(np.arange(groups), 150)
    X = random.uniform(0, 1, (len(names), 2)).astype(np.float32)
    own = random.normal(0, 0.1, groups)[names]
    return X, own + (0.05 + 0.4 * X[:, 0]) * random.standard_normal(len(names)), names


def test_bounds_hold_as_many_errors_of_new_groups_as_they_promise():
    inside, narrow, wide = [], [], []
    for seed in range(3):
        X, y, groups = errors(seed)
        quantiles = ErrorQuantiles(FEATURES, coverage=0.8).fit(X, y, groups=groups)
        new, expected, _ = errors(seed + 100)
        low, high = quantiles.predict(new).T
        inside.append(((low <= expected) & (expected <= high)).mean())
        narrow.append((high - low)[new[:, 0] < 0.2].mean())
        wide.append((high - low)[new[:, 0] > 0.8].mean())
    assert np.mean(inside) == pytest.approx(0.8, abs=0.05)
    assert np.mean(wide) > 2 * np.mean(narrow)


def test_bounds_do_not_cross():
    X, y, groups = errors(0)
    quantiles = ErrorQuantiles(FEATURES).fit(X, y, groups=groups)
    quantiles.widening_ = -10.0
    bounds = quantiles.predict(X)
    assert (bounds[:, 0] == bounds[:, 1]).all()


def test_one_group_leaves_nothing_to_hold_out():
    with pytest.raises(ModelError, match="two graphs at least"):
        ErrorQuantiles(FEATURES).fit(np.zeros((9, 2)), np.zeros(9), groups=["a"] * 9)


@pytest.mark.parametrize(
    ("groups", "count", "parts"),
    [
        ("aabbcc", 3, [0, 0, 1, 1, 2, 2]),
        ("aaaabc", 2, [0, 0, 0, 0, 1, 1]),
        ("ab", 5, [0, 1]),
        ("aaa", 5, [0, 0, 0]),
    ],
)
def test_parts_hold_whole_groups_and_about_as_many_rows(groups, count, parts):
    assert folds_of(list(groups), count).tolist() == parts

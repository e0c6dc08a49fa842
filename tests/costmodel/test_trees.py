"""XGBoost's trees in arrays: what they say is what XGBoost says, or XGBoost says it."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import xgboost

from hetune.costmodel.model import trees as trees_module
from hetune.costmodel.model.quantiles import ErrorQuantiles
from hetune.costmodel.model.regressor import LaunchRegressor
from hetune.costmodel.model.trees import Trees
from hetune.variants.errors import CompileError

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
    found = Trees.of(whole)
    assert found is not None
    assert found.leaf.shape == (7, 2**depth)
    X = rows(count, seed=1)
    expected = whole.inplace_predict(X) if count else np.empty(0, np.float32)
    assert found.predict(X).tobytes() == expected.tobytes()


def test_a_row_on_a_threshold_goes_where_xgboost_sends_it():
    whole = booster(3, trees=1)
    found = Trees.of(whole)
    assert found is not None
    feature, threshold = found.feature[0, 0], found.threshold[0, 0]
    X = rows(3)
    X[:, feature] = np.nextafter(threshold, -np.inf), threshold, np.nextafter(threshold, np.inf)
    assert found.predict(X).tolist() == whole.inplace_predict(X).tolist()


def test_trees_that_do_not_split_say_what_xgboost_says():
    whole = booster(4, gamma=1e9)
    found = Trees.of(whole)
    assert found is not None
    assert found.leaf.shape == (7, 2)
    assert found.predict(rows(3)).tolist() == whole.inplace_predict(rows(3)).tolist()


def test_each_output_has_trees_of_its_own():
    whole = booster(4, objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9])
    found = Trees.of(whole)
    assert found is not None
    said = found.predict(rows(20, seed=1))
    assert said.shape == (20, 3)
    assert said.tobytes() == whole.inplace_predict(rows(20, seed=1)).tobytes()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda learner: learner.pop("gradient_booster"), "gradient_booster"),
        (lambda learner: _model(learner).update(tree_info=None), "int"),
        (lambda learner: _model(learner)["tree_info"].pop(), "of no output"),
        (lambda learner: _model(learner)["tree_info"].__setitem__(0, -1), "of no output"),
        (lambda learner: _tree(learner)["split_type"].__setitem__(0, 1), "by categories"),
        (lambda learner: _tree(learner)["split_indices"].__setitem__(0, 99), "a feature that"),
        (lambda learner: _tree(learner)["left_children"].__setitem__(0, 10**6), "out of bounds"),
        (lambda learner: _tree(learner)["split_conditions"].__setitem__(0, 9), "as they predict"),
    ],
)
def test_what_does_not_read_as_it_predicts_is_left_to_xgboost(change, why, monkeypatch, caplog):
    whole = booster(3)
    document = json.loads(bytes(whole.save_raw("json")))
    change(document["learner"])
    monkeypatch.setattr(whole, "save_raw", lambda _: json.dumps(document).encode())
    with caplog.at_level(logging.WARNING, logger=trees_module.__name__):
        assert Trees.of(whole) is None
    [record] = caplog.records
    assert record.getMessage().startswith("XGBoost predicts itself, which is slower: ")
    assert why in record.getMessage()


def test_trees_that_are_too_deep_are_left_to_xgboost(caplog):
    with caplog.at_level(logging.WARNING, logger=trees_module.__name__):
        assert Trees.of(booster(9)) is None
    assert "more than 8 levels" in caplog.text


def fitted(**options: object) -> LaunchRegressor:
    X = rows(200)
    regressor = LaunchRegressor(tuple("abcde"), trees=20, **options)
    return regressor.fit(X, np.exp(X[:, 0].astype(float)), roofline=np.ones(200))


def test_without_a_compiler_xgboost_predicts_and_says_so_once(monkeypatch, caplog):
    def library() -> None:
        raise CompileError("there is no compiler")

    expected = fitted().predict(rows(9), roofline=np.ones(9))
    monkeypatch.setattr(trees_module, "library", library)
    with caplog.at_level(logging.WARNING, logger=trees_module.__name__):
        regressor = fitted()
        for _ in range(2):
            assert regressor.predict(rows(9), roofline=np.ones(9)).tolist() == expected.tolist()
    assert [record.getMessage() for record in caplog.records] == [
        "XGBoost predicts itself, which is slower: there is no compiler"
    ]


def test_rows_with_what_is_no_number_are_left_to_xgboost():
    regressor, X = fitted(), rows(4)
    X[2, 0] = np.nan
    expected = np.exp(regressor.booster_.inplace_predict(X).astype(float))
    assert regressor.predict(X, roofline=np.ones(4)).tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(2, 4), (2, 6), (2, 0), (5,)])
def test_rows_of_another_width_are_refused_by_xgboost(shape):
    with pytest.raises(ValueError, match=r"columns|feature|shape|dimension"):
        fitted().predict(np.zeros(shape, np.float32), roofline=np.ones(2))


def test_other_trees_are_read_anew():
    regressor = fitted()
    before = regressor.predict(rows(9), roofline=np.ones(9))
    regressor.fit(rows(200), np.full(200, 7.0), roofline=np.ones(200))
    after = regressor.predict(rows(9), roofline=np.ones(9))
    assert after == pytest.approx(np.full(9, 7.0), rel=0.1)
    assert regressor.load(fitted().dump()).predict(rows(9), roofline=np.ones(9)).tolist() == (
        before.tolist()
    )


def test_quantiles_are_read_too():
    X = rows(200)
    quantiles = ErrorQuantiles(tuple("abcde"), trees=20)
    quantiles.fit(X, X[:, 0].astype(float), groups=np.arange(200) % 7)
    assert quantiles._trees is not None
    assert len(quantiles._trees.base) == 2


def _model(learner: dict) -> dict:
    return learner["gradient_booster"]["model"]


def _tree(learner: dict) -> dict:
    return _model(learner)["trees"][0]

"""Cost models over HTTP: the registry, cards that cannot do anything, and a gate that says why."""

import shutil

import httpx
import pytest
from tests.costmodel._synthetic import contrary_model, problems
from tests.profiling._filled import fill
from tests.profiling._made_up import MACHINE

from hetune.costmodel.evaluate.model_card import PAGE
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.cost_model_training.train import cards_folder, train
from hetune.profiling.store.store import Store
from hetune.service.server.app import application

from ._serving import asking, make_service
from .test_http import is_problem

MODELS = "/v1/cost-models"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A service's folder with measurements and a candidate, and the candidate's id."""
    folder = tmp_path_factory.mktemp("trained")
    fill(folder / "measurements.db", problems(graph_families=4, graphs=5))
    with Store.open(folder / "measurements.db") as store:
        registry = ModelRegistry(folder / "registry")
        return folder, train(store, MACHINE.digest, registry, target="roofline-ratio", folds=2)


@pytest.fixture
def key(trained):
    """The candidate's id."""
    return trained[1]


@pytest.fixture
def folder(trained, tmp_path):
    """A service's folder of the test's own, with measurements and the candidate."""
    shutil.copytree(trained[0], tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def http(folder):
    """A client of a service over the folder."""
    app = application(make_service(folder))
    with asking(app, timeout=60) as client:
        yield client


def test_the_registry(http, key):
    found = http.get(MODELS).json()
    [model] = found["models"]
    assert (model["id"], model["aliases"]) == (key, ["candidate"])
    assert (model["inputs"], model["has_card"]) == (40, True)
    assert len(model["graph_families"]) == 4
    assert model["machine"] == MACHINE.digest
    assert (found["candidate"], found["champion"]) == (key, None)
    assert [change["why"] for change in found["history"]] == ["add"]
    assert http.get(f"{MODELS}/{key}").json() == model
    assert http.get(f"{MODELS}/candidate").json() == model


@pytest.mark.parametrize(
    "name", ["champion", "20260101-000000000000", "cards", "%2e%2e", "rollback"]
)
def test_models_that_are_not_there(http, name):
    url = httpx.URL(http.base_url, raw_path=f"{MODELS}/{name}".encode())
    is_problem(http.get(url), 404, "NotFoundError")
    for end in ("card", "promote"):
        url = httpx.URL(http.base_url, raw_path=f"{MODELS}/{name}/{end}".encode())
        is_problem(http.request("GET" if end == "card" else "POST", url), 404, "NotFoundError")


def test_a_card_can_do_nothing(http, folder, key):
    found = http.get(f"{MODELS}/candidate/card")
    assert found.status_code == 200
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    policy = found.headers["content-security-policy"]
    directives = {part.split()[0]: part.split()[1:] for part in policy.split(";")}
    assert directives.pop("default-src") == ["'none'"]
    assert directives.pop("sandbox") == []
    assert "script-src" not in directives
    assert all(
        sources in (["'none'"], ["data:"], ["'unsafe-inline'"]) for sources in directives.values()
    )
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.text.startswith("<!doctype html>")
    (cards_folder(ModelRegistry(folder / "registry"), key) / PAGE).unlink()
    is_problem(http.get(f"{MODELS}/candidate/card"), 404, "NotFoundError")
    assert http.get(f"{MODELS}/candidate").json()["has_card"] is False


@pytest.mark.parametrize("name", ["candidate", "its id"])
def test_a_damaged_model_is_not_one_that_is_not_there(http, folder, key, name):
    path = folder / "registry" / key / "manifest.json"
    path.write_text(path.read_text().replace('"created_at"', '"created_aT"'))
    name = key if name == "its id" else name
    assert http.get(MODELS).json()["candidate"] == key
    for method, end in (("GET", ""), ("GET", "/card"), ("POST", "/promote")):
        is_problem(http.request(method, f"{MODELS}/{name}{end}"), 503, "ModelError")


def test_a_damaged_report_promotes_nothing(http, folder, key):
    """One bit of a number, and a model that loses would seem to win."""
    path = cards_folder(ModelRegistry(folder / "registry"), key) / "report.json"
    text = path.read_text()
    at = text.index('"seconds": ') + len('"seconds": ')
    path.write_text(text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :])
    is_problem(http.post(f"{MODELS}/candidate/promote"), 503, "ModelError")
    assert http.get(MODELS).json()["champion"] is None


def test_promoting_and_rolling_back(http, folder, key):
    promoted = http.post(f"{MODELS}/candidate/promote")
    assert promoted.status_code == 200, promoted.text
    assert (promoted.json()["champion"], promoted.json()["inputs"]) == (key, 40)
    found = http.get(MODELS).json()
    assert found["champion"] == key
    assert found["models"][0]["aliases"] == ["candidate", "champion"]
    # Beside a champion a candidate's own report does not count, and all else was trained on.
    again = is_problem(http.post(f"{MODELS}/{key}/promote"), 409, "PromotionError")
    assert "families" in again
    assert http.post(f"{MODELS}/rollback").json() == {"champion": None}
    nobody = is_problem(http.post(f"{MODELS}/rollback"), 409, "PromotionError")
    assert all(str(folder) not in detail for detail in (again, nobody))
    assert [change["why"] for change in http.get(MODELS).json()["history"]] == [
        "add",
        "promote",
        "rollback",
    ]


def test_the_gate_gives_all_its_reasons(http, folder, key):
    fill(folder / "measurements.db", problems(graph_families=2, seed=5), prefix="new-")
    assert http.post(f"{MODELS}/{key}/promote").json()["champion"] == key
    worse = ModelRegistry(folder / "registry").add(contrary_model())
    answer = http.post(f"{MODELS}/{worse}/promote", params={"machine": MACHINE.digest})
    detail = is_problem(answer, 409, "PromotionError")
    assert "worse than that of always taking the best fixed variant" in detail
    assert "worse than the champion's on the same inputs" in detail
    assert http.get(MODELS).json()["champion"] == key


def test_a_refusal_says_what_was_left_out(http, folder, key, monkeypatch):
    monkeypatch.setattr("hetune.profiling.store.problems.MOST_DRIFT", 0.5)
    fill(folder / "measurements.db", problems(graph_families=2, seed=5), prefix="new-")
    assert http.post(f"{MODELS}/{key}/promote").json()["champion"] == key
    fill(folder / "measurements.db", problems(graph_families=1), prefix="busy-", drift=0.9)
    worse = ModelRegistry(folder / "registry").add(contrary_model())
    answer = http.post(f"{MODELS}/{worse}/promote", params={"machine": MACHINE.digest})
    detail = is_problem(answer, 409, "PromotionError")
    assert "were measured while the machine was doing something else and do not count" in detail


def test_nothing_to_judge_on_says_what_was_left_out(http, folder, key, monkeypatch):
    monkeypatch.setattr("hetune.profiling.store.problems.MOST_DRIFT", 0.5)
    assert http.post(f"{MODELS}/{key}/promote").json()["champion"] == key
    fill(folder / "measurements.db", problems(graph_families=1), prefix="busy-", drift=0.9)
    detail = is_problem(http.post(f"{MODELS}/{key}/promote"), 409, "PromotionError")
    assert "were measured while the machine was doing something else and do not count" in detail
    assert "run a job that does" in detail
    assert str(folder) not in detail


def test_an_unknown_machine_promotes_nothing(http, key):
    answer = http.post(f"{MODELS}/{key}/promote", params={"machine": "0" * 16})
    assert "nothing was measured" in is_problem(answer, 409, "PromotionError")
    assert http.get(MODELS).json()["champion"] is None


def test_models_are_judged_on_what_they_have_not_seen(http, folder, key):
    fill(folder / "measurements.db", problems(graph_families=2, seed=5), prefix="new-")
    found = http.post(f"{MODELS}/{key}/promote", params={"machine": MACHINE.digest})
    assert (found.json()["champion"], found.json()["inputs"]) == (key, 8)

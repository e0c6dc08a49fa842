"""A running service chooses with the champion, and requests with what they began with."""

import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
from tests.costmodel.test_model_registry import model_of, report

from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection.champion import GIVEN
from hetune.costmodel.selection.selector import Selector
from hetune.service.core.inference.selection import VariantSelection
from hetune.service.core.models.stack import describe
from hetune.service.core.service import Service
from hetune.service.server.app import application
from hetune.variants.runtime.roofline import MachineModel

from ._serving import LIMITS, serving, tiny_features, tiny_graph, tiny_layers

MODELS = "/v1/cost-models"
pytestmark = pytest.mark.filterwarnings(
    "ignore::hetune.costmodel.registry.default_model.ForeignModelWarning"
)


@pytest.fixture
def registry(tmp_path):
    return ModelRegistry(tmp_path / "registry")


@pytest.fixture
def service(tmp_path, registry):
    """A service that follows the model registry's champion."""
    found = Service.open(
        tmp_path / "data",
        limits=LIMITS,
        backend="torch",
        registry=registry,
        store=tmp_path / "store.db",
    )
    found.models.add("m", 1, *describe(tiny_layers()))
    return found


def promoted(registry, day):
    key = registry.add(model_of(day))
    registry.promote(key, report=report(1.0), champion_report=report(1.0))
    return key


def active(http):
    """What a service says that chooses, in its list and in its metrics, which must agree."""
    listed = http.get(MODELS).json()["active"]["model"]
    [line] = [
        line
        for line in http.get("/metrics").text.splitlines()
        if line.startswith("hetune_cost_model_info{")
    ]
    assert line == f'hetune_cost_model_info{{model="{listed}"}} 1.0'
    return listed


def follows(service, key):
    """Whether a service comes to choose with a model although nobody asks it for anything."""
    deadline = time.monotonic() + 60
    while service.follower.active.model != key and time.monotonic() < deadline:
        time.sleep(0.02)
    return service.follower.active.model == key


def test_a_promotion_elsewhere_is_followed_unasked(service, registry, caplog):
    caplog.set_level(logging.INFO)
    with serving(application(service)) as url, httpx.Client(base_url=url, timeout=60) as http:
        assert active(http) == "package"
        key = promoted(registry, 1)
        assert follows(service, key)
        assert active(http) == key
        assert f"the cost model {key} chooses from now on; before: package" in caplog.text


def test_another_process_s_rollback_is_followed(service, registry):
    first, second = promoted(registry, 1), promoted(registry, 2)
    with serving(application(service)) as url, httpx.Client(base_url=url, timeout=60) as http:
        assert follows(service, second)
        environment = os.environ | {"HETUNE_MODELS": str(registry.root)}
        code = (
            "from hetune.costmodel.registry.model_registry import ModelRegistry; "
            "ModelRegistry().rollback()"
        )
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=300)
        assert follows(service, first)
        assert active(http) == first


def test_a_rollback_over_http_counts_when_it_is_answered(service, registry):
    first, second = promoted(registry, 1), promoted(registry, 2)
    service.follower.refresh()
    with serving(application(service)) as url, httpx.Client(base_url=url, timeout=60) as http:
        assert active(http) == second
        assert http.post(f"{MODELS}/rollback").json() == {"champion": first}
        assert service.follower.active.model == first


def test_a_broken_champion_stops_nobody(service, registry, caplog):
    first = promoted(registry, 1)
    service.follower.refresh()
    id = service.graphs.add(tiny_graph())
    second = promoted(registry, 2)
    next((registry.root / second).glob("*.npz")).unlink()
    with serving(application(service)) as url, httpx.Client(base_url=url, timeout=60) as http:
        found = http.get(MODELS).json()["active"]
        assert found["model"] == first
        assert second in found["problem"]
        assert "hetune_champion_refused 1.0" in http.get("/metrics").text
        asked = {"graph": id, "x": tiny_features().tolist()}
        answer = http.post("/v1/models/m/infer", json=asked)
        assert answer.is_success
        assert all("the cost model" in layer["reason"] for layer in answer.json()["layers"])
    assert f"the cost model {first} goes on choosing" in caplog.text


def test_a_registry_that_goes_away_stops_nobody(service, registry):
    key = promoted(registry, 1)
    service.follower.refresh()
    shutil.rmtree(registry.root)
    service.follower.refresh()
    assert service.inference.run("m", tiny_graph(), tiny_features()).report.layers
    assert service.follower.active.model in (key, "package")


def test_all_layers_of_a_request_are_chosen_by_one_model(service):
    """While another thread changes what chooses as fast as it can."""
    slow, fast = (Selector(machine=MachineModel(launch_seconds=s)) for s in (1.0, 1e-6))
    graph, x = tiny_graph(), tiny_features()
    current = SimpleNamespace(selector=slow, model="either")
    selection = service.selection
    object.__setattr__(selection, "_active", lambda: current)
    assert isinstance(selection, VariantSelection)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            current.selector = fast if current.selector is slow else slow
            time.sleep(0.0005)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        reports = [service.inference.run("m", graph, x).report for _ in range(20)]
    finally:
        stop.set()
        thread.join()
    kinds = {tuple(layer.predicted_seconds > 0.5 for layer in r.layers) for r in reports}
    assert kinds <= {(True, True), (False, False)}


def test_a_service_with_a_selector_of_its_own_follows_nobody(tmp_path, registry):
    service = Service.open(
        tmp_path / "data", selector=Selector(), backend="torch", registry=registry
    )
    promoted(registry, 1)
    assert service.cost_models.list().active.model == GIVEN

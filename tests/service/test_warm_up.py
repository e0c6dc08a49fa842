"""A service is ready when the models are that it was told to have."""

import httpx
import pytest
import torch

from hetune.costmodel.selector import Selector
from hetune.service.core.service import Service
from hetune.service.core.stack import describe
from hetune.service.http.app import application
from hetune.variants.errors import NotReadyError
from hetune.variants.registry import Registry, Toolchain, override_default_registry

from ._serving import serving, tiny_layers


def opened(folder, *names, backend="torch"):
    service = Service.open(folder, selector=Selector(), backend=backend, warm=names)
    service.models.add("m", 1, *describe(tiny_layers()[:1]))
    return service


def test_it_is_ready_once_they_are_loaded(tmp_path):
    service = opened(tmp_path, "m")
    with pytest.raises(NotReadyError, match="is being loaded"):
        service.check_ready()
    assert not service.models.is_loaded("m", 1)
    service.warm_up.run()
    service.check_ready()
    assert service.models.is_loaded("m", 1)


def test_without_one_it_never_is_and_the_log_says_why(tmp_path, caplog):
    service = opened(tmp_path, "m", "n@live")
    service.warm_up.run()
    with pytest.raises(NotReadyError, match=r"n@live.*log has the reason"):
        service.check_ready()
    assert "there is no model n" in caplog.text


def test_kernels_are_compiled_before(tmp_path, graph, x, monkeypatch, caplog):
    def start(*given):
        raise AssertionError("a compiler was started")

    caplog.set_level("INFO")
    service = opened(tmp_path / "data", "m", backend="cpp")
    registry = Registry(tmp_path / "kernels")
    with override_default_registry(registry):
        service.warm_up.run()
        compiled = {entry.key for entry in registry.entries()}
        monkeypatch.setattr(Toolchain, "compile", start)
        service.inference.run("m", graph, x, variants=["hybrid/b256"])
        service.inference.run("m", graph, x, explain=True)
        service.inference.run("m", graph, x, nodes=torch.tensor([0, 5]), subset="reach")
    assert compiled
    assert "compiled for the model m" in caplog.text


def test_over_http_the_probe_waits_and_no_request_fails(tmp_path, caplog):
    service = opened(tmp_path, "m", "missing")
    with serving(application(service)) as url:
        answer = httpx.get(f"{url}/v1/health/ready", timeout=60)
        live = httpx.get(f"{url}/v1/health/live", timeout=60)
    assert (answer.status_code, live.status_code) == (503, 200)
    problem = answer.json()
    assert problem["type"] == "urn:hetune:error:NotReadyError"
    assert "which is wanted at the start" in problem["detail"]
    assert "Traceback" not in caplog.text
    assert not list(service.metrics.failures.collect()[0].samples)


def test_variants_are_planned_before(tmp_path, monkeypatch):
    service = opened(tmp_path, "m")
    warmed = []
    monkeypatch.setattr(Selector, "warm_up", lambda self, layer: warmed.append((self, layer)))
    service.warm_up.run()
    selector = service.following.active.selector
    assert warmed == [(selector, module) for module in service.models.get("m").modules]

"""A service is ready when the models are that it was told to have."""

import dataclasses
import re
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
import torch

import hetune
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection.champion import PACKAGE, ROOFLINE
from hetune.costmodel.selection.selector import Selector
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.stack import describe
from hetune.service.core.service import Service
from hetune.service.core.storage.folder import Folder
from hetune.service.server.app import application
from hetune.variants.errors import CompileError, DiskFullError, NotReadyError
from hetune.variants.registry import Registry, Toolchain, override_default_registry
from hetune.variants.registry.atomic_files import ROOM

from ._serving import asking, serving, tiny_layers
from .test_http import is_problem


@contextmanager
def files_of(most):
    """Meanwhile no file may have more bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def eventually(is_so):
    """Whether something is so within a minute."""
    end = time.monotonic() + 60
    while not (found := is_so()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


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
    service.models.add("m", 2, *describe([hetune.nn.RGCN(4, 32, 2)], precision="bf16"))
    registry = Registry(tmp_path / "kernels")
    with override_default_registry(registry):
        service.warm_up.run()
        compiled = {entry.key for entry in registry.entries()}
        monkeypatch.setattr(Toolchain, "compile", start)
        for variant in ("hybrid/b256", "hybrid+bf16/b256"):
            service.inference.run("m", graph, x, variants=[variant])
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
    monkeypatch.setattr(Selector, "warm_up", lambda self, layer, _: warmed.append((self, layer)))
    service.warm_up.run()
    selector = service.follower.active.selector
    assert warmed == [(selector, module) for module in service.models.get("m").modules]


# What every run needs is compiled while the service listens.


class Waiting(Toolchain):
    """A compiler that takes until it is told to go on."""

    go_on = threading.Event()

    def compile(self, source, output):
        assert self.go_on.wait(60)
        super().compile(source, output)


class Refusing(Toolchain):
    """One that fails until it is mended."""

    is_mended = False

    def compile(self, source, output):
        if not self.is_mended:
            raise CompileError("it says:\nno")
        super().compile(source, output)


def with_compiler(folder, kind):
    """A registry of its own that compiles by one of these."""
    found = Toolchain.detect()
    values = (getattr(found, field.name) for field in dataclasses.fields(found))
    return override_default_registry(Registry(folder / "kernels", toolchain=kind(*values)))


def unprepared(folder, selector=None):
    service = Service.open(
        folder / "data",
        selector=selector,
        registry=ModelRegistry(folder / "registry"),
        store=folder / "measurements.db",
        prepares=False,
    )
    service.models.add("m", 1, *describe(tiny_layers()[:1]))
    return service


def test_it_listens_while_a_compiler_takes_long(tmp_path, graph, x, monkeypatch, caplog):
    monkeypatch.setattr("hetune.service.core.models.warm_up._QUIET_SECONDS", 0.01)
    Waiting.go_on.clear()
    with with_compiler(tmp_path, Waiting):
        service = unprepared(tmp_path, Selector())
        body = {"graph": service.graphs.add(graph), "x": x.tolist()}
        with asking(application(service)) as http, ThreadPoolExecutor() as threads:
            told = http.get("/readyz")
            assert told.status_code == 503
            assert told.headers["retry-after"] == "1"
            assert re.fullmatch(r"warming up: compiling for \d+ s", told.json()["detail"])
            assert http.get("/healthz").status_code == 200
            assert http.get("/v1/models").status_code == 200
            asked = threads.submit(http.post, "/v1/models/m/infer", json=body)
            Waiting.go_on.set()
            assert asked.result().status_code == 200  # it has waited
            assert http.get("/readyz").status_code == 200
    assert "the service is not ready until that has ended" in caplog.text


def test_it_is_not_ready_without_a_compiler_and_tries_again(tmp_path, graph, monkeypatch, caplog):
    monkeypatch.setattr("hetune.service.core.models.warm_up.RETRY_SECONDS", 0.01)
    monkeypatch.setattr(Refusing, "is_mended", False)
    with with_compiler(tmp_path, Refusing):
        service = unprepared(tmp_path, Selector())
        with asking(application(service)) as http:
            assert eventually(lambda: "cannot be compiled" in http.get("/readyz").text)
            asked = http.post("/v1/models/m/select", json={"graph": "0" * 32})
            assert is_problem(asked, 503, "NotReadyError") == "kernels cannot be compiled: it says:"
            Refusing.is_mended = True
            assert eventually(lambda: http.get("/readyz").status_code == 200)
    assert caplog.text.count("the service is not ready: it says:") == 1


def test_until_then_the_roofline_model_stands_in(tmp_path):
    service = unprepared(tmp_path)
    assert (service.follower.active.model, service.follower.refresh()) == (ROOFLINE, False)
    service.warm_up.run()
    assert service.follower.active.model == PACKAGE
    service.check_ready()


@pytest.mark.parametrize("most", [0, ROOM - 1])
def test_a_full_disk_is_not_ready(tmp_path, monkeypatch, most):
    service = Service.open(tmp_path / "data", selector=Selector(), backend="torch")
    service.check_ready()
    with files_of(most), pytest.raises(DiskFullError, match="no space is left"):
        service.check_ready()


def test_a_full_disk_is_told_once(tmp_path, caplog):
    folder = Folder(tmp_path / "data")
    with files_of(0):
        for _ in range(3):
            with pytest.raises(DiskFullError, match="no space is left"):
                folder.check_room()
    for _ in range(2):
        folder.check_room()
    begun, over = [record.getMessage() for record in caplog.records]
    assert f"the folder {folder.root} is full: no space is left" in begun
    assert f"there is space again for {folder.root}" in over
    assert "failed 3 times" in over
    assert "Traceback" not in caplog.text


def test_no_space_for_kernels_is_not_ready_unless_there_is_some_elsewhere(tmp_path, monkeypatch):
    with override_default_registry(Registry(tmp_path / "kernels")):
        engine = Engine("cpp")
        with files_of(0), pytest.raises(NotReadyError, match="nor a temporary folder"):
            engine.check()
        engine.check()
        (tmp_path / "kernels").rename(tmp_path / "before")
        (tmp_path / "kernels").write_text("no folder")
        engine.check()

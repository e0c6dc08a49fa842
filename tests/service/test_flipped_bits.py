"""Files with a flipped bit: what they say is right, or they are refused; the others go on."""

from datetime import UTC, datetime, timedelta

import pytest
import torch
from tests.costmodel._synthetic import small_model

from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.model import bundle
from hetune.costmodel.registry.calibration import Calibration, load_calibration
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.service.core.keys.keys import FILE, Keys
from hetune.service.core.keys.scopes import KeyScope
from hetune.service.core.models.models import ModelStore
from hetune.service.core.models.stack import describe
from hetune.service.server.app import application
from hetune.variants.errors import FolderError, ModelError
from hetune.variants.registry.records import KernelManifest
from hetune.variants.runtime.roofline import MachineModel

from ._logs import logged
from ._serving import asking
from .test_http import is_problem

STEP = 7
"""One bit of every so many bytes is flipped: a prime, so that all places of a byte come."""


def flipped(path, step=STEP):
    """Flips one bit after the other in a file, which is as it was in the end."""
    content = path.read_bytes()
    for place in range(0, len(content), step):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        yield place
    path.write_bytes(content)


def fresh(service):
    """The models as a process that has just begun has them."""
    return ModelStore(service.models.folder.root, service.engine, 1 << 20)


def test_a_model_never_has_other_weights(service):
    [path] = service.models.folder.root.glob("model-m/1.safetensors")
    before = [module.state_dict() for module in service.models.get("m").modules]
    refused = 0
    for place in flipped(path):
        try:
            found = fresh(service).get("m")
        except FolderError:
            refused += 1
            continue
        for module, expected in zip(found.modules, before, strict=True):
            for name, value in module.state_dict().items():
                assert torch.equal(value, expected[name]), place
    assert refused > path.stat().st_size // STEP - 20  # what describes it may be laid out otherwise


def test_an_alias_never_names_another_version(service, layers):
    service.models.add("m", 2, *describe(layers))
    service.models.set_alias("m", "live", 2)
    [path] = service.models.folder.root.glob("model-m/live.alias")
    for place in flipped(path, 1):
        try:
            assert service.models.get("m@live").version == 2, place
        except FolderError:
            continue


def test_a_key_is_never_good_for_more_or_longer(tmp_path):
    keys = Keys(tmp_path / FILE)
    _, secret = keys.create("one", [KeyScope.infer], timedelta(days=1))
    before = keys.find(secret)
    for place in flipped(keys.path, 3):
        try:
            found = Keys(keys.path).find(secret)
        except FolderError:
            continue
        assert found == before, place


def test_aliases_of_cost_models_never_name_another_one(tmp_path):
    registry = ModelRegistry(tmp_path)
    key = registry.add(small_model())
    for place in flipped(registry.aliases_file, 1):
        try:
            assert registry.aliases().candidate == key, place
        except ModelError:
            continue


def test_a_bundle_never_says_anything_else(tmp_path):
    bundle.save(small_model(), tmp_path / "model")
    before = bundle.read_manifest(tmp_path / "model")
    for place in flipped(tmp_path / "model" / "manifest.json", 97):
        try:
            assert bundle.read_manifest(tmp_path / "model") == before, place
        except ModelError:
            continue


def test_a_calibration_never_says_anything_else(tmp_path):
    machine, now = this_machine().digest, datetime(2026, 1, 2, tzinfo=UTC)
    rates = MachineModel(matrix_flops=2e11)
    calibration = Calibration(rates, {"product": 0.25}, machine, "a model", now, 0.5, 0.25)
    path = calibration.save(tmp_path)
    for place in flipped(path):
        assert load_calibration(tmp_path) in (None, calibration), place


def test_a_kernel_s_manifest_never_says_anything_else():
    manifest = KernelManifest(
        1, "k" * 64, "name", "recipe", "0" * 64, 5, 1.5, "g++ (13)", "-O3", "zen5"
    )
    text = manifest.to_json().encode()
    for place in range(len(text)):
        changed = bytearray(text)
        changed[place] ^= 1 << place % 8
        try:
            assert KernelManifest.from_json(changed.decode("utf-8")) == manifest, place
        except ValueError:
            continue


# Over HTTP: documented errors, and nothing else is harmed.


def test_a_damaged_model_is_a_503_and_others_are_served(service, layers, graph, x):
    service.models.add("n", 1, *describe(layers))
    [path] = service.models.folder.root.glob("model-m/1.safetensors")
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)
    body = {"graph": service.graphs.add(graph), "x": x.tolist()}
    with logged() as log, asking(application(service)) as http:
        is_problem(http.post("/v1/models/m/infer", json=body), 503, "FolderError")
        is_problem(http.get("/v1/models/m/versions/1"), 503, "FolderError")
        assert http.post("/v2/repository/models/m/load").status_code == 503
        assert http.get("/ui/models/m").status_code == 503
        assert http.post("/v1/models/n/infer", json=body).status_code == 200
        assert [m["name"] for m in http.get("/v1/models").json()["models"]] == ["m", "n"]
        assert http.post("/v2/repository/index").status_code == 200
        # The advice works.
        assert http.delete("/v1/models/m/versions/1").status_code == 204
        assert service.models.add("m", 1, *describe(layers))
        assert http.post("/v1/models/m/infer", json=body).status_code == 200
    assert "version 1 of m is damaged on disk (its content has another SHA-256" in log.text


def test_a_damaged_alias_is_a_503_and_others_are_served(service, layers):
    for alias in ("live", "next"):
        service.models.set_alias("m", alias, 1)
    [path] = service.models.folder.root.glob("model-m/live.alias")
    path.write_text("?")
    with logged() as log, asking(application(service)) as http:
        is_problem(
            http.post("/v1/models/m@live/select", json={"graph": "0" * 32}), 503, "FolderError"
        )
        is_problem(
            http.post("/v1/models/m@next/select", json={"graph": "0" * 32}), 404, "NotFoundError"
        )
        assert http.get("/v1/models").json()["models"][0]["aliases"] == {"next": 1}
        is_problem(http.delete("/v1/models/m/versions/1"), 503, "FolderError")
        assert http.put("/v1/models/m/aliases/live", json={"version": 1}).status_code == 200
        assert http.get("/v1/models/m").json()["aliases"] == {"live": 1, "next": 1}
    assert "live.alias is damaged" in log.text


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"format": 1, "candidate": 3}', b"\xff"])
def test_damaged_aliases_of_cost_models_are_a_503(service, content):
    registry = ModelRegistry(service.folder.root / "registry")
    registry.prepare()
    registry.aliases_file.write_bytes(content)
    with asking(application(service)) as http:
        is_problem(http.get("/v1/cost-models"), 503, "ModelError")
        is_problem(http.get("/v1/cost-models/champion"), 503, "ModelError")
        is_problem(http.post("/v1/cost-models/rollback"), 503, "ModelError")
        assert http.get("/ui/cost-models").status_code == 503
        assert http.get("/v1/models").status_code == 200
        assert http.get("/").status_code == 200

"""What can run, and what is compiled."""

import pytest

from hetune.variants.frontend.presets import preset_program
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry import KernelSource, Registry, override_default_registry


def test_variants_of_a_layer(http):
    found = http.get("/v1/variants", params={"layer": "rgat", "d_in": 8, "d_out": 4}).json()
    assert found["variants"] == [v.id for v in variants_of(preset_program("rgat", 8, 4), "cpu")]


@pytest.mark.parametrize(
    ("asked", "status", "why"),
    [
        ({"layer": "mlp", "d_in": 8, "d_out": 4}, 422, "rgcn, rgat, hgt"),
        ({"layer": "rgat", "d_in": 8, "d_out": 4, "heads": 3}, 422, "take a multiple"),
        ({"layer": "rgat", "d_in": 0, "d_out": 4}, 400, "d_in"),
        ({"layer": "rgat"}, 400, "d_in"),
    ],
)
def test_what_is_wrong_is_said(asked, status, why, http):
    answer = http.get("/v1/variants", params=asked)
    assert answer.status_code == status
    assert why in answer.text


def test_kernels_that_are_compiled(http, tmp_path):
    registry = Registry(tmp_path / "kernels")
    with override_default_registry(registry):
        assert http.get("/v1/registry").json() == {"kernels": []}
        registry.load(KernelSource("answer", 'extern "C" int answer() { return 42; }', "answer"))
        (kernel,) = http.get("/v1/registry").json()["kernels"]
    assert kernel["name"] == "answer"
    assert kernel["bytes"] > 0


@pytest.mark.parametrize(("path", "status"), [("/healthz", "live"), ("/readyz", "ready")])
def test_probes_have_their_usual_names_too(path, status, http):
    assert http.get(path).json() == {"status": status}

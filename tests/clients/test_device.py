"""`--device cuda`: what there is without a GPU, and commands with Triton's interpreter for one."""

import re

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import hetune as library
from hetune.clients.cli.device import RunDevice
from hetune.clients.cli.sources import GraphSource, LayerSource, features
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.frontend.presets import preset_programs
from hetune.variants.kernel.parse import parse
from hetune.variants.plan.variants import variants_of

RGCN = ("--layer", "rgcn", "--width", "8")
QUICK = (*RGCN, "--top", "1", "--rounds", "1")


@pytest.fixture
def interpreted(monkeypatch):
    """Whatever device is named, what a GPU would get runs on the CPU."""
    pytest.importorskip("triton", reason="no triton: pip install '.[triton]'")
    where = RunDevice(torch.device("cpu"), TritonBackend())
    monkeypatch.setattr(RunDevice, "named", lambda name, precision: where)


@pytest.mark.parametrize(
    "command",
    [
        ("run", "aifb", *RGCN),
        ("bench", "aifb", *RGCN),
        ("serve",),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_without_a_gpu_commands_say_so(hetune, tmp_path, command, device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = ("--data", tmp_path) if command == ("serve",) else ()
    result = hetune(*command, "--device", device, *data)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no GPU: torch sees none here; install")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("precision", "name"), [("float32", "triton"), ("bf16", "triton (precision=bf16)")]
)
def test_a_gpu_s_products_are_as_precise_as_was_asked_for(precision, name, monkeypatch):
    pytest.importorskip("triton", reason="no triton: pip install '.[triton]'")
    monkeypatch.setattr("hetune.clients.cli.device.torch_device", torch.device)
    assert RunDevice.named("cuda", precision).backend.name == name


def test_other_devices_are_none(hetune):
    result = hetune("run", "aifb", *RGCN, "--device", "tpu")
    assert result.exit_code == 2
    assert "no device 'tpu': take one of cpu, cuda" in result.stderr


@pytest.mark.usefixtures("interpreted")
def test_run_runs_what_a_gpu_would_get(hetune, graph_file, tmp_path):
    path = tmp_path / "out.safetensors"
    result = hetune("run", graph_file, *QUICK, "--device", "cuda", "--out", path)
    assert result.exit_code == 0, result.output
    assert "first run, with what of indexing and compiling was left to do" in result.stdout
    assert "outputs agree" in result.stdout
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    program = preset_programs("rgcn", 8)[0]
    assert metadata["device"] == "cuda"
    assert metadata["variant"] in {variant.id for variant in variants_of(program, "cuda")}
    graph = GraphSource(str(graph_file)).open()
    layer = library.compile(LayerSource("rgcn", 8).module(graph))
    with torch.no_grad():
        wanted = layer(features(graph, 8, seed=0), graph)
    assert torch.allclose(load_file(path)["out"], wanted, rtol=1e-4, atol=1e-5)


def test_explain_compares_a_gpu_s_variants_without_one(hetune, graph_file):
    result = hetune("explain", graph_file, *RGCN, "--device", "cuda")
    assert result.exit_code == 0, result.output
    for variant in variants_of(preset_programs("rgcn", 8)[0], "cuda"):
        assert variant.id in result.stdout
    assert "as one CUDA graph" in result.stdout


def test_a_gpu_s_variants_are_listed_without_one(hetune):
    result = hetune("variants", *RGCN, "--device", "cuda")
    assert result.exit_code == 0, result.output
    found = variants_of(preset_programs("rgcn", 8)[0], "cuda")
    assert f"{len(found)} variants; an id is the plan, a slash and the schedule" in result.stdout


def test_a_gpu_s_variant_is_shown_with_its_triton(hetune):
    variant = variants_of(preset_programs("rgcn", 8)[0], "cuda")[-1]
    arguments = (*RGCN, "--device", "cuda", "--show")
    shown = hetune("variants", *arguments, variant.id, "--source")
    assert shown.exit_code == 0, shown.output
    texts = re.findall(r"^(launch\n.*?)^gpu_schedule", shown.stdout, re.M | re.S)
    assert tuple(parse(text) for text in texts) == variant.plan.launches
    assert shown.stdout.count("@triton.jit") >= len(texts)
    missing = hetune("variants", *arguments, "hybrid/b1024")
    assert missing.exit_code == 2
    assert "`hetune variants --layer rgcn --device cuda` lists them" in missing.stderr

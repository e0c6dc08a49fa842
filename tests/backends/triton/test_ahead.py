"""Compiling for GPUs that are not here, and what the registry keeps of it."""

import io
import json
import time
import zipfile
from pathlib import Path

import pytest
from tests.full import every

from hetune.variants.backends.triton import ahead
from hetune.variants.backends.triton.ahead import TritonCompiler, capability_of, gpu_registry
from hetune.variants.backends.triton.emit import emit
from hetune.variants.errors import CompileError, InputError
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.registry import KernelSource

from ...registry.alive import wait_for_end
from ..launches import ACTIVATED, PAIRS, RGCN, SOFTMAX

pytest.importorskip("triton")
GOLDEN = {"rgcn": RGCN.format(d=63), "softmax": SOFTMAX.format(d=16, h=2)}


def source_of(name: str) -> KernelSource:
    return emit(parse(GOLDEN[name]), GpuSchedule()).source


@pytest.mark.parametrize("capability", every(2, (80, 90)))
def test_cubins_round_through_the_registry(capability, tmp_path):
    registry = gpu_registry(capability, tmp_path / "kernels")
    sources = [source_of(name) for name in GOLDEN]
    assert registry.find(sources[0]) is None
    seen = []
    report = registry.build(sources, jobs=2, progress=lambda *step: seen.append(step[:2]))
    assert (report.built, dict(report.failed), seen) == (2, {}, [(1, 2), (2, 2)])
    again = gpu_registry(capability, tmp_path / "kernels")
    assert again.build(sources).reused == 2
    assert again.verify().checked == 2
    binary = again.find(sources[0])
    with zipfile.ZipFile(io.BytesIO(binary)) as archive:
        launch = json.loads(archive.read("launch.json"))
        assert launch["capability"] == capability
        assert launch["kernel_0"]["num_warps"] == 4
        assert launch["kernel_2"]["types"].split()[-1] == "i32"
        for name in ("kernel_0", "kernel_1", "kernel_2"):
            assert archive.read(f"{name}.cubin")[:4] == b"\x7fELF"
            assert launch[name]["symbol"] == name
    # A kernel for another GPU is another entry, and what is damaged is not given.
    assert gpu_registry(170 - capability, tmp_path / "kernels").find(sources[0]) is None
    path = tmp_path / "kernels" / f"{again.key(sources[0])}.so"
    path.write_bytes(binary[:-1] + b"?")
    assert again.find(sources[0]) is None


@pytest.mark.parametrize(("precision", "capability"), [("ieee", 90), ("bf16", 80)])
def test_products_with_functions_of_their_rows_compile(capability, precision, tmp_path):
    """And what fills the rows that they leave out; with several tiles of columns and of terms."""
    launch = fused(parse(ACTIVATED.format(d=45, h=2, n=90, only=" only=dst fill")), "cuda")
    text = emit(launch, GpuSchedule(), precision).source.text
    assert "= gelu(x_tile)" in text
    assert len(cubins_of(text, capability, tmp_path)) == 2


def test_the_largest_tile_of_variants_fits_small_cards(tmp_path):
    """Programs have 99 KB of shared memory on sm_86, sm_89 and sm_120; a sum takes a third."""
    launch = parse(PAIRS.format(k=256, n=256))
    text = emit(launch, GpuSchedule(tile_rows=128, warps=8)).source.text
    TritonCompiler(89).compile(text, tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "out") as archive:
        kernels = json.loads(archive.read("launch.json"))
    shared = [how["shared"] for how in kernels.values() if isinstance(how, dict)]
    assert 16 << 10 < max(shared) <= 99 << 10


def cubins_of(text: str, capability: int, folder: Path) -> list[bytes]:
    """What a module is compiled to, a file for each kernel."""
    TritonCompiler(capability).compile(text, folder / "out")
    with zipfile.ZipFile(folder / "out") as archive:
        cubins = [archive.read(name) for name in archive.namelist() if name.endswith(".cubin")]
    assert all(cubin[:4] == b"\x7fELF" for cubin in cubins)
    return cubins


def test_what_triton_refuses_is_reported_with_its_words(tmp_path):
    text = source_of("rgcn").text.replace("tl.zeros", "tl.no_such_thing")
    with pytest.raises(CompileError, match=r"(?s)cuda:sm_90 \(exit status 1\).*no_such_thing"):
        TritonCompiler(90).compile(text, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_hangs_is_killed_with_its_children(tmp_path, monkeypatch):
    """In the place of ptxas there is a `sleep`."""
    note, script = tmp_path / "child", tmp_path / "compile.py"
    script.write_text(
        "import pathlib, subprocess\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    monkeypatch.setattr(ahead, "_SCRIPT", script)
    start = time.monotonic()
    with pytest.raises(CompileError, match="within 5 s"):
        TritonCompiler(90, timeout_s=5.0).compile("", tmp_path / "out")
    assert time.monotonic() - start < 300
    wait_for_end(note.read_text())
    assert sorted(tmp_path.iterdir()) == [note, script]


def test_names_of_devices():
    assert capability_of("cuda:sm_90") == capability_of("cuda:sm_90a") == 90
    with pytest.raises(InputError, match="take cpu, or cuda:sm_80"):
        capability_of("cuda")
    with pytest.raises(InputError, match="too old"):
        capability_of("cuda:sm_75")

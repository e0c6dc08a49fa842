"""`hetune build` and the command `registry`: what is compiled, reused, checked and evicted."""

import re

import pytest

from hetune import nn
from hetune.costmodel.selection.selector import Selector
from hetune.variants import errors
from hetune.variants.backends.triton.ahead import TritonCompiler
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.presets import LAYERS, preset_programs
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry import Registry, override_default_registry

from ._command import call

geometric = pytest.importorskip("torch_geometric.nn")

METADATA = (["a"], [("a", "r", "a")])
MODULES = {
    "rgcn": lambda heads: (nn.RGCN(8, 8, 1), geometric.RGCNConv(8, 8, 1)),
    "rgat": lambda heads: (
        nn.RGAT(8, 8 // heads, 1, heads=heads),
        geometric.RGATConv(8, 8 // heads, 1, heads=heads),
    ),
    "hgt": lambda heads: (
        nn.HGT(8, 8, METADATA, heads=heads),
        geometric.HGTConv(8, 8, METADATA, heads=heads),
    ),
}


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_built_serves_modules_of_both_libraries(layer, heads):
    programs = preset_programs(layer, 8, heads)
    for module in MODULES[layer](heads):
        assert adapt(module).program in programs


def test_every_launch_of_every_variant_is_among_the_sources():
    variants = variants_of(*preset_programs("rgcn", 8), "cpu")
    recipes = [source.recipe for source in Compiler.of("cpu").emit(variants)]
    assert len(set(recipes)) == len(recipes)
    assert 1 < len(recipes) <= sum(len(variant.plan.launches) for variant in variants)


@pytest.fixture(scope="module", autouse=True)
def registry(tmp_path_factory):
    """Empty at first, and shared by these tests: every kernel is compiled once."""
    registry = Registry(tmp_path_factory.mktemp("kernels"))
    with override_default_registry(registry):
        yield registry


@pytest.fixture(scope="module")
def first(registry):
    return call("build", "--layers", "rgcn", "--widths", "8", "--jobs", "2")


def counts(text: str) -> tuple[int, ...]:
    """Variants, kernels, compiled, reused and failed."""
    match = re.match(
        r"(\d+) variants of (\d+) different kernels: (\d+) compiled, (\d+) reused, (\d+) failed",
        text,
    )
    assert match, text
    return tuple(map(int, match.groups()))


def test_a_second_build_reuses_everything(first, hetune, registry):
    assert first.exit_code == 0, first.output
    variants, kernels, compiled, reused, failed = counts(first.stdout)
    assert (compiled, reused, failed) == (kernels, 0, 0)
    assert variants == len(variants_of(*preset_programs("rgcn", 8), "cpu"))
    again = hetune("build", "--layers", "rgcn", "--widths", "8")
    assert counts(again.stdout) == (variants, kernels, 0, kernels, 0)
    assert str(registry.root) in again.stdout


def test_what_chooses_is_compiled_along(first, hetune, monkeypatch):
    warmed = []
    monkeypatch.setattr(Selector, "warm_up", lambda self: warmed.append(self))
    assert hetune("build", "--layers", "rgcn", "--widths", "8").exit_code == 0
    assert [selector.device for selector in warmed] == ["cpu"]


def test_output_has_no_control_codes(first):
    assert "\x1b" not in first.output
    assert "\r" not in first.output


def test_list_names_every_kernel(first, hetune, registry):
    listed = hetune("registry", "list").stdout
    entries = registry.entries()
    assert entries
    for entry in entries:
        assert entry.name in listed
        assert entry.key[:12] in listed
    assert f"{len(entries)} kernels" in listed


def test_verify_exits_with_1_if_something_was_bad(first, hetune, registry):
    assert hetune("registry", "verify").exit_code == 0
    damaged = registry.entries()[-1].key
    binary = registry.root / f"{damaged}.so"
    content = binary.read_bytes()
    binary.unlink()  # this process may have loaded it: what it has mapped must not change
    binary.write_bytes(content[:-1] + b"?")
    result = hetune("registry", "verify")
    assert result.exit_code == 1
    assert damaged[:12] in result.stdout
    assert "its SHA-256 is not the manifest's" in result.stdout
    assert hetune("registry", "verify").exit_code == 0


def test_gc_evicts_down_to_the_quota(first, registry, hetune):
    # A registry that has loaded nothing may evict everything.
    with override_default_registry(Registry(registry.root)):
        result = hetune("registry", "gc", "--quota", "20KB")
    assert result.exit_code == 0
    assert sum(entry.bytes for entry in registry.entries()) <= 20_000
    assert " evicted" in result.stdout


def test_kernels_that_fail_are_named(hetune, registry, monkeypatch):
    def refuse(self, source, output):
        raise errors.CompileError("no such luck")

    monkeypatch.setattr(type(registry.toolchain), "compile", refuse)
    result = hetune("build", "--layers", "rgcn", "--widths", "3")
    assert result.exit_code == 1
    _, kernels, compiled, reused, failed = counts(result.stdout)
    assert (compiled, reused, failed) == (0, 0, kernels)
    assert result.stderr.count("no such luck") == kernels


def test_gpus_have_kernels_of_their_own(hetune, registry, monkeypatch, tmp_path):
    pytest.importorskip("triton")
    asked = []

    def compile(self, source, output):
        asked.append((self.cpu, "precision=tf32" in source))
        output.write_bytes(b"a zip file")

    monkeypatch.setattr(TritonCompiler, "compile", compile)
    monkeypatch.setenv("HETUNE_CACHE", str(tmp_path))
    options = ("build", "--layers", "rgcn", "--widths", "8", "--device", "cuda:sm_90")
    result = hetune(*options, "--precision", "tf32")
    variants, kernels, compiled, reused, failed = counts(result.stdout)
    assert (compiled, reused, failed) == (kernels, 0, 0)
    assert variants == len(variants_of(*preset_programs("rgcn", 8), "cuda"))
    assert asked == [("cuda:sm_90", True)] * kernels
    assert str(tmp_path / "kernels") in result.stdout
    assert counts(hetune(*options, "--precision", "tf32").stdout)[3] == kernels
    assert counts(hetune(*options).stdout)[2] == kernels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--layers", "rgcn,gcn"),
            "error: --layers 'rgcn,gcn': no layer 'gcn'; take of rgcn,rgat,hgt",
        ),
        (
            ("--widths", "8,x"),
            "error: --widths '8,x' is no list of positive numbers: give e.g. 32,64,128",
        ),
        *(
            (
                ("--widths", text),
                f"error: --widths '{text}' is no list of positive numbers: give e.g. 32,64,128",
            )
            for text in ("0", "²", "9" * 5000)
        ),
        (("--widths", "65537"), "error: width 65537: take at most 65536"),
        (("--jobs", "0"), "error: --jobs 0: take 1 or more"),
        (
            ("--layers", "hgt", "--widths", "9", "--heads", "2"),
            "error: width 9 does not divide into 2 heads: take a multiple",
        ),
        (
            ("--device", "cuda"),
            "error: no device 'cuda': take cpu, or cuda:sm_80, cuda:sm_90, ...",
        ),
        (
            ("--device", "cuda:sm_90", "--precision", "fp8"),
            "error: no precision 'fp8': take one of ieee, tf32x3, tf32, bf16",
        ),
        (
            ("--precision", "tf32"),
            "error: --precision tf32 is for GPUs: name one with --device, such as cuda:sm_90",
        ),
    ],
)
def test_bad_options(arguments, message, hetune):
    result = hetune("build", *arguments)
    assert (result.exit_code, result.stderr) == (2, f"{message}\n")

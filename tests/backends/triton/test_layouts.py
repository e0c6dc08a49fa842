"""What compiled kernels look like: a thread adds up its own edges, loads 16 bytes, spills nothing.

Without a GPU, for two generations; the compiler's own text tells how threads share out tiles.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product

import pytest
from tests.full import FULL, every

from hetune.variants.backends.triton import compile_unit
from hetune.variants.backends.triton.emit import emit
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.fuse import fused
from hetune.variants.plan.variants import gpu_schedules

from ..launches import PAIRS, RGCN, WALK

pytest.importorskip("triton")

ATTENTION = """
launch
  buffer q: node[{h},{d}]
  buffer k: node[{h},{d}]
  buffer v: node[{h},{d}]
  buffer p: edge[{h}] in scratch p
  buffer y: node[{h},{d}]
  traverse node
    softmax p: [{h}] over edge to p
      scores edge
        key: [{h},{d}] = read k[src]
        query: [{h},{d}] = read q[dst]
        s: [{h}] = dot(key, query)
        score s
  traverse node
    init acc: [{h},{d}] sum
    for edge
      share: [{h}] = read p
      row: [{h},{d}] = read v[src]
      m: [{h},{d}] = mul(share, row)
      update acc m
    store y = acc
"""
SCHEDULES = gpu_schedules()
WALKS = tuple({s.elements: s for s in SCHEDULES}.values())
TEXTS = {
    "sum": (WALK, [(walk, "ieee") for walk in WALKS]),
    "attention": (ATTENTION, [(walk, "ieee") for walk in WALKS]),
    "product of sums": (PAIRS, every(5, product(SCHEDULES, ("ieee", "tf32x3")), 1)),
    "rgcn": (RGCN, [(GpuSchedule(), "ieee")]),
}
"""Launches, and with which schedules and precisions each is compiled."""
COMPILE = """
import json, pathlib, sys
from importlib.util import module_from_spec, spec_from_file_location

def load(path):
    spec = spec_from_file_location(pathlib.Path(path).stem, path)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

compile_unit = load(sys.argv[1])
for line in sys.stdin:
    (capability, *paths), found = json.loads(line), {}
    for path in paths:
        module = load(path)
        for name, launch in module.LAUNCH.items():
            made = compile_unit.compile_kernel(getattr(module, name), launch, capability)
            use = compile_unit.usage(made.asm["cubin"])
            found[f"{pathlib.Path(path).stem}.{name}"] = {"ttgir": made.asm["ttgir"], **use}
    print(json.dumps(found), flush=True)
"""
"""Triton is imported once, by a process that interprets nothing."""
_LAYOUT = re.compile(r"(#\w+) = #ttg\.blocked<\{(.*?)\}>")
_FIELD = re.compile(r"(\w+) = \[([\d, ]+)\]")
_REDUCE = re.compile(
    r'"tt\.reduce"\(.*?<\{axis = (\d+) : i32[^>]*\}>.*?\}\) : \(tensor<((?:\d+x)+)f32, (.*?)>\) ->',
    re.DOTALL,
)
_LOAD = re.compile(r"tt\.load .*: tensor<((?:\d+x)+)!tt\.ptr<f32>, (#\w+)>")


@pytest.fixture(scope="module")
def compiler(tmp_path_factory) -> Iterator[subprocess.Popen[str]]:
    folder = tmp_path_factory.mktemp("triton")
    hidden = ("TRITON_INTERPRET", "PYTHONPATH")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    with (folder / "errors").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", COMPILE, compile_unit.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment | {"TRITON_CACHE_DIR": str(folder / "cache")},
        )
        yield process
        process.communicate(timeout=60)
        errors.seek(0)
        assert process.returncode == 0, errors.read()


@pytest.fixture
def compiled(compiler, tmp_path):
    """Compiles modules; what became of their kernels, by the module's name and theirs."""

    def compiled(texts: dict[str, str], capability: int) -> dict[str, dict]:
        paths = [tmp_path / f"{name}.py" for name in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
        compiler.stdin.write(json.dumps([capability, *map(str, paths)]) + "\n")
        compiler.stdin.flush()
        found: dict[str, dict] = json.loads(compiler.stdout.readline())
        return found

    return compiled


def layouts(ttgir: str) -> dict[str, dict[str, list[int]]]:
    """How threads share out a tile, by the layout's name."""
    return {
        name: {field: [int(n) for n in values.split(",")] for field, values in _FIELD.findall(of)}
        for name, of in _LAYOUT.findall(ttgir)
    }


def axis_of(layout: str, axis: int, known: dict) -> tuple[int, int]:
    """Lanes and warps that an axis lies across, of a layout or of slices of one."""
    parent = known[re.search(r"#blocked\d*", layout)[0]]
    left = list(range(len(parent["order"])))
    for dim in reversed(re.findall(r"dim = (\d+)", layout)):
        del left[int(dim)]
    return parent["threadsPerWarp"][left[axis]], parent["warpsPerCTA"][left[axis]]


def texts(kind: str, width: int, heads: int = 1) -> dict[str, str]:
    text, ways = TEXTS[kind]
    launch = fused(parse(text.format(d=width, k=width, n=width, h=heads)), "cuda")
    return {
        f"{kind.replace(' ', '_')}_{place}_{precision}": emit(launch, how, precision).source.text
        for place, (how, precision) in enumerate(ways)
    }


CASES = [
    (kind, width, capability)
    for place, (kind, width) in enumerate((k, w) for k in TEXTS for w in (64, 32, 128))
    for capability in (80, 90)
    if FULL or (place % 3 == 0 and capability == 80 + 10 * (place % 2))
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "width", "capability"), CASES)
def test_edges_are_a_thread_s_own_and_nothing_spills(kind, width, capability, compiled):
    for name, kernel in compiled(texts(kind, width), capability).items():
        check(name, kernel)


@pytest.mark.slow
def test_heads_lie_across_lanes_as_columns_do(compiled):
    for name, kernel in compiled(texts("attention", 32, heads=2), 90).items():
        check(name, kernel)


@pytest.mark.slow
def test_columns_are_neighbours_however_few(compiled):
    """Edges of many short heads: what is said of their order is not taken for runs of heads."""
    launch = fused(parse(ATTENTION.format(h=4, d=2)), "cuda")
    text = emit(launch, GpuSchedule()).source.text
    for name, kernel in compiled({"short_heads": text}, 90).items():
        known = layouts(kernel["ttgir"])
        loads = [(shape, known[of]) for shape, of in _LOAD.findall(kernel["ttgir"])]
        rows = [(shape, of) for shape, of in loads if shape.endswith("4x2x")]
        assert rows
        for shape, of in rows:
            assert of["order"][0] == shape.count("x") - 1, name
            assert of["sizePerThread"][-1] == 2, name


def check(name: str, kernel: dict) -> None:
    known = layouts(kernel["ttgir"])
    assert kernel["stack"] == 0, name
    assert kernel["registers"] <= 255, name
    for axis, shape, layout in _REDUCE.findall(kernel["ttgir"]):
        if shape.count("x") < 3 or int(shape.split("x")[-2]) < 32:
            continue  # a number an edge, or a head: fewer than there are threads
        lanes, warps = axis_of(layout, int(axis), known)
        assert warps == 1, (name, axis, layout)
        assert lanes == 1 or int(axis) > 0, (name, axis, layout)
    rows = [(s, known[of]) for s, of in _LOAD.findall(kernel["ttgir"]) if s.count("x") == 3]
    assert all(of["sizePerThread"][-1] == 4 for s, of in rows if int(s.split("x")[2]) >= 32), name

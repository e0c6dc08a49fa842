"""The walks in CUDA C++, compiled for the host: lanes are threads, and copies done at once."""

import ctypes
import subprocess
from pathlib import Path

import _gpu_parts_runs
import pytest
import torch
from _gpu_parts_candidates import CANDIDATES, CUDA
from _gpu_parts_expected import attended, sums
from _gpu_parts_index import levels_of
from _gpu_parts_runs import bind_softmax, bind_sum

from hetune.variants.testing.conformance import relative_error

HERE = Path(__file__).parent
BENCHMARKS = HERE.parents[1] / "benchmarks"
TRIED = {
    key: [c for c in found if c.kernel.module == "cuda" and c.most == 64]
    for key, found in CANDIDATES.items()
}
SUM = "x src begin length row slot first most out carry"
SOFTMAX = "q k v top mass src begin length row slot first most out carry carry_top carry_mass"


class Hosted:
    """Starts kernels of a library on the host."""

    def __init__(self, library):
        self._library = library

    def call(self, kernel, grid, arguments):
        def run():
            *tensors, count = arguments
            pointers = (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))
            assert self._library.start(kernel.name.encode(), grid, pointers, count) == 0

        return run


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda")
    names = {c.name for found in TRIED.values() for k in found for c in (k.kernel, k.join)}
    cases = "\n".join(
        _case(name, SUM if name.startswith("sum") else SOFTMAX) for name in sorted(names)
    )
    start = f"""
extern "C" int start(const char* name, int grid, void** given, int count) {{
{cases}
    return 1;
}}
"""
    text = '#include "cuda_on_a_host.hpp"\n' + "\n".join((BENCHMARKS / f).read_text() for f in CUDA)
    source, made = folder / "parts.cpp", folder / "parts.so"
    source.write_text(text + start)
    command = ["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", f"-I{HERE}"]
    subprocess.run([*command, "-o", str(made), str(source)], check=True)
    return Hosted(ctypes.CDLL(str(made)))


def _case(name: str, parameters: str) -> str:
    whole = {"src", "begin", "length", "row", "slot", "first", "most"}
    arguments = ", ".join(
        f"({'int' if p in whole else 'float'}*)given[{i}]" for i, p in enumerate(parameters.split())
    )
    call = f"run_blocks(grid, [=] {{ {name}({arguments}, count); }}); return 0;"
    return f'    if (!std::strcmp(name, "{name}")) {{ {call} }}'


@pytest.fixture(scope="module")
def edges():
    torch.manual_seed(0)
    degrees = torch.tensor([0, 1, 1, 2, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 0, 1, 1, 1, 150])
    dst = torch.repeat_interleave(torch.arange(len(degrees)), degrees).int()
    src = torch.randint(0, len(degrees), dst.shape, dtype=torch.int32)
    pointers = torch.cat([torch.zeros(1), degrees.cumsum(0)]).int()
    return src, dst, pointers


def _few_blocks(candidate, level, count):
    """Those that take programs in turns have several each."""
    return count if level or not candidate.blocks else min(count, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "tried"),
    [(w, c) for (op, w), found in TRIED.items() if op == "sum" for c in found],
    ids=lambda value: getattr(value, "name", value),
)
def test_sums(kernels, edges, width, tried, monkeypatch):
    monkeypatch.setattr(_gpu_parts_runs, "_grid", _few_blocks)
    src, dst, pointers = edges
    x = torch.randn(len(pointers) - 1, width)
    out = torch.full_like(x, torch.nan)
    bind_sum(tried, kernels, levels_of(pointers, 64), src, x, out)()
    assert relative_error(out, sums(x, src, dst)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("tried", TRIED["softmax", 64], ids=lambda tried: tried.name)
def test_softmaxes(kernels, edges, tried, monkeypatch):
    monkeypatch.setattr(_gpu_parts_runs, "_grid", _few_blocks)
    src, dst, pointers = edges
    q, k, v = torch.randn(3, len(pointers) - 1, 64)
    out = torch.full_like(v, torch.nan)
    bind_softmax(tried, kernels, levels_of(pointers, 64), src, (q, k, v), out)()
    assert relative_error(out, attended((q, k, v), src, dst)) < 1e-6

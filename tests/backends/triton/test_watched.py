"""What a GPU alone would show: addresses out of bounds, races of programs and of threads."""

from __future__ import annotations

import pytest
import torch
from tests.full import every

from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.toolkit import module_of
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.parse import parse
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry import KernelSource
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.testing.programs import PROGRAMS, random_parameters

from ..launches import ATTEND, RGCN, SOFTMAX
from ._watch import FaultError, watched

CPU = torch.device("cpu")
SHORT = GpuSchedule(part_edges=4, elements=512, tile_rows=16, tile_columns=16, tile_k=16)


@pytest.fixture(autouse=True)
def _triton() -> None:
    pytest.importorskip("triton", minversion="3.7.1")


@pytest.mark.parametrize("text", [RGCN, SOFTMAX, ATTEND], ids=["rgcn", "softmax", "attend"])
@pytest.mark.parametrize("d", [7, 18])
def test_launches_cut_into_many_parts(text, d, check, small):
    with watched() as watches:
        check(parse(text.format(d=d, h=2)), small, SHORT)
    assert watches


def plans() -> list[tuple[str, str]]:
    """A variant of every plan of a few programs."""
    named = ("rgcn mean", "rgat, 2 heads", "hgt, 2 heads", "two layers", "gated", "weighted pairs")
    return [
        (name, variant.id)
        for name in named
        for variant in variants_of(PROGRAMS[name], "cuda")
        if variant.has_default_schedule
    ]


@pytest.mark.parametrize(("name", "id"), every(4, plans()))
def test_plans(name, id, small):
    program = PROGRAMS[name]
    variant = next(v for v in variants_of(program, "cuda") if v.id == id)
    executable = Executable(variant.plan, Domain(small, CPU), TritonBackend(), variant.schedules)
    values = random_parameters(program, small)
    given = {p.name: values[p.name].float() for p in program.params if p.role == "feature"}
    weights = weights_of(variant.plan, values, small)
    with watched() as watches:
        executable.run(given, weights)
    assert watches


KERNELS = """
import triton
import triton.language as tl

@triton.jit
def beyond(x_ptr, y_ptr):
    tl.store(y_ptr + tl.arange(0, 4), tl.load(x_ptr + tl.arange(0, 4) + tl.program_id(0)))

@triton.jit
def races(x_ptr, y_ptr):
    i = tl.program_id(0)
    tl.store(x_ptr + i, 1.0)
    tl.store(y_ptr + i, tl.load(x_ptr + 1 - i))

@triton.jit
def collides(x_ptr, y_ptr):
    tl.store(y_ptr + tl.arange(0, 2) + tl.program_id(0), 1.0)

@triton.jit
def hurries(x_ptr, y_ptr):
    i = 2 * tl.program_id(0) + tl.arange(0, 2)
    tl.store(x_ptr + i, 1.0)
    tl.store(y_ptr + i, tl.load(x_ptr + i))

@triton.jit
def overtakes(x_ptr, y_ptr):
    i = 2 * tl.program_id(0) + tl.arange(0, 2)
    row = tl.load(x_ptr + i)
    tl.store(y_ptr + i, row)
    tl.store(x_ptr + 2 * tl.program_id(0), 1.0)

@triton.jit
def waits(x_ptr, y_ptr):
    i = 2 * tl.program_id(0) + tl.arange(0, 2)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + 1.0)
    tl.debug_barrier()
    tl.store(y_ptr + i, tl.load(x_ptr + i))
"""


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("beyond", "beyond all that the kernel was given"),
        ("races", "stores where another one has a load"),
        ("collides", "two programs store"),
        ("hurries", "a load that waits for no barrier"),
        ("overtakes", "a store that waits for no barrier"),
        ("waits", None),
    ],
)
def test_what_is_watched_for(kernel, said):
    module = module_of(KernelSource("watched", KERNELS, ""))
    x, y = torch.zeros(4), torch.zeros(4)
    with watched():
        if said is None:
            getattr(module, kernel)[(2,)](x, y)
            return
        with pytest.raises((FaultError, interpreter_error()), match=said):
            getattr(module, kernel)[(2,)](x, y)


def interpreter_error() -> type[Exception]:
    """What the interpreter makes of an error in a kernel."""
    from triton.runtime.errors import InterpreterError

    return InterpreterError

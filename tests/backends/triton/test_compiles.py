"""Every kernel of every layer's variants compiles for a GPU.

Variants share kernels, launch by launch and under other names: of thousands some hundreds differ,
and half of these in numbers alone (sizes of tiles, widths, warps). Of those that differ only so one
is compiled, and of these one in twelve, for one of two generations in turn; with
HETUNE_FULL_MATRIX=1 all are, for both.
"""

import re
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from tests.full import FULL

from hetune.variants.backends.triton.ahead import TritonCompiler
from hetune.variants.backends.triton.codegen import print_unit
from hetune.variants.backends.triton.target import TritonFunction, TritonUnit
from hetune.variants.frontend.presets import preset_programs
from hetune.variants.plan.variants import variants_of

from ._kernels import distinct, units_of

pytest.importorskip("triton")

CAPABILITIES = (80, 90)


@cache
def units(layer: str, width: int, heads: int) -> tuple[TritonUnit, ...]:
    """The modules of a layer's variants, of `hetune.nn` and of PyG."""
    return tuple(
        unit
        for program in preset_programs(layer, width, heads)
        for variant in variants_of(program, "cuda")
        for unit in units_of(variant)
    )


def joined(units: Iterable[TritonUnit]) -> TritonUnit:
    """All kernels that differ, in one module."""
    functions = (replace(f, name=f"kernel_{place}") for place, f in enumerate(distinct(units)))
    helpers = dict.fromkeys(helper for unit in units for helper in unit.helpers)
    return TritonUnit("All kernels of a layer's variants.", tuple(helpers), tuple(functions))


def in_turn(functions: Iterable[TritonFunction], turn: int) -> tuple[TritonFunction, ...]:
    """One in 24 of those that differ by more than numbers; of each kind another number's."""
    kinds: dict[str, list[TritonFunction]] = {}
    for function in functions:
        printed = print_unit(TritonUnit("", (), (replace(function, name="kernel"),)))
        kinds.setdefault(re.sub(r"\d+", "0", printed), []).append(function)
    members = [each[place % len(each)] for place, each in enumerate(kinds.values())]
    return tuple(members[turn :: 12 * len(CAPABILITIES)])


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(
    ("layer", "width", "heads"), [("rgcn", 63, 1), ("rgat", 64, 2), ("hgt", 64, 2)]
)
def test_every_kernel(layer, width, heads, capability, tmp_path):
    unit = joined(units(layer, width, heads))
    if not FULL:
        chosen = in_turn(unit.functions, CAPABILITIES.index(capability))
        unit = replace(unit, functions=chosen)
    TritonCompiler(capability).compile(print_unit(unit), tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "out") as archive:
        cubins = {name: archive.read(name) for name in archive.namelist() if "cubin" in name}
    assert cubins.keys() == {f"{function.name}.cubin" for function in unit.functions}
    assert all(cubin[:4] == b"\x7fELF" for cubin in cubins.values())

"""Programs by name: layers with their default options, their kernels, and scores of triples.

Command line and campaigns find a layer's program here; the service's documents name layers, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from hetune.variants.errors import InputError
from hetune.variants.frontend.homogeneous import (
    gat_program,
    gatv2_program,
    gcn_program,
    gin_program,
    sage_program,
)
from hetune.variants.frontend.kernels import (
    aggregate_program,
    attention_program,
    linear_program,
)
from hetune.variants.frontend.kge.programs import RELATIONS, score_program
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.frontend.nn import HGT, RGAT, RGCN, RelationalLayer
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.program.nodes import Program

RgcnName: TypeAlias = Literal["rgcn"]
RgatName: TypeAlias = Literal["rgat"]
HgtName: TypeAlias = Literal["hgt"]
"""Names of layers as types, for documents that name one."""
WIDTHS = (32, 64, 128)
"""Widths that `hetune build` compiles."""
MOST_WIDTH = 1 << 16


@dataclass(frozen=True, slots=True)
class Preset:
    """A program that has a name.

    Attributes:
        make: The program, by the widths of its rows in and out (of all heads together) and the
            number of heads.
        has_heads: Whether there may be several; if not, there is one, whatever is asked for.
        keeps_width: Whether rows go out as wide as they come in.
        make_pyg: The program of PyG's layer where that is another one.
        calibration_widths: Widths at which `hetune calibrate` measures it.
        module: The layer of `hetune.nn`, likewise, for the types of a graph; None if there is none.
    """

    make: Callable[[int, int, int], Program]
    has_heads: bool = True
    keeps_width: bool = False
    make_pyg: Callable[[int, int, int], Program] | None = None
    calibration_widths: tuple[int, ...] = ()
    module: Callable[[int, int, int, HeteroGraph], RelationalLayer] | None = None

    def heads(self, count: int) -> int:
        """How many heads it has where so many are asked for."""
        return count if self.has_heads else 1


def _rgat(d_in: int, d_out: int, heads: int) -> Program:
    attention = "per_head" if heads > 1 else "shared"
    return rgat_program(d_in, d_out // heads, heads, attention=attention)


def _score(name: str, d_in: int, d_out: int, heads: int) -> Program:
    return score_program(name, d_in)


LAYERS: Mapping[str, Preset] = MappingProxyType(
    {
        "rgcn": Preset(
            lambda d_in, d_out, heads: rgcn_program(d_in, d_out),
            has_heads=False,
            calibration_widths=(32, 128),
            module=lambda d_in, d_out, heads, graph: RGCN(d_in, d_out, graph.num_etypes),
        ),
        "rgat": Preset(
            _rgat,
            make_pyg=lambda d_in, d_out, heads: rgat_program(d_in, d_out // heads, heads),
            calibration_widths=(64,),
            module=lambda d_in, d_out, heads, graph: RGAT(
                d_in, d_out // heads, graph.num_etypes, heads=heads
            ),
        ),
        "hgt": Preset(
            hgt_program,
            calibration_widths=(64,),
            module=lambda d_in, d_out, heads, graph: HGT(d_in, d_out, graph.metadata(), heads),
        ),
    }
)
"""The layers of `hetune.nn`."""
KERNELS: Mapping[str, Preset] = MappingProxyType(
    {
        "linear": Preset(lambda d_in, d_out, heads: linear_program(d_in, d_out), has_heads=False),
        "aggregate": Preset(
            lambda d_in, d_out, heads: aggregate_program(d_in), has_heads=False, keeps_width=True
        ),
        "attention": Preset(
            lambda d_in, d_out, heads: attention_program(d_in, heads), keeps_width=True
        ),
    }
)
"""What layers are made of, measured alone."""
HOMOGENEOUS: Mapping[str, Preset] = MappingProxyType(
    {
        "gcn": Preset(lambda d_in, d_out, heads: gcn_program(d_in, d_out), has_heads=False),
        "sage": Preset(lambda d_in, d_out, heads: sage_program(d_in, d_out), has_heads=False),
        "gin": Preset(lambda d_in, d_out, heads: gin_program(d_in, d_out), has_heads=False),
        "gat": Preset(gat_program),
        "gatv2": Preset(gatv2_program),
    }
)
"""Layers of graphs with one type of edges, for measurements."""
SCORES: Mapping[str, Preset] = MappingProxyType(
    {
        name: Preset(functools.partial(_score, name), has_heads=False, keeps_width=True)
        for name in RELATIONS
    }
)
"""Scores of triples, for measurements."""
OF_EVERY_FAMILY = "rgat"
"""A layer whose launches are of every kernel family but sums of outer products."""
PRESETS: Mapping[str, Preset] = MappingProxyType({**LAYERS, **KERNELS, **HOMOGENEOUS, **SCORES})


@functools.lru_cache(maxsize=1024)
def preset_program(name: str, d_in: int, d_out: int, heads: int = 1) -> Program:
    """The program of a preset.

    Args:
        name: One of `PRESETS`.
        d_in: Width of the rows that come in.
        d_out: Width of the rows that go out, all heads together.
        heads: Number of heads; a preset without heads has one.

    Raises:
        InputError: There is no such preset, it keeps widths and they differ, or as `check_widths`.
    """
    if name not in PRESETS:
        raise InputError(f"no layer {name!r}: take one of {', '.join(PRESETS)}")
    preset = PRESETS[name]
    check_widths(d_in, 1)
    check_widths(d_out, preset.heads(heads))
    if preset.keeps_width and d_in != d_out:
        raise InputError(
            f"rows of width {d_in} are as wide after {name!r}, not {d_out}: take equal widths"
        )
    return preset.make(d_in, d_out, preset.heads(heads))


def labeled_preset(name: str, d_in: int, d_out: int, heads: int = 1) -> LabeledProgram:
    """`preset_program`, labeled by its name."""
    return LabeledProgram.of(preset_program(name, d_in, d_out, heads), name)


def preset_programs(name: str, width: int, heads: int = 1) -> tuple[Program, ...]:
    """The programs of a layer of `hetune.nn` and, where it differs, of PyG's.

    Args:
        name: One of `PRESETS`.
        width: Width of the rows in and out, all heads together.
        heads: Number of heads; a preset without heads has one.

    Raises:
        InputError: As `preset_program`.
    """
    programs = [preset_program(name, width, width, heads)]
    preset = PRESETS[name]
    if preset.make_pyg is not None:
        programs.append(preset.make_pyg(width, width, preset.heads(heads)))
    return tuple(dict.fromkeys(programs))


def preset_layer(
    name: str, d_in: int, d_out: int, graph: HeteroGraph, heads: int = 1
) -> RelationalLayer:
    """A preset as a layer of `hetune.nn` for the types of a graph, with drawn weights.

    Args:
        name: One of `LAYERS`.
        d_in: As of `preset_program`.
        d_out: Likewise.
        graph: Whose edge types, and node types, the weights are for.
        heads: As of `preset_program`.

    Raises:
        InputError: As `preset_program`, or the name is of another preset.
    """
    preset_program(name, d_in, d_out, heads)
    preset = PRESETS[name]
    if preset.module is None:
        raise InputError(f"{name!r} is no layer of hetune.nn: take one of {', '.join(LAYERS)}")
    return preset.module(d_in, d_out, preset.heads(heads), graph)


def check_widths(width: int, heads: int) -> None:
    """Checks that rows divide into heads.

    Raises:
        InputError: They do not, or a number is below 1, or the width above `MOST_WIDTH`.
    """
    if width < 1 or heads < 1:
        raise InputError(f"width {width} with {heads} heads: both are at least 1")
    if width > MOST_WIDTH:
        raise InputError(f"width {width}: take at most {MOST_WIDTH}")
    if width % heads:
        raise InputError(f"width {width} does not divide into {heads} heads: take a multiple")

"""Lowers a Gemm's tail: straight code over a tile of flat rows."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.backends.triton.arguments import TritonArguments
from hetune.variants.backends.triton.blocks import TritonBlocks, TritonFrame
from hetune.variants.backends.triton.target import TritonLet, TritonStatement
from hetune.variants.backends.triton.values import (
    HELPERS,
    Axis,
    TritonValue,
    apply,
    broadcast,
    lift,
)
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Apply, Def, Gemm, Launch, Read, Rows, Write

_ROW = (2,)
"""Shape of a row in values: it has an axis, whose extent is the tile's."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows that a program has computed, of which ``row`` and ``row_in`` tell which they are.

    Attributes:
        value: The rows, [rows, columns].
        column: Their columns among those of a flat row, [columns].
        bound: Which of the columns there are; "" for all.
    """

    value: str
    column: str
    bound: str


def lower_tail(
    gemm: Gemm, tile: Tile, launch: Launch, arguments: TritonArguments
) -> tuple[list[TritonStatement], set[str]]:
    """What becomes of a tile, and the helpers that it needs.

    Raises:
        KernelError: A statement is no straight code.
    """
    blocks = _TileBlocks(tile, gemm.rows, launch, arguments)
    values = {gemm.out: TritonValue(tile.value, _ROW, ("n", 0))}
    helpers: set[str] = set()
    for stmt in gemm.tail:
        match stmt:
            case Def(name, shape, Read() as read):
                row, flat = blocks.locate(read), _ROW if shape else ()
                values[name] = blocks.load(read.buffer, flat, row, blocks.inner)
            case Def(name, _, Apply(fn, of, const)):
                found = tuple(values[arg] for arg in of)
                shape, axes = broadcast(found)
                text = apply(fn, tuple(value.over(axes) for value in found), const)
                values[name] = TritonValue(arguments.local(name), shape, axes)
                blocks.emit(TritonLet(values[name].text, text))
                helpers |= {fn} & HELPERS.keys()
            case Write(buffer, name, accumulate):
                blocks.store(buffer, values[name], _ROW, accumulate)
            case _:
                raise KernelError(f"the tail of the Gemm into {gemm.out!r} is no straight code")
    return blocks.inner.body, helpers


class _TileBlocks(TritonBlocks):
    """One loop, over the tile's rows; flat rows have the tile's columns."""

    def __init__(self, tile: Tile, rows: Rows, launch: Launch, arguments: TritonArguments) -> None:
        super().__init__(launch, arguments)
        self._tile = tile
        self.frames.append(TritonFrame(rows, "row", "row_in", ("n",)))

    def columns(self, shape: tuple[int, ...], axes: tuple[Axis, ...]) -> list[str]:
        """Offsets of a row's elements."""
        return [lift(self._tile.column, (0,), axes)] if shape else []

    def padding(self, shape: tuple[int, ...], axes: tuple[Axis, ...]) -> list[str]:
        """Masks that leave padding out."""
        return [lift(self._tile.bound, (0,), axes)] if shape and self._tile.bound else []

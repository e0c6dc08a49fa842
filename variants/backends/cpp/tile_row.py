"""What belongs to one row of a product's tile: where its output, scale and bias lie."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.rows import node_of, own_row
from hetune.variants.backends.places import type_array
from hetune.variants.kernel.nodes import Element, Gemm, Launch
from hetune.variants.program.nodes import End, Space


@dataclass(frozen=True, slots=True)
class TileRow:
    """C++ expressions of row m of a tile, in a loop over heads ``h`` if there are several.

    Attributes:
        gemm: The product.
        launch: Its launch.
        args: How the launch's arguments are named.
        row: The row's place in the product's space.
    """

    gemm: Gemm
    launch: Launch
    args: Arguments
    row: str

    @property
    def out(self) -> str:
        """The row of the output; of an array of the tile's, if an epilogue takes it on."""
        return "done[m]" if self.gemm.tail else self.pointer(self.gemm.out)

    @property
    def element(self) -> Element:
        """What the row of the output is made of; arrays are of float32."""
        return Element.FLOAT32 if self.gemm.tail else self.launch.buffer(self.gemm.out).element

    def pointer(self, buffer: str) -> str:
        """The row of a buffer that is as wide as the output."""
        gemm = self.gemm
        if gemm.scatter:
            row = node_of(self.args, gemm.rows, self.row, End.DST)
        else:
            row = own_row(self.args, gemm.rows, self.row)
        return f"{self.args.buffer(buffer)} + int64_t({row}) * {gemm.heads * gemm.n}"

    @property
    def scale(self) -> str:
        """The factor of the row, or of the row and head."""
        gemm = self.gemm
        assert gemm.scale is not None
        row = own_row(self.args, gemm.rows, self.row)
        buffer = self.args.buffer(gemm.scale)
        if self.launch.type_of(gemm.scale).width == 1:
            return f"{buffer}[{row}]"
        return f"{buffer}[int64_t({row}) * {gemm.heads} + h]"

    @property
    def bias(self) -> str:
        """The row of the bias."""
        gemm = self.gemm
        assert gemm.bias is not None
        buffer = self.args.buffer(gemm.bias)
        if self.launch.type_of(gemm.bias).space is Space.SHARED:
            return buffer
        types = type_array(self.args, gemm.rows)
        return f"{buffer} + int64_t({types}[{self.row}]) * {gemm.heads * gemm.n}"


def sum_text(*terms: str) -> str:
    """The sum of the terms that are not empty."""
    return " + ".join(term for term in terms if term)

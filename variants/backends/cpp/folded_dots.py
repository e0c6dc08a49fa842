"""Inner products of many rows: those of as many as a vector has lanes are folded together.

A horizontal sum is as many steps long as a vector can be halved. The tree that transposes as it
adds takes all products of a tile through these steps at once, and adds the same numbers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hetune.variants.backends.cpp.pieces import vector_type
from hetune.variants.backends.cpp.rows import block_range
from hetune.variants.backends.cpp.scopes import Frame
from hetune.variants.backends.cpp.target import Assign, Declare, Do, For, Function
from hetune.variants.backends.cpp.traversal import TraversalLowering
from hetune.variants.backends.places import VARIABLES
from hetune.variants.kernel.nodes import Def, Element, Inner, Kernel, Launch, Traversal, Write
from hetune.variants.program.nodes import Space


def has_folded_dots(kernel: Kernel, launch: Launch, lanes: int) -> bool:
    """Whether a kernel does nothing but store inner products of each row that fill vectors."""
    match kernel:
        case Traversal(rows, (*before, Def(dot, shape, Inner(x, y)), Write(out, value, False))):
            pass
        case _:
            return False
    heads, shapes = prod(shape), {s.name: s.shape for s in before if isinstance(s, Def)}
    return (
        rows.space in (Space.SRC_PAIR, Space.DST_PAIR)
        and value == dot
        and launch.buffer(out).element is Element.FLOAT32
        and heads in (1, 2, 4, 8)
        and heads < lanes
        and len(shapes) == len(before)
        and shapes[x][-1] % lanes == 0
        and shapes[x][-1] == shapes[y][-1]
    )


class FoldedDots(TraversalLowering):
    """Lowers such a traversal: tiles of rows, and then the rows that are left."""

    def functions(self) -> tuple[Function, ...]:
        """The function that runs a block."""
        (function,) = super().functions()
        *before, dot, store = self.traversal.body
        assert isinstance(dot, Def)
        assert isinstance(dot.expr, Inner)
        assert isinstance(store, Write)
        *start, rest = function.body
        assert isinstance(rest, For)
        lanes, heads = self.schedule.lanes, prod(dot.shape)
        count, kind = lanes // heads, vector_type(lanes)
        rows = self.traversal.rows
        frame = Frame(rows, VARIABLES[rows.space], last="stop - 1")
        self._lower_body(frame, tuple(before))
        terms = self.scopes.unique("terms")
        for head, products in enumerate(self._products(dot.expr)):
            place = f"i * {heads} + {head}" if heads > 1 else "i"
            frame.body.append(Assign(f"{terms}[{place}]", " + ".join(products[lanes])))
        first, _ = block_range(self.args, rows, self.node_blocked)
        row = Declare("const int64_t", frame.variable, "tile + i")
        out = f"{self.args.buffer(store.buffer)} + tile" + (f" * {heads}" if heads > 1 else "")
        tile = (
            Declare(kind, f"{terms}[{lanes}]"),
            For("int", "i", "0", f"{count}", (row, *frame.ahead, *frame.body)),
            Do(f"store({out}, fold_rows({terms}))"),
        )
        body = (
            *start,
            Declare("const int64_t", "first", first),
            Declare("const int64_t", "whole", f"first + (stop - first) / {count} * {count}"),
            For("int64_t", "tile", "first", "whole", tile, step=f"{count}"),
            replace(rest, start="whole"),
        )
        return (replace(function, body=body),)

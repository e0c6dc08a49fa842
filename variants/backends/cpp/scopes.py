"""Loops being lowered: which of their rows a read means, and what has a name already."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetune.variants.backends.cpp.abi import KEYWORDS, Arguments
from hetune.variants.backends.cpp.target import Declare, Do, Statement
from hetune.variants.backends.places import VARIABLES, Nest, Row
from hetune.variants.backends.slots import identifier
from hetune.variants.kernel.nodes import Element, Launch, Rows
from hetune.variants.program.nodes import Space

_PRELUDE = """c block row last stop ahead begin end sums zero V v2 v4 v8 v16 load store splat
    hsum maximum minimum magnitude larger smaller hlargest hsmallest clamp_min clamp_max mask
    each_lane square step sqrt rsqrt rsqrt0 sin cos pow pow_c log softplus silu elu transpose
    prefetch_row expect_row relu leaky_relu exp sigmoid tanh gelu infinity Lanes Context gather
    scatter repeat fold_sum fold_max add_lanes max_lanes across_edges in_parts in_turns
    part_begin part_end low_half high_half join fold_rows lanes_of are_moderate most_moderate
    powers tile tile_stop until row_stop whole is_long edges_stop first i p_stop n_stop total_at
    add_part rounded part_rows SHUFFLE"""
_TAKEN = frozenset((*VARIABLES.values(), *_PRELUDE.split(), *KEYWORDS))
"""Names that values must not take."""

_PREFETCHED_WIDTH = 16
"""Rows narrower than a cache line are left to the hardware."""

GATHERED = (Space.NODE, Space.SRC_PAIR)
"""Spaces whose rows an edge loop meets in no order; those of a dst_pair follow each other."""


@dataclass(slots=True)
class Frame:
    """One loop being lowered: its rows, its variable, and its body so far."""

    rows: Rows
    variable: str
    last: str = ""
    """The block's last row: as far as gathered rows may be asked for; empty if not at all."""
    body: list[Statement] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    """Expressions that already have a name in this loop."""
    ahead: list[Statement] = field(default_factory=list)
    """Prefetches of rows to come, which start the loop's body."""


class Scopes(Nest[Frame]):
    """The stack of loops around the statement being lowered, innermost last."""

    def __init__(self, launch: Launch, arguments: Arguments) -> None:
        super().__init__(launch, arguments)
        self.args = arguments
        self.taken = set(_TAKEN)

    def emit(self, statement: Statement) -> None:
        """Append to the innermost loop's body."""
        self.inner.body.append(statement)

    def unique(self, name: str, ends: tuple[str, ...] = ()) -> str:
        """A C++ name like this one, which nothing else has, nor the name with one of the ends."""
        name = identifier(name)
        unique, i = name, 2
        while not self.taken.isdisjoint(names := {unique, *(unique + end for end in ends)}):
            unique, i = f"{name}_v{i}", i + 1
        self.taken |= names
        return unique

    def named(self, frame: Frame, name: str, text: str, kind: str = "const int64_t") -> str:
        """A name for an expression in a loop; asked for again, the same."""
        key = f"{kind} {text}"
        if key not in frame.known:
            frame.known[key] = self.unique(name)
            frame.body.append(Declare(kind, frame.known[key], text))
        return frame.known[key]

    def pointer(self, frame: Frame, buffer: str, row: Row[Frame], kind: str, prefix: str) -> str:
        """A name, in a loop, for the pointer to a buffer's row."""
        base = self.args.buffer(buffer)
        if row.shared:
            return base
        number = row.frame.variable
        for name, array in row.path:
            number = self.named(row.frame, name, f"{array}[{number}]")
        width = self.launch.type_of(buffer).width
        offset = number if width == 1 else f"int64_t({number}) * {width}"
        return self.named(frame, f"{prefix}_{buffer}", f"{base} + {offset}", kind)

    def prefetch(self, buffer: str, row: Row[Frame], distance: int) -> None:
        """Ask for a gathered row of the innermost loop some edges before it is read."""
        frame, kind = self.inner, self.launch.type_of(buffer)
        if not distance or row.frame is not frame or not frame.last or len(row.path) != 1:
            return
        if kind.space not in GATHERED or kind.width < _PREFETCHED_WIDTH:
            return
        self._ask("prefetch_row", buffer, f"{row.path[0][1]}[ahead]", distance)

    def expect(self, buffer: str, distance: int) -> None:
        """Ask for a row of the outermost loop some turns before it is written."""
        frame, kind = self.inner, self.launch.buffer(buffer)
        if not distance or frame is not self.frames[0] or not frame.last or kind.scratch:
            return
        if kind.element is not Element.FLOAT32:
            return
        if kind.type.width >= _PREFETCHED_WIDTH:
            self._ask("expect_row", buffer, "ahead", distance)

    def _ask(self, how: str, buffer: str, row: str, distance: int) -> None:
        frame, width = self.inner, self.launch.type_of(buffer).width
        if not frame.ahead:
            ahead = f"minimum<int64_t>({frame.variable} + {distance}, {frame.last})"
            frame.ahead.append(Declare("const int64_t", "ahead", ahead))
        ask = Do(f"{how}<{width}>({self.args.buffer(buffer)} + int64_t({row}) * {width})")
        if ask not in frame.ahead:
            frame.ahead.append(ask)

"""Loops being lowered: which of their rows a read means, and what has a name already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hetune.variants.backends.cpp.abi import KEYWORDS, Arguments, identifier
from hetune.variants.backends.cpp.rows import etype_array, node_array, own_array
from hetune.variants.backends.cpp.target import Do, Let, Statement
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Launch, Read, Rows
from hetune.variants.program.nodes import End, Space

VARIABLES = {
    Space.NODE: "n",
    Space.EDGE: "e",
    Space.DST_PAIR: "p",
    Space.SRC_PAIR: "p",
    Space.SRC_DENSE: "p",
}
"""Loop variables. Of nested loops, no two walk pairs."""

_PRELUDE = """c block last stop ahead begin end sums zero V v2 v4 v8 v16 load store splat hsum
    maximum minimum magnitude transpose prefetch_row relu leaky_relu exp sigmoid tanh
    gelu infinity Lanes Context gather scatter repeat fold_sum fold_max add_lanes
    max_lanes across_edges low_half high_half join lower_bound"""
_TAKEN = frozenset((*VARIABLES.values(), *_PRELUDE.split(), *KEYWORDS))
"""Names that values must not take."""

_PREFETCHED_WIDTH = 16
"""Rows narrower than a cache line are left to the hardware."""

_GATHERED = (Space.NODE, Space.SRC_PAIR, Space.SRC_DENSE)
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


@dataclass(frozen=True, slots=True)
class Row:
    """The row of a buffer that a read means: arrays that lead there from a loop's variable."""

    frame: Frame
    path: tuple[tuple[str, str], ...] = ()
    """(name of what is found, array to find it in), outermost array last."""
    shared: bool = False
    """Row 0, whatever the loop."""


class Scopes:
    """The stack of loops around the statement being lowered, innermost last."""

    def __init__(self, launch: Launch, arguments: Arguments) -> None:
        self.launch = launch
        self.args = arguments
        self.frames: list[Frame] = []
        self.taken = set(_TAKEN)

    @property
    def inner(self) -> Frame:
        """The innermost loop."""
        return self.frames[-1]

    # --- which row ----------------------------------------------------------------------

    def locate(self, read: Read) -> Row:
        """The row that a read means, by the outermost loop in which it is known.

        Raises:
            KernelError: no enclosing loop leads to a row of the buffer.
        """
        kind, inner = self.launch.type_of(read.buffer), self.inner
        match kind.space:
            case Space.SHARED:
                return Row(self.frames[0], shared=True)
            case Space.NODE:
                return self._node(read)
            case Space.NTYPE:
                node = self._node(read)
                return Row(node.frame, (*node.path, ("ntype", self.args.node_types())))
            case Space.ETYPE:
                frame = self._innermost(lambda f: f.rows.space is Space.DST_PAIR) or inner
                if not frame.rows.space.is_edgewise:
                    raise KernelError(f"{read.buffer!r} is read by edge type from a loop of nodes")
                return Row(frame, (("etype", etype_array(self.args, frame.rows)),))
            case Space.EDGE:
                if inner.rows.space is not Space.EDGE:
                    raise KernelError(f"the edge buffer {read.buffer!r} is read outside of edges")
                return self.own(inner)
            case space:
                return self._pair(read.buffer, space, kind.group)

    def own(self, frame: Frame) -> Row:
        """The current row of a loop, in buffers of its space."""
        return _row(frame, "position", own_array(self.args, frame.rows))

    def _pair(self, buffer: str, space: Space, group: str) -> Row:
        own = self._innermost(lambda f: f.rows == Rows(space, group))
        if own is not None:
            return Row(own)
        if self.inner.rows != Rows(Space.EDGE, group):
            raise KernelError(
                f"{buffer!r} has {space} rows of group {group!r}: read it from their own loop, or "
                "from edges of that group"
            )
        return Row(self.inner, (("pair", self.args.index(group, f"{space}_of_edge")),))

    def _node(self, read: Read) -> Row:
        if read.end is not End.SRC:
            node = self._innermost(lambda f: f.rows.space is Space.NODE)
            if node is not None:
                return Row(node)
            pair = self._innermost(lambda f: f.rows.space is Space.DST_PAIR)
            if pair is not None:
                return _row(pair, "node", node_array(self.args, pair.rows, End.DST))
        name = read.end.value if read.end is not End.NONE else "node"
        return _row(self.inner, name, node_array(self.args, self.inner.rows, read.end))

    def _innermost(self, wanted: Callable[[Frame], bool]) -> Frame | None:
        return next((frame for frame in reversed(self.frames) if wanted(frame)), None)

    # --- names --------------------------------------------------------------------------

    def emit(self, statement: Statement) -> None:
        """Append to the innermost loop's body."""
        self.inner.body.append(statement)

    def unique(self, name: str) -> str:
        """A C++ name like this one, which nothing else has."""
        name = identifier(name)
        unique, i = name, 2
        while unique in self.taken:
            unique, i = f"{name}_v{i}", i + 1
        self.taken.add(unique)
        return unique

    def named(self, frame: Frame, name: str, text: str, kind: str = "const int64_t") -> str:
        """A name for an expression in a loop; asked for again, the same."""
        key = f"{kind} {text}"
        if key not in frame.known:
            frame.known[key] = self.unique(name)
            frame.body.append(Let(kind, frame.known[key], text))
        return frame.known[key]

    def pointer(self, frame: Frame, buffer: str, row: Row, kind: str, prefix: str) -> str:
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

    def prefetch(self, buffer: str, row: Row, distance: int) -> None:
        """Ask for a gathered row of the innermost loop some edges before it is read."""
        frame, kind = self.inner, self.launch.type_of(buffer)
        if not distance or row.frame is not frame or not frame.last or len(row.path) != 1:
            return
        if kind.space not in _GATHERED or kind.width < _PREFETCHED_WIDTH:
            return
        if not frame.ahead:
            ahead = f"minimum<int64_t>({frame.variable} + {distance}, {frame.last})"
            frame.ahead.append(Let("const int64_t", "ahead", ahead))
        place = f"{self.args.buffer(buffer)} + int64_t({row.path[0][1]}[ahead]) * {kind.width}"
        ask = Do(f"prefetch_row<{kind.width}>({place})")
        if ask not in frame.ahead:
            frame.ahead.append(ask)


def _row(frame: Frame, name: str, array: str) -> Row:
    return Row(frame, ((name, array),) if array else ())

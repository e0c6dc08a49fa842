"""Where a loop's row leads: to which node, pair, edge or type, and through which of the graph's
arrays. The same for every backend; only the text of an array differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Launch, Read, Rows
from hetune.variants.program.nodes import End, Space

VARIABLES = {
    Space.NODE: "n",
    Space.EDGE: "e",
    Space.DST_PAIR: "p",
    Space.SRC_PAIR: "p",
}
"""Names of a loop's rows in generated code. Of nested loops, no two walk pairs."""


class Arrays(Protocol):
    """Names the graph's arrays in generated code, and notes that they are asked for."""

    def index(self, group: str, name: str) -> str:
        """An array of a group's index."""
        ...

    def node_types(self) -> str:
        """The nodes' types."""
        ...


class Loop(Protocol):
    """A loop being lowered."""

    @property
    def rows(self) -> Rows:
        """What it walks."""
        ...


_Frame = TypeVar("_Frame", bound=Loop)


@dataclass(frozen=True, slots=True)
class Row(Generic[_Frame]):
    """The row of a buffer that a read means: arrays that lead there from a loop's variable."""

    frame: _Frame
    path: tuple[tuple[str, str], ...] = ()
    """(name of what is found, array to find it in), outermost array last."""
    shared: bool = False
    """Row 0, whatever the loop."""


def node_array(arrays: Arrays, rows: Rows, end: End) -> str:
    """The array of the nodes at one end of each row; "" where rows are nodes themselves.

    Raises:
        KernelError: the rows have no such end.
    """
    space, group = rows.space, rows.group
    match space, end:
        case Space.NODE, _:
            return ""
        case Space.EDGE, (End.SRC | End.DST):
            return arrays.index(group, end.value)
        case Space.SRC_PAIR, (End.SRC | End.NONE):
            return arrays.index(group, "src_pair_node")
        case Space.DST_PAIR, (End.DST | End.NONE):
            return arrays.index(group, "dst_pair_node")
    raise KernelError(f"rows of {space} have no node at the end {end.value!r}")


def etype_array(arrays: Arrays, rows: Rows) -> str:
    """The array of the edge types of edges or pairs."""
    name = "etype" if rows.space is Space.EDGE else f"{rows.space}_etype"
    return arrays.index(rows.group, name)


def type_array(arrays: Arrays, rows: Rows) -> str:
    """The array of the types of nodes, or of the edge types of edges or pairs."""
    return arrays.node_types() if rows.space is Space.NODE else etype_array(arrays, rows)


def own_array(arrays: Arrays, rows: Rows) -> str:
    """Where buffers of the rows' own space keep each row; "" if in the rows' own order.

    Edge buffers hold all edges: those of a group are somewhere among them.
    """
    if rows.space is Space.EDGE and rows.group:
        return arrays.index(rows.group, "position")
    return ""


def segment_array(arrays: Arrays, outer: Rows, inner: Rows) -> str:
    """The array of the first inner row of each outer row, for loops that nest.

    Raises:
        KernelError: they do not.
    """
    match outer.space, inner.space:
        case Space.NODE, Space.EDGE:
            return arrays.index(inner.group, "indptr")
        case Space.NODE, Space.DST_PAIR:
            return arrays.index(inner.group, "node_dst_pair_indptr")
        case Space.DST_PAIR, Space.EDGE if outer.group == inner.group:
            return arrays.index(inner.group, "dst_pair_indptr")
    raise KernelError(
        f"a loop over {inner.space}({inner.group!r}) cannot stand in one over "
        f"{outer.space}({outer.group!r}): nest node > dst_pair > edge of one group"
    )


class Nest(Generic[_Frame]):
    """The stack of loops around the statement being lowered, innermost last."""

    def __init__(self, launch: Launch, arrays: Arrays) -> None:
        self.launch = launch
        self.frames: list[_Frame] = []
        self._arrays = arrays

    @property
    def inner(self) -> _Frame:
        """The innermost loop."""
        return self.frames[-1]

    def locate(self, read: Read) -> Row[_Frame]:
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
                return Row(node.frame, (*node.path, ("ntype", self._arrays.node_types())))
            case Space.ETYPE:
                frame = self._innermost(lambda f: f.rows.space is Space.DST_PAIR) or inner
                if not frame.rows.space.is_edgewise:
                    raise KernelError(f"{read.buffer!r} is read by edge type from a loop of nodes")
                return Row(frame, (("etype", etype_array(self._arrays, frame.rows)),))
            case Space.EDGE:
                if inner.rows.space is not Space.EDGE:
                    raise KernelError(f"the edge buffer {read.buffer!r} is read outside of edges")
                return self.own(inner)
            case space:
                return self._pair(read.buffer, space, kind.group)

    def own(self, frame: _Frame) -> Row[_Frame]:
        """The current row of a loop, in buffers of its space."""
        return _row(frame, "position", own_array(self._arrays, frame.rows))

    def _pair(self, buffer: str, space: Space, group: str) -> Row[_Frame]:
        own = self._innermost(lambda f: f.rows == Rows(space, group))
        if own is not None:
            return Row(own)
        if self.inner.rows != Rows(Space.EDGE, group):
            raise KernelError(
                f"{buffer!r} has {space} rows of group {group!r}: read it from their own loop, or "
                "from edges of that group"
            )
        return Row(self.inner, (("pair", self._arrays.index(group, f"{space}_of_edge")),))

    def _node(self, read: Read) -> Row[_Frame]:
        if read.end is not End.SRC:
            node = self._innermost(lambda f: f.rows.space is Space.NODE)
            if node is not None:
                return Row(node)
            pair = self._innermost(lambda f: f.rows.space is Space.DST_PAIR)
            if pair is not None:
                return _row(pair, "node", node_array(self._arrays, pair.rows, End.DST))
        name = read.end.value if read.end is not End.NONE else "node"
        return _row(self.inner, name, node_array(self._arrays, self.inner.rows, read.end))

    def _innermost(self, wanted: Callable[[_Frame], bool]) -> _Frame | None:
        return next((frame for frame in reversed(self.frames) if wanted(frame)), None)


def _row(frame: _Frame, name: str, array: str) -> Row[_Frame]:
    return Row(frame, ((name, array),) if array else ())

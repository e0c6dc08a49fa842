"""What a compiled launch is called with: pointers and counts, named by slots.

``int hetune_launch(void* const* pointers, const int64_t* counts, int threads)``; a launch lists
only the slots that its code uses, in the order in which the caller fills the two arrays. It returns
1 if a number outgrew a float, else 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.backends.arguments import SlotTable
from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot, identifier
from hetune.variants.kernel.nodes import Rows
from hetune.variants.program.nodes import End, Space

KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while
    xor xor_eq
    Context bf16 EXPORT INLINE INLINE_LAMBDA NOINLINE NULL int32_t int64_t""".split()  # noqa: SIM905
)
"""Words that are no names in C++20, and what the prelude and generated structs are made of."""


@dataclass(frozen=True, slots=True)
class GroupsSlot:
    """A field of the `RowGroups` of a space: rows, group_ptr, group_etype or block_ptr.

    ``blocked``: grouped by (block of destination nodes, edge type). For nodes they are
    `node_type_groups` (``group_etype`` then holds the node type), of all nodes or ``only`` those
    with an edge at one end.
    """

    group: str
    space: Space
    blocked: bool
    field: str
    only: End = End.NONE


@dataclass(frozen=True, slots=True)
class ChunksSlot:
    """A field of the `TypeChunks` of a space's rows, or of their groups.

    ``by_type``: types have sums of their own; ``chunks`` is what `most_chunks` gives.
    """

    rows: Rows
    by_type: bool
    chunks: int
    field: str


@dataclass(frozen=True, slots=True)
class TermsSlot:
    """Memory for the terms of sums into types, float32."""


@dataclass(frozen=True, slots=True)
class NodeBlocksSlot:
    """First node of each block, and the end: int32 [B + 1]."""


@dataclass(frozen=True, slots=True)
class BlockOrderSlot:
    """Blocks in the order in which threads take them: int32 [B]."""


@dataclass(frozen=True, slots=True)
class ScratchSlot:
    """Scratch memory, float32: a share for each thread."""


_OwnSlot = ScratchSlot | GroupsSlot | NodeBlocksSlot | BlockOrderSlot | ChunksSlot | TermsSlot
Slot = BufferSlot | IndexSlot | NodeTypeSlot | _OwnSlot


@dataclass(frozen=True, slots=True)
class CountSlot:
    """Rows of a domain, or another count by its name.

    ``"blocks"`` are those of nodes; ``"hubs"`` is how many of them begin before all others.
    ``"row_blocks"`` is the number of blocks of the launch's unblocked `RowGroups`; there is but
    one; ``"chunk_blocks"`` that of its `TypeChunks`. ``"scratch_stride"`` is the size of a thread's
    share of scratch memory, in elements; with ``scratch`` a count is where that scratch begins in
    the share.
    """

    of: Rows | str
    scratch: str = ""


class Arguments(SlotTable[_OwnSlot, CountSlot]):
    """The slots of a launch in C++: fields of ``c``."""

    _prefix = "c."

    def groups(self, rows: Rows, blocked: bool, field: str, only: End = End.NONE) -> str:
        """Pointer to a field of row groups."""
        kind = "blocked_" if blocked else ""
        kind += "" if only is End.NONE else f"{only}_"
        name = f"{rows.group or 'all'}_{rows.space}_{kind}{field}"
        return self._pointer(GroupsSlot(rows.group, rows.space, blocked, field, only), name)

    def chunks(self, slot: ChunksSlot) -> str:
        """Pointer to a field of the chunks of rows."""
        return self._pointer(slot, f"chunk_{slot.field}")

    def terms(self) -> str:
        """Pointer to the terms of sums into types."""
        return self._pointer(TermsSlot(), "terms")

    def scratch(self) -> str:
        """Pointer to all threads' scratch memory."""
        return self._pointer(ScratchSlot(), "scratch")

    def scratch_start(self, scratch: str) -> str:
        """Where a scratch begins in a thread's share."""
        return self._count(CountSlot("scratch_start", scratch), f"{scratch}_start")

    def node_blocks(self) -> str:
        """Pointer to the blocks of nodes."""
        return self._pointer(NodeBlocksSlot(), "node_blocks")

    def block_order(self) -> str:
        """Pointer to the blocks in the order in which threads take them."""
        return self._pointer(BlockOrderSlot(), "block_order")

    def count(self, of: Rows | str) -> str:
        """A count."""
        name = of if isinstance(of, str) else f"{of.group or 'all'}_{of.space}_rows"
        return self._count(CountSlot(of), name)

    def _count_name(self, name: str) -> str:
        return self._pointer_name(name)

    def _pointer_name(self, name: str) -> str:
        taken = {*self._pointers.values(), *self._counts.values(), *KEYWORDS}
        name = identifier(name)
        if name[:1].isdigit():
            name = f"b{name}"
        while name in taken:
            name += "_"
        return name

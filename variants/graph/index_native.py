"""What graph indexes are made of, in C++ (`index.cpp`), called through ctypes.

Runs with `torch.get_num_threads()` threads; the results do not depend on their number.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, cast

import numpy as np
import torch

from hetune.variants.registry import load_packaged

_RECORD_INTS = 4  # what `struct Edge` and `struct Keyed` take, in int32
_KEYED_INTS = 2
_PART_NUMBERS = 7  # of what `hetune_index_own_parts` is told of a part
_LARGE_BYTES = 4 << 20  # two large pages


@cache
def library() -> ctypes.CDLL:
    """The compiled primitives.

    Raises:
        CompileError: There is no compiler, or it refused the source.
    """
    what = "indexes of a typed graph"
    return load_packaged("hetune.variants.graph", "index.cpp", "graph-index", what)


def _call(name: str, *args: torch.Tensor | int) -> int:
    result = _called(name, *args)
    if result < 0:
        raise MemoryError(f"out of memory while indexing a graph ({name})")
    return result


def _called(name: str, *args: torch.Tensor | int) -> int:
    # Vectors keep their tensor alive for the time of the call.
    numbers = [arg.data_ptr() if isinstance(arg, torch.Tensor) else arg for arg in args]
    return int(_function(name, len(args))(*numbers))


@cache
def _function(name: str, count: int) -> Callable[..., int]:
    function = getattr(library(), f"hetune_index_{name}")
    function.argtypes, function.restype = (ctypes.c_int64,) * count, ctypes.c_int64
    return cast(Callable[..., int], function)


def is_loaded() -> bool:
    """Whether some routine has been called: whoever can do without does not compile them."""
    return _function.cache_info().currsize > 0


def _new(count: int) -> torch.Tensor:
    new = torch.empty(count, dtype=torch.int32, device="cpu")
    if new.nbytes >= _LARGE_BYTES:
        _call("prefer_large_pages", new, new.nbytes)
    return new


def own_ids(ids: torch.Tensor, limit: int) -> torch.Tensor | None:
    """Integers [n] as int32; None unless all are in [0, limit)."""
    out = _new(ids.numel())
    given = ids, ids.element_size(), ids.stride(0), ids.numel(), limit
    return out if _call("own_ids", *given, out) == ids.numel() else None


def own_parts(parts: Sequence[tuple[torch.Tensor, int, int]]) -> torch.Tensor | None:
    """Integers as int32, one part after the other; None unless all are in range.

    Args:
        parts: Each with its limit, and what to add to its ids.
    """
    sizes = [ids.numel() for ids, _, _ in parts]
    found = _new(sum(sizes))
    outs = torch.split(found, sizes) if parts else ()
    copies = [(limit, shift, out) for (_, limit, shift), out in zip(parts, outs, strict=True)]
    return found if IdCopies(copies).take([ids for ids, _, _ in parts]) else None


class IdCopies:
    """Copies integers to places that stay, again and again.

    Args:
        parts: The limit of each, what to add to its ids, and where to write them: int32 [n].
    """

    def __init__(self, parts: Sequence[tuple[int, int, torch.Tensor]]) -> None:
        told = [(0, 0, 0, out.numel(), *each, out.data_ptr()) for *each, out in parts]
        numbers = [number for part in told for number in part]
        self._count, self._numbers = len(parts), (ctypes.c_int64 * len(numbers))(*numbers)
        self._address = ctypes.addressof(self._numbers)

    def take(self, given: Sequence[torch.Tensor]) -> bool:
        """Whether all ids are in range; only then they are where they should be.

        Args:
            given: Integers [n] on the CPU, for each part.
        """
        numbers, at = self._numbers, 0
        for ids in given:
            numbers[at] = ids.data_ptr()
            numbers[at + 1], numbers[at + 2] = ids.element_size(), ids.stride(0)
            at += _PART_NUMBERS
        return _function("own_parts", 2)(self._address, self._count) == self._count


def order_edges(
    src: torch.Tensor, dst: torch.Tensor, etype: torch.Tensor, num_nodes: int, num_etypes: int
) -> tuple[torch.Tensor, ...]:
    """Sort edges by (dst, etype, src, position) and number the distinct (etype, src) pairs.

    Returns:
        `(edge_id, src, dst, etype, src_pair_of_edge, src_pair_node, src_pair_etype)`.
    """
    edges = src.numel()
    scratch = _new(edges * _RECORD_INTS), _new(edges * _RECORD_INTS)
    out = tuple(_new(edges) for _ in range(7))
    counts = edges, num_nodes, num_etypes
    threads = torch.get_num_threads()
    pairs = _call("order", src, dst, etype, *counts, *scratch, *out, threads)
    pair_columns = out[5:] if pairs == edges else tuple(a[:pairs].clone() for a in out[5:])
    return out[:5] + pair_columns


def pairs(
    node: torch.Tensor, etype: torch.Tensor, num_nodes: int, num_etypes: int
) -> tuple[torch.Tensor, ...]:
    """Number the distinct (etype, node) of edges in any order.

    Returns:
        `(pair_of_edge, pair_node, pair_etype)`, pairs by etype, then node.
    """
    edges = node.numel()
    scratch = _new(edges * _RECORD_INTS), _new(edges * _RECORD_INTS)
    out = tuple(_new(edges) for _ in range(3))
    given = node, etype, edges, num_nodes, num_etypes
    count = _call("pairs", *given, *scratch, *out, torch.get_num_threads())
    return out[0], out[1][:count], out[2][:count]


def small(*given: torch.Tensor | int) -> int:
    """Makes all indexes of a small graph, as `SmallIndex` asks for them.

    Returns:
        How many edges lie where they were given before one does not.
    """
    return _call("small", *given)


def rebind(*given: int) -> int:
    """As `small`, of ids that are checked on the way, as `ReusedIndex` asks for it.

    Returns:
        As `small`; a negative number where an id is out of range.
    """
    return int(_function("rebind", len(given))(*given))


def scaled_edges(
    edges: torch.Tensor, num_nodes: int, loops: bool, scale: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Sources and destinations in int32, and numbers in float32, as `EdgeRecipe` says them.

    Args:
        edges: int64 [2, E].
        num_nodes: N.
        loops: As of `EdgeRecipe`.
        scale: Likewise.

    Returns:
        None where an id is out of range.
    """
    most = edges.shape[1] + num_nodes * loops
    memory = torch.empty(2 * most + max(most, num_nodes), dtype=torch.int32, device="cpu")
    counts = edges.shape[1], num_nodes, loops, _SCALES.index(scale)
    count = _called("scaled_edges", edges, *edges.stride(), *counts, memory)
    if count < 0:
        return None
    src, dst = memory[:count], memory[most : most + count]
    numbers = memory[2 * most :].view(torch.float32)
    return src, dst, numbers[: num_nodes if scale == "mean" else count]


_SCALES = ("", "symmetric", "mean")


def sort_by_key(keys: torch.Tensor, buckets: int) -> torch.Tensor:
    """Stable argsort of keys in [0, buckets)."""
    count = keys.numel()
    scratch = _new(count * _KEYED_INTS), _new(count * _KEYED_INTS)
    order = _new(count)
    threads = torch.get_num_threads()
    _call("sort", keys, count, buckets, *scratch, order, threads)
    return order


def pointers(keys: torch.Tensor, buckets: int) -> torch.Tensor:
    """How many of the sorted keys are smaller than k, for each k in [0, buckets]."""
    out = _new(buckets + 1)
    _call("pointers", keys, keys.numel(), buckets, out, torch.get_num_threads())
    return out


def number_pairs(dst: torch.Tensor, etype: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Number the runs of equal (dst, etype) in canonical order.

    Returns:
        `(pair_of_edge, indptr, node, etype)`.
    """
    edges, threads = dst.numel(), torch.get_num_threads()
    pair_of_edge = _new(edges)
    pairs = _call("number_pairs", dst, etype, edges, pair_of_edge, threads)
    out = pair_of_edge, _new(pairs + 1), _new(pairs), _new(pairs)
    _call("fill_pairs", dst, etype, pair_of_edge, edges, pairs, *out[1:], threads)
    return out


def select(etype: torch.Tensor, wanted: torch.Tensor, count: int) -> torch.Tensor:
    """The `count` positions whose etype is wanted (bool [R])."""
    out = _new(count)
    found = _call("select", etype, etype.numel(), wanted, out, torch.get_num_threads())
    assert found == count
    return out


def group_rows(
    etype: torch.Tensor, row_ptr: torch.Tensor, num_etypes: int
) -> tuple[torch.Tensor, ...]:
    """Sort the rows of each block `[row_ptr[b], row_ptr[b + 1])` by etype, stably.

    Returns:
        `(rows, group_ptr, group_etype, block_ptr)`, a group being a run of one etype.
    """
    blocks, threads = row_ptr.numel() - 1, torch.get_num_threads()
    rows, block_ptr = _new(etype.numel()), _new(blocks + 1)
    groups = _call("group_rows", etype, row_ptr, blocks, num_etypes, rows, block_ptr, threads)
    group_ptr, group_etype = _new(groups + 1), _new(groups)
    out = group_ptr, group_etype
    _call("fill_groups", etype, rows, row_ptr, block_ptr, blocks, *out, threads)
    return rows, group_ptr, group_etype, block_ptr


class NodeBlocks(NamedTuple):
    """Ranges of consecutive nodes, which are the units of parallel work.

    Attributes:
        cuts: First node of each block, and the end: int32 [B + 1].
        order: The blocks in the order to begin them in, int32 [B]: those above the limit of work
            first, most work first.
        hubs: How many are above the limit.
        most: The most nodes, edges and destination pairs that a block has.
    """

    cuts: torch.Tensor
    order: torch.Tensor
    hubs: int
    most: tuple[int, int, int]


def node_blocks(
    indptr: torch.Tensor, pair_indptr: torch.Tensor, block_nodes: int, work_limit: int
) -> NodeBlocks:
    """Cut nodes into ranges of at most `block_nodes` nodes and `work_limit` units of work."""
    nodes = indptr.numel() - 1
    work = 4 * nodes + int(indptr.numpy()[-1]) + 2 * int(pair_indptr.numpy()[-1])
    # Of two blocks one after the other, one is full of nodes or both have more than the limit.
    room = min(nodes, nodes // max(block_nodes, 1) + 2 * work // max(work_limit, 1) + 1)
    out, found = _new(2 * room + 1), np.zeros(4, np.int64)
    cuts, order = out[: room + 1], out[room + 1 :]
    given = indptr, pair_indptr, nodes, block_nodes, work_limit
    blocks = _call("node_blocks", *given, cuts, order, found.ctypes.data)
    hubs, *most = found.tolist()
    return NodeBlocks(cuts[: blocks + 1], order[:blocks], hubs, (most[0], most[1], most[2]))


def group_edges(*given: torch.Tensor | int) -> None:
    """Groups edges by type, as `EdgesByType` asks for it."""
    _call("group_edges", *given)


def nodes_of(ids: torch.Tensor, count: int, having: bool) -> torch.Tensor:
    """The nodes in [0, count) that are among ids, or those that are not, ascending."""
    out = _new(count)
    return out[: _call("nodes", ids, ids.numel(), count, having, out)].clone()


def cut_by_type(counts: np.ndarray, most: int, step: int) -> tuple[torch.Tensor, ...]:
    """Cut rows that are sorted by type into groups of at most `most`, and bundle those.

    A type of more is cut evenly, after multiples of `step`; blocks start where another `most` rows
    have passed.

    Args:
        counts: Rows of each type, int64 [R].
        most: If it is no multiple of `step`, a group may have up to the next one.
        step: See above.

    Returns:
        `(group_ptr, group_etype, block_ptr)`.
    """
    groups = int((-(-counts // most)).sum())
    group_ptr, group_etype, block_ptr = _new(groups + 1), _new(groups), _new(groups + 1)
    out = group_ptr, group_etype, block_ptr
    rows = torch.from_numpy(counts)
    blocks = _call("cut_by_type", rows, counts.size, most, step, *out)
    return group_ptr, group_etype, block_ptr[: blocks + 1]

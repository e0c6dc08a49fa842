"""Rows in chunks of one type: what sums into the rows of types run over.

A chunk's sum is a term of its type's, and the terms are added up in order: the result depends on no
number of threads. Chunks are large, so that there are few terms to keep.
"""

from typing import NamedTuple

import numpy as np
import torch

from hetune.variants.graph.cuts import row_groups
from hetune.variants.graph.edge_batch import BatchIndex
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.row_groups import (
    EVENLY,
    GROUP_ROWS,
    RowGroups,
    as_int32,
    cut_by_type,
    most_group_rows,
)
from hetune.variants.graph.state import GraphSlot

_MOST_CHUNKS, _FEWEST_CHUNKS = 128, 16
_TERM_ELEMENTS = 1 << 22
"""Of the terms that are kept at once, about: 16 MiB."""

_NODE_CHUNKS = GraphSlot[tuple[bool, int], "TypeChunks"]()


class TypeChunks(NamedTuple):
    """Chunks of rows.

    Attributes:
        groups: The chunks with their types, in blocks that are the units of parallel work.
        terms: Where each chunk's sum is among those of types with several, int32 [G]; -1 where a
            chunk is all that its type has.
        type_ptr: First chunk of each type, and the end: int32 [types + 1].
    """

    groups: RowGroups
    terms: torch.Tensor
    type_ptr: torch.Tensor


def most_chunks(width: int) -> int:
    """About how many chunks rows are cut into whose sums are so many elements wide."""
    return max(_FEWEST_CHUNKS, min(_MOST_CHUNKS, _TERM_ELEMENTS // width))


def most_pieces(rows: int) -> int:
    """The most chunks that no more rows of one type than these are cut into."""
    return max(EVENLY, -(-rows // GROUP_ROWS))


def num_terms(counts: np.ndarray, chunks: int) -> int:
    """How many sums are terms of another.

    Args:
        counts: Rows of each type, int64.
        chunks: What `most_chunks` gives.
    """
    pieces = _pieces(counts, chunks)
    return int(pieces[pieces > 1].sum())


def num_chunks(counts: np.ndarray, chunks: int) -> int:
    """How many chunks there are. See `num_terms`."""
    return int(_pieces(counts, chunks).sum())


def most_terms(rows: int, chunks: int) -> int:
    """The most terms that rows may have, whatever their types are. See `num_terms`."""
    chunk = _chunk_rows(rows, chunks)
    return 2 * rows // chunk if rows > chunk else 0


def edgewise_chunks(index: GraphIndex, space: str, by_type: bool, chunks: int) -> TypeChunks:
    """The chunks of edges or pairs.

    Args:
        index: The index.
        space: "edge", "dst_pair" or "src_pair".
        by_type: Whether edge types have sums of their own; otherwise all rows are of one type.
        chunks: What `most_chunks` gives.

    Returns:
        Chunks; those of a `BatchIndex`'s edges by type follow these while they are replaced.
    """
    if by_type and space == "edge" and isinstance(index, BatchIndex):
        made = index.by_type(_chunk_rows(index.num_edges, chunks))
        return TypeChunks(made.groups, made.terms, made.type_ptr)

    def build() -> TypeChunks:
        if not by_type:
            return _cut_whole(getattr(index, f"num_{space}s"), chunks)
        grouped = row_groups(index, space, None)
        sizes = np.diff(grouped.group_ptr.numpy().astype(np.int64))
        counts = np.bincount(grouped.group_etype.numpy(), sizes, max(index.num_etypes, 1))
        return _cut(grouped.rows, counts.astype(np.int64)[: index.num_etypes], chunks)

    return index.step(f"type_chunks({space}, {by_type}, {chunks})", build)


def node_chunks(graph: HeteroGraph, by_type: bool, chunks: int) -> TypeChunks:
    """The chunks of nodes, as `edgewise_chunks`."""

    def build() -> TypeChunks:
        nodes = graph.num_targets
        if not by_type:
            return _cut_whole(nodes, chunks)
        rows = torch.arange(nodes, dtype=torch.int32, device="cpu")
        return _cut(rows, np.diff(np.minimum(graph.node_offsets, nodes)), chunks)

    return graph.state.of(_NODE_CHUNKS, (by_type, chunks), build)


def _cut_whole(rows: int, chunks: int) -> TypeChunks:
    ids = torch.arange(rows, dtype=torch.int32, device="cpu")
    return _cut(ids, np.array([rows]), chunks)


def _cut(rows: torch.Tensor, counts: np.ndarray, chunks: int) -> TypeChunks:
    groups = cut_by_type(rows, counts, _chunk_rows(rows.numel(), chunks))
    of_type = np.bincount(groups.group_etype.numpy(), minlength=counts.size)
    is_term = (of_type > 1)[groups.group_etype.numpy()]
    terms = np.where(is_term, np.cumsum(is_term) - 1, -1)
    return TypeChunks(groups, as_int32(terms), as_int32(np.append(0, np.cumsum(of_type))))


def _pieces(counts: np.ndarray, chunks: int) -> np.ndarray:
    """The chunks of each type."""
    pieces: np.ndarray = -(-counts // _chunk_rows(int(counts.sum()), chunks))
    return pieces


def _chunk_rows(rows: int, chunks: int) -> int:
    return max(most_group_rows(rows), -(-rows // chunks))

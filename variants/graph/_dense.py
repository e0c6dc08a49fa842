"""Dense rows: one for every node of the source type of every relation that has edges."""

from typing import NamedTuple

import numpy as np
import torch

from hetune.variants.errors import GraphError

_LARGEST_ID = 2**31 - 1


class DenseSpans(NamedTuple):
    """Per relation: its first dense row (int64 [R + 1]) and the first node of its source type."""

    row_ptr: np.ndarray
    first_node: np.ndarray

    def check(self) -> None:
        """Raise `GraphError` where there are more rows than int32 can number."""
        if self.row_ptr[-1] > _LARGEST_ID:
            raise GraphError(
                f"{self.row_ptr[-1]} dense (node, etype) rows do not fit 32-bit ids: use a "
                "variant with source pairs"
            )

    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Node and type of each dense row, int32 [PSD].

        Raises:
            GraphError: There are too many.
        """
        self.check()
        ptr, first = self
        node, etype = (np.empty(int(ptr[-1]), np.int32) for _ in range(2))
        for r in np.flatnonzero(np.diff(ptr)):
            span = slice(ptr[r], ptr[r + 1])
            node[span] = np.arange(first[r], first[r] + ptr[r + 1] - ptr[r])
            etype[span] = r
        return torch.from_numpy(node), torch.from_numpy(etype)


def dense_spans(
    pair_etype_ptr: np.ndarray, pair_node: np.ndarray, node_offsets: np.ndarray
) -> DenseSpans:
    """Found from the edges: source pairs are sorted by node, so the ends tell the types.

    A relation whose sources are of several types spans all of them, so that this also works
    where no canonical edge types exist.

    Args:
        pair_etype_ptr: First source pair of each relation, and their number, [R + 1].
        pair_node: Node of each source pair.
        node_offsets: First node of each node type, and N, [T + 1].
    """
    ptr = pair_etype_ptr
    num_etypes = ptr.size - 1
    rows, first = np.zeros(num_etypes + 1, np.int64), np.zeros(num_etypes, int)
    used = np.flatnonzero(np.diff(ptr))
    low = np.searchsorted(node_offsets, pair_node[ptr[used]], side="right") - 1
    high = np.searchsorted(node_offsets, pair_node[ptr[used + 1] - 1], side="right")
    first[used] = node_offsets[low]
    rows[used + 1] = node_offsets[high] - node_offsets[low]
    return DenseSpans(np.cumsum(rows), first)

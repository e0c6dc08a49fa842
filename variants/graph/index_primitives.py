"""What indexes are made of, and who makes it: C++ where there is a compiler, else NumPy."""

import logging
from functools import cache
from typing import Protocol

import torch

from hetune.variants.errors import CompileError
from hetune.variants.graph import index_numpy

_log = logging.getLogger(__name__)


class Primitives(Protocol):
    """What `index_native` and `index_numpy` both offer; they have the details."""

    def order_edges(
        self,
        src: torch.Tensor,
        dst: torch.Tensor,
        etype: torch.Tensor,
        num_nodes: int,
        num_etypes: int,
    ) -> tuple[torch.Tensor, ...]:
        """Canonical order of the edges, and the source pairs."""
        ...

    def sort_by_key(
        self, keys: torch.Tensor, buckets: int, descending: bool = False
    ) -> torch.Tensor:
        """Stable argsort."""
        ...

    def pointers(self, keys: torch.Tensor, buckets: int) -> torch.Tensor:
        """Boundaries of the runs of sorted keys."""
        ...

    def number_pairs(self, dst: torch.Tensor, etype: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Destination pairs of edges in canonical order."""
        ...

    def histogram(self, keys: torch.Tensor, buckets: int) -> torch.Tensor:
        """Occurrences of each key."""
        ...

    def select(self, etype: torch.Tensor, wanted: torch.Tensor, count: int) -> torch.Tensor:
        """Positions of the wanted types."""
        ...

    def group_rows(
        self, etype: torch.Tensor, row_ptr: torch.Tensor, num_etypes: int
    ) -> tuple[torch.Tensor, ...]:
        """Rows by type inside blocks."""
        ...

    def node_blocks(
        self, indptr: torch.Tensor, pair_indptr: torch.Tensor, block_nodes: int, work_limit: int
    ) -> torch.Tensor:
        """Boundaries of blocks of nodes."""
        ...

    def edit_column(
        self,
        values: torch.Tensor,
        removed: torch.Tensor,
        at: torch.Tensor,
        added: torch.Tensor,
        numbers: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """A column without some values, and with others."""
        ...

    def renumber(self, count: int, removed: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """New numbers of positions."""
        ...

    def bound(
        self,
        major: torch.Tensor | None,
        minor: torch.Tensor,
        keys: tuple[torch.Tensor, torch.Tensor],
        span: tuple[torch.Tensor, torch.Tensor],
        above: bool,
    ) -> torch.Tensor:
        """Positions of keys in sorted spans."""
        ...


@cache
def primitives() -> Primitives:
    """The native primitives, or NumPy's where they cannot be compiled: that is logged once."""
    try:
        from hetune.variants.graph import index_native

        index_native.library()
    except CompileError as error:
        _log.warning("graphs are indexed by NumPy, which is many times slower: %s", error)
        return index_numpy
    return index_native

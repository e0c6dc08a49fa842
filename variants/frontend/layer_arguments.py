"""What layers of `hetune.nn` are made with."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Metadata
from hetune.variants.graph import CanonicalEtype

_MAY_MISS = ("num_bases", "num_blocks")


def check_sizes(least: int = 1, /, **sizes: int | None) -> None:
    """Checks widths and counts by their names; None stands for none of bases and blocks.

    Raises:
        InputError: One is no integer, or less than the least.
    """
    for name, size in sizes.items():
        if not (size is None and name in _MAY_MISS) and not _is_integer(size, least):
            raise InputError(f"{name} is {size!r}: give an integer of at least {least}")


def _is_integer(size: object, least: int) -> bool:
    try:
        return isinstance(size, SupportsIndex) and index(size) >= least
    except TypeError:  # a tensor of several numbers
        return False


def checked_metadata(metadata: Metadata) -> tuple[list[str], list[CanonicalEtype]]:
    """Node types and canonical edge types, as lists.

    Raises:
        InputError: They are none, or an edge type names a node type that is not there.
    """
    try:
        ntypes, etypes = metadata
        found = list(ntypes), [(source, relation, target) for source, relation, target in etypes]
    except (TypeError, ValueError):
        raise InputError(
            f"metadata is {metadata!r}: give names of node types and (source type, relation, "
            "destination type) of edge types, as HeteroGraph.metadata() does"
        ) from None
    for source, relation, target in found[1]:
        for name in (source, target):
            if name not in found[0]:
                raise InputError(
                    f"metadata has the edge type {(source, relation, target)}, but no node type "
                    f"{name!r}: its node types are {', '.join(map(str, found[0]))}"
                )
    return found

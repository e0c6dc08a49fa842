"""Names of tensors: what they are of, and the types of nodes and edges that they name."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

from hetune.variants.errors import MalformedError
from hetune.variants.graph.hetero import CanonicalEtype

OUT = "out"
FLAT = ("x", "edge_index", "edge_type", "nodes")
_TYPES = {"x": 1, "num_nodes": 1, "edge_index": 3, "nodes": 1}


def name_of(what: str, *types: str) -> str:
    """A name: ``x/paper``, ``edge_index/author/writes/paper``; each type is percent-encoded."""
    return "/".join((what, *(quote(part, safe="") for part in types)))


def parse_name(name: str) -> tuple[str, tuple[str, ...]]:
    """What a tensor is of, and the types in its name; none if the name is flat.

    Raises:
        MalformedError: No input has such a name.
    """
    what, *types = name.split("/")
    if (not types and what in FLAT) or (len(types) == _TYPES.get(what) and all(types)):
        try:
            return what, tuple(unquote(part, errors="strict") for part in types)
        except UnicodeDecodeError:
            pass
    raise MalformedError(
        f"there is no input {name[:128]!r}: give x, edge_index, edge_type and nodes; or x/<node "
        "type>, num_nodes/<node type>, edge_index/<source>/<relation>/<target> and nodes/<node "
        "type>, each percent-encoded"
    )


def output_type(name: str) -> str:
    """The node type in an output's name.

    Raises:
        MalformedError: No output has such a name where features have types.
    """
    what, _, ntype = name.partition("/")
    found = unquote(ntype)
    if what != OUT or not ntype or name_of(OUT, found) != name:
        raise MalformedError(
            f"there is no output {name[:128]!r}: ask for out/<node type>, percent-encoded"
        )
    return found


def triple(types: Iterable[str]) -> CanonicalEtype:
    """The edge type in a name."""
    source, relation, target = types
    return source, relation, target

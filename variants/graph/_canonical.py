"""Canonical edge types: (source type, relation, destination type)."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from hetune.variants.errors import GraphError

CanonicalEtype: TypeAlias = tuple[str, str, str]
# (edge type, source node type, destination node type), as they occur in a graph.
TypePair: TypeAlias = tuple[int, int, int]


def as_triples(given: Iterable[Sequence[str]]) -> tuple[CanonicalEtype, ...]:
    """Triples of strings, whatever sequences were given."""
    triples: list[CanonicalEtype] = []
    for r, item in enumerate(given):
        if isinstance(item, str) or len(item) != 3:
            raise GraphError(
                f"canonical_etypes[{r}] is {item!r}: give (source type, relation, destination type)"
            )
        triples.append((str(item[0]), str(item[1]), str(item[2])))
    return tuple(triples)


def name_triples(
    entries: Sequence[tuple[int, tuple[int, int] | None]],
    etype_names: Sequence[str],
    ntype_names: Sequence[str],
) -> tuple[CanonicalEtype, ...]:
    """Distinct triples for edge types and the node types that they join, None where unknown."""
    triples = tuple(_name_triple(etype_names[r], ends, ntype_names) for r, ends in entries)
    if len(set(triples)) < len(triples):  # "a|rel|b" beside "rel": keep the whole names
        named = zip(triples, entries, strict=True)
        return tuple((s, etype_names[r], d) for (s, _, d), (r, _) in named)
    return triples


def _name_triple(
    name: str, ends: tuple[int, int] | None, ntype_names: Sequence[str]
) -> CanonicalEtype:
    parts = name.split("|")
    if ends is None:
        if len(parts) == 3 and parts[0] in ntype_names and parts[2] in ntype_names:
            return parts[0], parts[1], parts[2]
        first = ntype_names[0] if ntype_names else "node"
        return first, name, first
    source, target = ntype_names[ends[0]], ntype_names[ends[1]]
    prefix, suffix = f"{source}|", f"|{target}"
    if name.startswith(prefix) and name.endswith(suffix) and len(parts) >= 3:
        return source, name[len(prefix) : -len(suffix)], target
    return source, name, target


def explain_split(
    pairs: Sequence[TypePair], etype_names: Sequence[str], ntype_names: Sequence[str]
) -> str:
    """Which edge type joins several pairs of node types, for an error message."""
    r, one, other = next((b[0], a, b) for a, b in pairwise(pairs) if a[0] == b[0])
    return (
        f"edge type {r} ({etype_names[r]!r}) joins several pairs of node types, among them "
        f"{ntype_names[one[1]]} -> {ntype_names[one[2]]} and "
        f"{ntype_names[other[1]]} -> {ntype_names[other[2]]}: call canonicalize() to split it"
    )


def check_declared(
    declared: Sequence[CanonicalEtype],
    pairs: Sequence[TypePair],
    num_etypes: int,
    ntype_names: Sequence[str],
) -> None:
    """Check triples that a caller gave against the node types that edges join.

    Raises:
        GraphError: Names the triple and how to mend it.
    """
    if len(declared) != num_etypes:
        raise GraphError(
            f"canonical_etypes has {len(declared)} triples but there are {num_etypes} edge types: "
            "give one for each"
        )
    if len(set(declared)) != num_etypes:
        raise GraphError("canonical_etypes holds a triple twice: triples must be distinct")
    for r, (source, _, target) in enumerate(declared):
        for name in (source, target):
            if name not in ntype_names:
                raise GraphError(
                    f"canonical_etypes[{r}] names the node type {name!r}, which is not one of "
                    f"{list(ntype_names)}: add it, or correct the triple"
                )
    for r, s, d in pairs:
        source, target = ntype_names[s], ntype_names[d]
        if (declared[r][0], declared[r][2]) != (source, target):
            raise GraphError(
                f"canonical_etypes[{r}] is {declared[r]}, but an edge of type {r} goes from "
                f"{source!r} to {target!r}: correct the triple, or leave canonical_etypes out "
                "and call canonicalize()"
            )


def with_inverses(triples: Sequence[CanonicalEtype]) -> list[CanonicalEtype]:
    """The triples, then the inverse of each."""
    known = set(triples)
    inverses: list[CanonicalEtype] = []
    for source, relation, target in triples:
        inverse = (target, f"inv_{relation}", source)
        while inverse in known:
            inverse = (target, f"inv_{inverse[1]}", source)
        known.add(inverse)
        inverses.append(inverse)
    return [*triples, *inverses]


def fresh(name: str, taken: set[str]) -> str:
    """A name that is not taken yet; it is taken afterwards."""
    while name in taken:
        name = f"{name.split('_', 1)[0]}_{name}"
    taken.add(name)
    return name

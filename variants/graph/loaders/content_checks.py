"""Where the content of a file contradicts what its columns are taken for."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetune.variants.graph._arrays import MAX_COUNT
from hetune.variants.graph.loaders.columns import looks_like_names
from hetune.variants.graph.loaders.id_columns import all_true, any_true, is_integer, is_number

_FEW_ROWS = 3
_SOME_EDGES, _MANY_EDGES, _ENOUGH_EDGES = 8, 50, 200
_LOOKED_AT = 100_000


def is_header(row: list[str], below: Mapping[str, pa.ChunkedArray]) -> bool:
    """Whether a row of words stands above numbers, or has the usual names of columns.

    Args:
        row: The first one.
        below: The columns of those that follow, by role.
    """
    if looks_like_names(row):
        return True
    if any(are_numbers([value]) for value in row):
        return False
    numeric = [role for role in ("src", "etype", "dst") if role in below and _counts(below[role])]
    return len(numeric) >= (2 if len(below["src"]) < _FEW_ROWS else 1)


def is_edge(
    row: list[str], below: Mapping[str, pa.ChunkedArray], places: Mapping[str, int]
) -> bool:
    """Whether what is taken for a header has numbers above numbers, or a node of a line below."""
    numeric = [role for role in ("src", "dst", "etype") if role in places and _counts(below[role])]
    if numeric:
        return are_numbers([row[places[role]] for role in numeric])
    ends = pa.array([row[places["src"]], row[places["dst"]]])
    return any(pc.any(pc.is_in(below[role], ends)).as_py() for role in ("src", "dst"))


def is_count(row: list[str], below: Mapping[str, pa.ChunkedArray]) -> bool:
    """Whether a first row such as "34 78" says how many nodes and edges there are.

    Args:
        row: The first one.
        below: The columns of those that follow, by role, in the order of the file.
    """
    ends = list(below.values())[:2]
    rows = len(ends[0])
    if rows < _FEW_ROWS or not all(value.isdecimal() and len(value) < 19 for value in row):
        return False
    *nodes, edges = map(int, row)
    if edges != rows or not all(all_true(is_integer(end)) for end in ends):
        return False
    largest = int(min(max(_bounds(end)[1] for end in ends), MAX_COUNT))
    # Ids from 0, or from 1: then a small file may be a path as well.
    return largest + 1 in nodes or (rows >= _SOME_EDGES and largest in nodes)


Objection: TypeAlias = tuple[str, tuple[str, ...] | str]
"""A reason, and the roles that columns may have, or what else helps."""


def objection(
    columns: Mapping[str, pa.ChunkedArray], *, are_apart: bool = False
) -> Objection | None:
    """Why two or three columns are not `source destination` or `head relation tail`.

    Args:
        columns: src, dst, and for three columns etype, as texts; the first in the file is src, the
            last dst.
        are_apart: Whether sources and destinations are said to be of two kinds.

    Returns:
        Reason and remedy; None where nothing contradicts.
    """
    if (found := _punctuated(columns)) is not None:
        return found
    kinds = {role: _kind(column) for role, column in columns.items()}
    src, dst = kinds["src"], kinds["dst"]
    if "etype" not in columns:
        is_mixed = {src, dst} == {"integers", "words"} and len(columns["src"]) >= _FEW_ROWS
        if is_mixed and not are_apart:
            return "one column holds numbers, the other words", ("src", "dst")
        return _not_joined(columns)
    are_alike = src == dst or "mixed" in (src, dst) or (src, dst) == ("numbers", "integers")
    if not are_alike:
        reason = f"the first column holds {src}, and the last one {dst}"
        if kinds["etype"] == src or dst == "numbers":
            return reason, _roles_by_last(columns["dst"])
        is_first = kinds["etype"] == dst == "integers"
        return reason, ("etype", "src", "dst") if is_first else ("src", "etype", "dst")
    return _not_triples(columns) or _not_joined(columns)


def doubt(columns: Mapping[str, pa.ChunkedArray]) -> Objection | None:
    """As `objection`, of what too few rows of integers say to be sure."""
    if "etype" not in columns or not all(all_true(is_integer(c)) for c in columns.values()):
        return None
    return _not_triples(columns, is_sure=False)


def _punctuated(columns: Mapping[str, pa.ChunkedArray]) -> Objection | None:
    """Where values have signs that separate or enclose them."""
    src, last = columns["src"], columns["dst"]
    for opening, closing in ("()", "[]", "{}"):
        if all_true(pc.starts_with(src, opening)) and all_true(pc.ends_with(last, closing)):
            return f"each edge is in {opening}{closing}", "write the lines without them"
    for sign in ",;|":
        if all_true(pc.ends_with(src, sign)) or (
            "etype" not in columns and all_true(pc.starts_with(last, sign))
        ):
            return f"values have {sign!r} at their ends", f'give delimiter="{sign}"'
    if "etype" in columns:
        middle = pc.unique(columns["etype"])
        if len(middle) == 1 and all_true(pc.match_substring_regex(middle, r"^[^\pL\pN_]+$")):
            return "the second column holds a sign, not relations", ("src", "-", "dst")
    return None


def _not_triples(
    columns: Mapping[str, pa.ChunkedArray], *, is_sure: bool = True
) -> Objection | None:
    """Judged by how many distinct values there are: relations are few, and no nodes."""
    first, middle, last = _sampled(columns)
    edges, are_words = len(first), _kind(columns["etype"]) == "words"
    some, many = (_SOME_EDGES, _MANY_EDGES) if is_sure else (_FEW_ROWS + 1, _SOME_EDGES)
    if edges < (_FEW_ROWS if are_words else some):
        return None
    sources, relations, targets = (np.unique(codes) for codes in (first, middle, last))
    by_ends = _overlap(targets, sources)
    by_source, by_target = _overlap(relations, sources), _overlap(relations, targets)
    left, right = (
        len(np.unique(a << 32 | b)) / edges for a, b in ((first, middle), (middle, last))
    )
    roles = _roles_by_last(columns["dst"])
    are_nodes = are_words or 2 * len(targets) <= len(relations) or left >= 0.99
    if by_source >= 0.5 and by_source > by_ends and are_nodes:
        return "the second column holds the nodes of the first one, and the last does not", roles
    is_first = edges >= many and 2 * len(sources) <= len(relations) and right >= 0.99
    if by_target >= 0.5 and by_target > by_ends and (are_words or is_first):
        reason = "the second column holds the nodes of the last one, and the first does not"
        return reason, ("etype", "src", "dst")
    if edges < some:
        return None
    if edges >= many and len(relations) >= 0.9 * edges:
        return "there would be as many relations as edges", roles
    has_many = len(relations) ** 2 > 4 * edges
    is_unique = edges >= _ENOUGH_EDGES and len(targets) >= 0.99 * edges
    if is_unique and has_many and all_true(is_integer(columns["dst"])):
        return "the last column has another number in nearly every line", roles
    has_few = left >= 0.9 or 10 * len(targets) <= len(relations)
    has_fewer = len(relations) > len(targets) and (by_source >= 0.5 or has_many)
    if by_ends < 0.5 and has_few and has_fewer:
        return f"the last column has only {len(targets)} values, the second {len(relations)}", roles
    return None


def _not_joined(columns: Mapping[str, pa.ChunkedArray]) -> Objection | None:
    src, dst = columns["src"], columns["dst"]
    if len(src) < _SOME_EDGES or _counts(src) or _counts(dst):
        return None
    both = pa.chunked_array([*src.chunks, *dst.chunks])
    if pc.count_distinct(both).as_py() < len(both):
        return None
    if "etype" in columns and pc.count_distinct(columns["etype"]).as_py() <= len(src) / 2:
        return None
    return "no two lines share a node, so this is hardly a graph", tuple(columns)


def _sampled(columns: Mapping[str, pa.ChunkedArray]) -> tuple[np.ndarray, ...]:
    """Numbers of the values of src, etype and dst in some rows, the same for the same value."""
    rows = len(columns["src"])
    which = pa.array(np.arange(0, rows, -(-rows // _LOOKED_AT)))
    parts = [columns[role].take(which).combine_chunks() for role in ("src", "etype", "dst")]
    texts = pa.chunked_array(parts)
    codes = pc.dictionary_encode(texts).combine_chunks().indices.to_numpy().astype(np.int64)
    return tuple(np.split(codes, 3))


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Jaccard's measure of two sets."""
    both = len(np.intersect1d(a, b, assume_unique=True))
    return both / (len(a) + len(b) - both)


def _roles_by_last(last: pa.ChunkedArray) -> tuple[str, ...]:
    """Roles of two ends and a third column, by what that holds."""
    if _kind(last) not in ("integers", "numbers"):
        is_data = all_true(pc.starts_with(last, "{"))  # of NetworkX
        are_all_distinct = _FEW_ROWS <= len(last) == pc.count_distinct(last).as_py()
        return ("src", "dst", "-" if is_data or are_all_distinct else "etype")
    is_time = all_true(is_integer(last)) and _bounds(last)[0] >= 1e8
    return ("src", "dst", "time" if is_time else "weight")


def are_numbers(values: Sequence[str]) -> bool:
    """Whether some texts are numbers."""
    return _counts(pa.chunked_array([pa.array(values, pa.string())]))


def _counts(column: pa.ChunkedArray) -> bool:
    """Whether a column has nothing but numbers."""
    return _kind(column) in ("integers", "numbers")


def _kind(column: pa.ChunkedArray) -> str:
    """What it holds: "integers" that may be ids, other "numbers", "words" alone, or "mixed"."""
    if not any_true(is_number(column)):
        return "words"
    if not all_true(is_number(column)):
        return "mixed"
    if not all_true(is_integer(column)):
        return "numbers"
    low, high = _bounds(column)
    return "integers" if 0 <= low <= high < max(1 << 24, 64 * len(column)) else "numbers"


def _bounds(column: pa.ChunkedArray) -> tuple[float, float]:
    found = pc.min_max(column.cast(pa.float64())).as_py()
    return found["min"], found["max"]

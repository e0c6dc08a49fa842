"""Where the content of a file contradicts what its columns are taken for."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetune.variants.graph._arrays import MAX_COUNT
from hetune.variants.graph.loaders._ids import is_integer, is_number
from hetune.variants.graph.loaders.columns import looks_like_names

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
    rows = len(below["src"])
    ends = [_are_numbers(below[role]) for role in ("src", "dst")]
    if rows < _FEW_ROWS:
        return all(ends)
    return any(ends) or ("etype" in below and _are_numbers(below["etype"]))


def is_edge(
    row: list[str], below: Mapping[str, pa.ChunkedArray], places: Mapping[str, int]
) -> bool:
    """Whether what is taken for a header has numbers above numbers, or a node of a line below."""
    roles = [role for role in ("src", "dst", "etype") if role in places]
    numeric = [role for role in roles if _are_numbers(below[role])]
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
    if edges != rows or not all(_all(is_integer(end)) for end in ends):
        return False
    largest = max(int(_most(end)) for end in ends)
    if largest + 1 in nodes:  # an id that no edge has
        return True
    return rows >= _SOME_EDGES and largest in nodes


def objection(columns: Mapping[str, pa.ChunkedArray]) -> tuple[str, tuple[str, ...]] | None:
    """Why two or three columns are not `source destination` or `head relation tail`.

    Args:
        columns: src, dst, and for three columns etype, as texts; the first in the file is src, the
            last dst.

    Returns:
        The reason, and the roles that the columns may have; None where nothing contradicts.
    """
    last = columns["dst"]
    if "etype" not in columns:
        return _not_joined(columns)
    if _all(pc.starts_with(last, "{")):
        return "the last column holds data of edges, not nodes", ("src", "dst", "-")
    if _all(is_number(last)) and _any(pc.match_substring_regex(last, "[.eEnN]")):
        is_alone = not _any(pc.match_substring(columns["src"], "."))
        if is_alone or _any(pc.match_substring_regex(last, r"\.0*[1-9]|[eEnN]")):
            return "the last column holds numbers that are no ids", _weights(last)
    if _all(is_integer(last)):
        low, high = _bound(last, "min"), _bound(last, "max")
        is_sparse = low < 0 or high >= max(1 << 24, 64 * len(last))
        if is_sparse and _all(is_integer(columns["src"])):
            return "the last column holds numbers that are no ids", _weights(last)
        if len(last) >= _FEW_ROWS and not _any(is_number(columns["src"])):
            return "the last column holds numbers, the first has none", _weights(last)
    return _not_triples(columns) or _not_joined(columns)


def _not_triples(columns: Mapping[str, pa.ChunkedArray]) -> tuple[str, tuple[str, ...]] | None:
    """Judged by how many distinct values there are: relations are few, and no nodes."""
    first, middle, last = _sampled(columns)
    edges = len(first)
    if edges < _SOME_EDGES:
        return None
    sources, relations, targets = (np.unique(codes) for codes in (first, middle, last))
    pairs = len(np.unique(first * (1 << 32) + middle)) / edges
    by_source, by_target = _overlap(relations, sources), _overlap(targets, sources)
    roles = _weights(columns["dst"])
    if edges >= _MANY_EDGES and len(relations) >= 0.9 * edges:
        return "there would be as many relations as edges", roles
    if by_source >= 0.5 and by_source > by_target and pairs >= 0.99:
        return "the second column holds the nodes of the first one, and the last does not", roles
    is_unique = edges >= _ENOUGH_EDGES and len(targets) >= 0.99 * edges
    if is_unique and len(relations) ** 2 > 4 * edges and _all(is_integer(columns["dst"])):
        return "the last column has another number in nearly every line", roles
    is_many = by_source >= 0.5 or len(relations) ** 2 > 4 * edges
    if by_target < 0.5 and len(relations) > len(targets) and is_many and pairs >= 0.9:
        return f"the last column has only {len(targets)} values, the second {len(relations)}", roles
    return None


def _not_joined(columns: Mapping[str, pa.ChunkedArray]) -> tuple[str, tuple[str, ...]] | None:
    src, dst = columns["src"], columns["dst"]
    if len(src) < _SOME_EDGES or _are_numbers(src) or _are_numbers(dst):
        return None
    both = pa.chunked_array([*src.chunks, *dst.chunks])
    if pc.count_distinct(both).as_py() < len(both):
        return None
    roles = ("src", "etype", "dst") if "etype" in columns else ("src", "dst")
    if "etype" in columns and pc.count_distinct(columns["etype"]).as_py() <= len(src) / 2:
        return None
    return "no two lines share a node, so this is hardly a graph", roles


def _sampled(columns: Mapping[str, pa.ChunkedArray]) -> tuple[np.ndarray, ...]:
    """Numbers of the values of src, etype and dst in some rows, the same for the same value."""
    rows = len(columns["src"])
    step = -(-rows // _LOOKED_AT)
    which = pa.array(np.arange(0, rows, step))
    parts = [columns[role].take(which).combine_chunks() for role in ("src", "etype", "dst")]
    texts = pa.chunked_array(parts)
    codes = pc.dictionary_encode(texts).combine_chunks().indices.to_numpy().astype(np.int64)
    return tuple(np.split(codes, 3))


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Jaccard's measure of two sets."""
    both = len(np.intersect1d(a, b, assume_unique=True))
    return both / (len(a) + len(b) - both)


def _weights(last: pa.ChunkedArray) -> tuple[str, ...]:
    if not _all(is_number(last)):
        return ("src", "dst", "-")
    is_time = _all(is_integer(last)) and float(_bound(last, "min")) >= 1e8
    return ("src", "dst", "time" if is_time else "weight")


def are_numbers(values: Sequence[str]) -> bool:
    """Whether some texts are numbers."""
    return _are_numbers(pa.chunked_array([pa.array(values, pa.string())]))


def _are_numbers(column: pa.ChunkedArray) -> bool:
    return len(column) > 0 and column.null_count < len(column) and _all(is_number(column))


def _bound(column: pa.ChunkedArray, bound: str) -> float:
    return float(pc.min_max(column.cast(pa.float64()))[bound].as_py())


def _most(column: pa.ChunkedArray) -> float:
    return min(_bound(column, "max"), MAX_COUNT)


def _all(values: pa.ChunkedArray) -> bool:
    return pc.all(values).as_py() is not False


def _any(values: pa.ChunkedArray) -> bool:
    return pc.any(values).as_py() is True

"""Where the content of a file contradicts what its columns are taken for."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetune.variants.graph._arrays import MAX_COUNT
from hetune.variants.graph.loaders.columns import looks_like_names
from hetune.variants.graph.loaders.id_columns import all_true, any_true, is_integer, is_number

_NAMED = ("src", "etype", "dst")
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
    are_numeric = [_are_numbers(below[role]) for role in _NAMED if role in below]
    return sum(are_numeric) >= (2 if len(below["src"]) < _FEW_ROWS else 1)


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
    if edges != rows or not all(all_true(is_integer(end)) for end in ends):
        return False
    largest = max(int(_most(end)) for end in ends)
    if largest + 1 in nodes:  # an id that no edge has
        return True
    return rows >= _SOME_EDGES and largest in nodes


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
    last = columns["dst"]
    if (found := _punctuated(columns)) is not None:
        return found
    if "etype" not in columns:
        return (None if are_apart else _not_alike(columns)) or _not_joined(columns)
    if all_true(pc.starts_with(last, "{")):
        return "the last column holds data of edges, not nodes", ("src", "dst", "-")
    if all_true(is_number(last)) and any_true(pc.match_substring_regex(last, "[.eEnN]")):
        is_alone = not any_true(pc.match_substring(columns["src"], "."))
        if is_alone or any_true(pc.match_substring_regex(last, r"\.0*[1-9]|[eEnN]")):
            return "the last column holds numbers that are no ids", _weights(last)
    if all_true(is_integer(last)):
        low, high = _bound(last, "min"), _bound(last, "max")
        is_sparse = low < 0 or high >= max(1 << 24, 64 * len(last))
        if is_sparse and all_true(is_integer(columns["src"])):
            return "the last column holds numbers that are no ids", _weights(last)
    return _not_of_a_kind(columns) or _not_triples(columns) or _not_joined(columns)


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
    middle = columns.get("etype")
    if middle is None or not all_true(pc.match_substring_regex(middle, r"^[^\pL\pN_]+$")):
        return None
    if pc.count_distinct(middle).as_py() > 1:
        return None
    return "the second column holds a sign, not relations", ("src", "-", "dst")


def _not_of_a_kind(columns: Mapping[str, pa.ChunkedArray]) -> Objection | None:
    """Where the nodes of one end are integers, and those of the other one words alone."""
    are_ids = {role: all_true(is_integer(column)) for role, column in columns.items()}
    are_words = {role: not any_true(is_number(column)) for role, column in columns.items()}
    if are_ids["src"] and are_words["dst"]:
        if are_ids["etype"]:
            return "the last column holds words, the others numbers", ("src", "dst", "etype")
        if len(columns["dst"]) >= _FEW_ROWS:
            return "the first column holds numbers, the last has none", ("src", "etype", "dst")
    if are_words["src"] and are_ids["dst"]:
        if are_ids["etype"]:
            return "the first column holds words, the others numbers", ("etype", "src", "dst")
        if len(columns["dst"]) >= _FEW_ROWS:
            return "the last column holds numbers, the first has none", _weights(columns["dst"])
    return None


def _not_alike(columns: Mapping[str, pa.ChunkedArray]) -> Objection | None:
    """As `_not_of_a_kind`, of two columns."""
    src, dst = columns["src"], columns["dst"]
    for numbers, words in ((src, dst), (dst, src)):
        are_apart = all_true(is_integer(numbers)) and not any_true(is_number(words))
        if are_apart and len(src) >= _FEW_ROWS:
            return "one column holds numbers, the other words", ("src", "dst")
    return None


def doubt(columns: Mapping[str, pa.ChunkedArray]) -> Objection | None:
    """As `objection`, of what too few rows of integers say to be sure."""
    if "etype" not in columns or not all(all_true(is_integer(c)) for c in columns.values()):
        return None
    return _not_triples(columns, is_sure=False)


def _not_triples(
    columns: Mapping[str, pa.ChunkedArray], *, is_sure: bool = True
) -> Objection | None:
    """Judged by how many distinct values there are: relations are few, and no nodes."""
    first, middle, last = _sampled(columns)
    edges = len(first)
    are_words = not any_true(is_number(columns["etype"]))
    some, many = (_SOME_EDGES, _MANY_EDGES) if is_sure else (_FEW_ROWS + 1, _SOME_EDGES)
    if edges < (_FEW_ROWS if are_words else some):
        return None
    sources, relations, targets = (np.unique(codes) for codes in (first, middle, last))
    pairs = len(np.unique(first * (1 << 32) + middle)) / edges
    by_source, by_target = _overlap(relations, sources), _overlap(targets, sources)
    by_middle = _overlap(relations, targets)
    is_small = 2 * len(targets) <= len(relations)
    roles = _weights(columns["dst"])
    are_ends = are_words or is_small or pairs >= 0.99
    if by_source >= 0.5 and by_source > by_target and are_ends:
        return "the second column holds the nodes of the first one, and the last does not", roles
    later_pairs = len(np.unique(middle * (1 << 32) + last)) / edges
    is_first = edges >= many and 2 * len(sources) <= len(relations) and later_pairs >= 0.99
    if by_middle >= 0.5 and by_middle > by_target and (are_words or is_first):
        reason = "the second column holds the nodes of the last one, and the first does not"
        return reason, ("etype", "src", "dst")
    if edges < some:
        return None
    if edges >= many and len(relations) >= 0.9 * edges:
        return "there would be as many relations as edges", roles
    is_unique = edges >= _ENOUGH_EDGES and len(targets) >= 0.99 * edges
    if is_unique and len(relations) ** 2 > 4 * edges and all_true(is_integer(columns["dst"])):
        return "the last column has another number in nearly every line", roles
    is_many = by_source >= 0.5 or len(relations) ** 2 > 4 * edges
    is_few = pairs >= 0.9 or 10 * len(targets) <= len(relations)
    if by_target < 0.5 and len(relations) > len(targets) and is_many and is_few:
        return f"the last column has only {len(targets)} values, the second {len(relations)}", roles
    return None


def _not_joined(columns: Mapping[str, pa.ChunkedArray]) -> Objection | None:
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
    if not all_true(is_number(last)):
        is_relation = 2 * pc.count_distinct(last).as_py() <= len(last)
        return ("src", "dst", "etype" if is_relation else "-")
    is_time = all_true(is_integer(last)) and float(_bound(last, "min")) >= 1e8
    return ("src", "dst", "time" if is_time else "weight")


def are_numbers(values: Sequence[str]) -> bool:
    """Whether some texts are numbers."""
    return _are_numbers(pa.chunked_array([pa.array(values, pa.string())]))


def _are_numbers(column: pa.ChunkedArray) -> bool:
    return len(column) > 0 and column.null_count < len(column) and all_true(is_number(column))


def _bound(column: pa.ChunkedArray, bound: str) -> float:
    return float(pc.min_max(column.cast(pa.float64()))[bound].as_py())


def _most(column: pa.ChunkedArray) -> float:
    return min(_bound(column, "max"), MAX_COUNT)

"""Columns of node ids and labels, edge types and numbers of edges."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetune.variants.errors import GraphError

# "007" and "+7" are labels: as numbers they would merge with "7".
_INTEGER = r"^(?:0|-?[1-9][0-9]*)$"
_INTEGRAL = r"^(?:0|-?[1-9][0-9]*)(?:\.0*)?$"
_NUMBER = (
    r"^(?:[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[+-]?(?i:inf|infinity)|(?i:nan))$"
)
_DIGIT = "[0-9]"
_PADDED = r"^[+-]?0[0-9]"
_COMMENTS = ("#", "%", "//")
_FLOAT64 = np.dtype(np.float64)
_EXACT = 2**53
"""Floats are exact up to here."""


class Column(NamedTuple):
    """A column of ids or labels.

    Attributes:
        name: How messages call it: "source".
        texts: All values as text; integral numbers without a fraction.
        ids: int64 where all values are such integers.
        trouble: Why it has no ids though it has nothing but numbers; "" else.
    """

    name: str
    texts: pa.ChunkedArray
    ids: pa.ChunkedArray | None
    trouble: str = ""

    @property
    def is_numeric(self) -> bool:
        """Whether it has nothing but numbers."""
        return self.ids is not None or bool(self.trouble)


def column_of(name: str, values: pa.ChunkedArray) -> Column:
    """The column of values without nulls: integers, floats or texts, dictionaries of them, too.

    Integral floats are the integers that they are, in text as well.

    Args:
        name: How messages call it: "source".
        values: The column.
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_integer(values.type):
        return _of_integers(name, values)
    if pa.types.is_floating(values.type):
        return _of_floats(name, values)
    return _of_texts(name, values.cast(pa.string()))


def check_labels(columns: Sequence[Column], *, can_skip: bool) -> None:
    """Refuse to number integers anew because of a few words, or numbers that are no ids as labels.

    Args:
        columns: Those that name the same nodes.
        can_skip: Whether lines can be skipped by `comment=`.

    Raises:
        GraphError: Most of the nodes are integers; it names the row of the first word.
    """
    for column in columns:
        if column.trouble:
            raise GraphError(column.trouble)
    total = sum(len(column.texts) for column in columns)
    integers = sum(pc.sum(is_integer(column.texts)).as_py() or 0 for column in columns)
    strays = [(pc.index(is_number(column.texts), False).as_py(), column) for column in columns]
    strays = [(row, column) for row, column in strays if row >= 0]
    if not strays or 2 * integers <= total:
        return
    row, column = min(strays, key=lambda stray: stray[0])
    line = " ".join(str(column.texts[row].as_py())[:40] for column in columns)
    word = columns[0].texts[row].as_py()
    skip = ""
    if can_skip and column is columns[0] and len(word) <= 40:
        mark = next((mark for mark in _COMMENTS if word.startswith(mark)), word)
        skip = f'comment="{mark}" to skip such lines, or '
    raise GraphError(
        f"row {row + 1} ({line!r}) has a {column.name} that is no integer, but {integers} of "
        f"{total} nodes are: correct or drop the row, or pass {skip}relabel=True to number all "
        "nodes anew"
    )


def floats_of(name: str, values: pa.ChunkedArray, dtype: np.dtype = _FLOAT64) -> np.ndarray:
    """A copy of a column of numbers that are finite in `dtype`, [E].

    Raises:
        GraphError: One is none; names its row.
    """
    try:
        with np.errstate(over="ignore"):
            found: np.ndarray = values.cast(pa.float64()).to_numpy().astype(dtype)
    except pa.ArrowInvalid as error:
        raise GraphError(
            f"the column for {name} has values that are no numbers ({error})"
        ) from error
    if len(found) and not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise GraphError(f"row {row + 1} has {found[row]} for {name}: give finite {dtype}")
    return found


def is_number(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each text is a number."""
    return pc.match_substring_regex(values, _NUMBER)


def is_integer(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether each text is an integer as it is usually written."""
    return pc.match_substring_regex(values, _INTEGER)


def _of_integers(name: str, values: pa.ChunkedArray) -> Column:
    texts = values.cast(pa.string())
    try:
        return Column(name, texts, values.cast(pa.int64()))
    except pa.ArrowInvalid:
        return Column(name, texts, None, _too_large(name, texts))


def _of_floats(name: str, values: pa.ChunkedArray) -> Column:
    numbers = values.cast(pa.float64()).to_numpy()
    with np.errstate(invalid="ignore"):
        is_id = np.isfinite(numbers) & (np.abs(numbers) <= _EXACT) & (numbers == np.floor(numbers))
    if not is_id.all():
        row = int(np.argmin(is_id))
        return Column(name, values.cast(pa.string()), None, _no_id(name, row, str(numbers[row])))
    return _of_integers(name, pa.chunked_array([pa.array(numbers.astype(np.int64))]))


def _of_texts(name: str, texts: pa.ChunkedArray) -> Column:
    if not all_true(pc.match_substring_regex(texts, _INTEGRAL)):
        if not all_true(is_number(texts)) or not any_true(pc.match_substring_regex(texts, _DIGIT)):
            return Column(name, texts, None)
        if any_true(pc.match_substring_regex(texts, _PADDED)) and not any_true(
            pc.match_substring_regex(texts, r"[.nN]")
        ):
            return Column(name, texts, None)
        row = pc.index(pc.match_substring_regex(texts, _INTEGRAL), False).as_py()
        return Column(name, _plain(texts), None, _no_id(name, row, texts[row].as_py()))
    plain = _plain(texts)
    try:
        return Column(name, plain, plain.cast(pa.int64()))
    except pa.ArrowInvalid:
        return Column(name, plain, None, _too_large(name, plain))


def _plain(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    if not any_true(pc.match_substring(texts, ".")):
        return texts
    return pc.replace_substring_regex(texts, r"^(0|-?[1-9][0-9]*)\.0*$", r"\1")


def _no_id(name: str, row: int, value: str) -> str:
    return (
        f"row {row + 1} has the {name} {value[:40]}, which is no integer: drop or fill in the row, "
        "or pass relabel=True if such numbers are labels"
    )


def _too_large(name: str, texts: pa.ChunkedArray) -> str:
    lengths = pc.utf8_length(texts)
    row = pc.index(lengths, pc.max(lengths)).as_py()
    return (
        f"row {row + 1} has the {name} {texts[row].as_py()[:40]}, which is too large for an id: "
        "pass relabel=True to number nodes anew"
    )


def all_true(values: pa.ChunkedArray) -> bool:
    """Whether no value is false."""
    return pc.all(values).as_py() is not False


def any_true(values: pa.ChunkedArray) -> bool:
    """Whether a value is true."""
    return pc.any(values).as_py() is True

"""Arrays of numbers in JSON: found in a text without being read, then read straight into NumPy's.

A list of Python takes some 40 bytes for a number, and whoever makes one keeps the interpreter until
it is done. Here a text is gone through once for arrays of numbers, or of rows of numbers; what is
left of it is short. Who wants an array's numbers looks at its size first, and reads it piece by
piece.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np

from hetune.service.core.formats.limits import check_limit
from hetune.variants.errors import InputError, MalformedError

MOST_ARRAYS = 1 << 16
"""In a text. Each is an object."""
MOST_TEXTS = 500_000
"""Names and other texts, which are gone through one by one."""
_PIECE = 1 << 13
"""Bytes that are read at a time; no number is longer."""
_SPACE = rb"[ \t\r\n]*+"
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|\[' + _SPACE + rb"(?=[-0-9\[])", re.DOTALL)
_RUN = re.compile(rb"[-+.0-9eE, \t\r\n\[\]]*+")
_OPEN = re.compile(rb"[\[ \t\r\n]*+")
_CLOSE = re.compile(rb"\]" + _SPACE + rb"\]")
_BLANK = re.compile(_SPACE + rb"\Z")
_NEXT = re.compile(_SPACE + rb"(,|\Z)")


class JsonArray:
    """An array of numbers, or of rows of numbers, in a text of JSON.

    Attributes:
        is_nested: Whether it has rows.
    """

    __slots__ = ("_begin", "_end", "_text", "is_nested")

    def __init__(self, text: bytes, begin: int, end: int, is_nested: bool) -> None:
        self._text, self._begin, self._end = text, begin, end
        self.is_nested = is_nested

    @classmethod
    def of(cls, values: list[Any]) -> JsonArray | None:
        """That of a list; None if there is anything but numbers in it, or in its lists."""
        try:
            text = json.dumps(values).encode()
        except (TypeError, ValueError, RecursionError):
            return None
        if not _RUN.fullmatch(text):
            return None
        return cls(text, 1, len(text) - 1, b"[" in text[1:])

    @property
    def count(self) -> int:
        """How many numbers there are, at most."""
        if _BLANK.match(self._text, self._begin, self._end):
            return 0
        return self._text.count(b",", self._begin, self._end) + 1

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._text.count(b"[", self._begin, self._end)

    @property
    def width(self) -> int:
        """How many numbers the first row has."""
        begin = self._text.find(b"[", self._begin, self._end) + 1
        end = self._text.find(b"]", begin, self._end)
        if _BLANK.match(self._text, begin, end):
            return 0
        return self._text.count(b",", begin, end) + 1

    def integers(self, what: str) -> np.ndarray:
        """All numbers, row by row, which have to be integers: int32, or int64 where needed.

        Raises:
            MalformedError: They are not, or do not fit.
        """
        for mark in (b".", b"e", b"E"):
            if self._text.find(mark, self._begin, self._end) >= 0:
                raise MalformedError(f"{what}: a number is no integer: give integers")
        try:
            return self._read(what, np.int32)[0]
        except OverflowError:
            pass
        try:
            return self._read(what, np.int64)[0]
        except OverflowError:
            raise MalformedError(f"{what}: a number does not fit int64: renumber") from None

    def floats(self, what: str, dtype: type[np.floating[Any]] = np.float32) -> np.ndarray:
        """All numbers, row by row.

        Raises:
            MalformedError: They are no numbers.
            InputError: Some do not fit.
        """
        return self._floats(what, dtype)[0]

    def matrix(self, what: str) -> np.ndarray:
        """Rows of one length as float32, [rows, width].

        Raises:
            MalformedError: They are no rows of numbers.
            InputError: They are of different lengths, or do not fit float32.
        """
        if not self.is_nested:
            if self.count:
                raise MalformedError(f"{what}: give rows of numbers")
            return np.empty((0, 0), dtype=np.float32)
        found, widths = self._floats(what, np.float32)
        if (widths != widths[0]).any():
            raise _ragged(what)
        return found.reshape(len(widths), int(widths[0]))

    def _floats(self, what: str, dtype: type[np.floating[Any]]) -> tuple[np.ndarray, np.ndarray]:
        try:
            found, widths = self._read(what, dtype)
        except OverflowError:
            raise _unfit(what, dtype) from None
        if not np.isfinite(found).all():
            raise _unfit(what, dtype)
        return found, widths

    def _read(self, what: str, dtype: type[np.generic]) -> tuple[np.ndarray, np.ndarray]:
        """All numbers, and the lengths of rows.

        Raises:
            MalformedError: The text is not what it seemed.
            OverflowError: A number does not fit.
        """
        found = np.empty(self.count, dtype=dtype)
        widths = np.empty(self.rows, dtype=np.int32)
        at = row = 0
        pieces = _rows if self.is_nested else _flat
        try:
            for values, lengths in pieces(self._text, self._begin, self._end):
                numbers = _converted(values, dtype)
                if numbers.ndim > 1:
                    raise ValueError("there are rows in a row")
                found[at : at + len(values)] = numbers
                widths[row : row + len(lengths)] = lengths
                at, row = at + len(values), row + len(lengths)
        except (ValueError, TypeError, RecursionError):
            shown = "rows of numbers" if self.is_nested else "numbers"
            raise MalformedError(f"{what}: this is no JSON list of {shown}") from None
        return found[:at], widths[:row]


class Lifted:
    """A text of JSON with marks in place of its arrays of numbers.

    Args:
        text: Any.

    Attributes:
        text: JSON if the other text was.

    Raises:
        TooLargeError: There are too many arrays or texts.
    """

    def __init__(self, text: bytes) -> None:
        self._arrays: list[JsonArray] = []
        self._mark = secrets.token_hex(8)  # which nobody can send
        check_limit("texts of a document", text.count(b'"') // 2, MOST_TEXTS)
        parts, last = [], 0
        for start, array, end in _arrays_in(text):
            parts += [text[last:start], f'["{self._mark}",{len(self._arrays)}]'.encode()]
            self._arrays.append(array)
            last = end
        self.text = b"".join((*parts, text[last:])) if parts else text

    def find(self, value: object) -> JsonArray | None:
        """The array whose mark this is; None if it is none."""
        if isinstance(value, list) and len(value) == 2 and value[0] == self._mark:
            return self._arrays[value[1]]
        return None


def _converted(values: list[Any], dtype: type[np.generic]) -> np.ndarray:
    """Numbers as an array.

    Raises:
        OverflowError: An integer does not fit.
    """
    if issubclass(dtype, np.integer):
        wide = np.array(values, dtype=np.int64)
        if dtype is np.int32 and wide.size and not -(1 << 31) <= wide.min() <= wide.max() < 1 << 31:
            raise OverflowError
        return wide
    wide = np.array(values, dtype=np.float64)
    if not np.isfinite(wide).all():
        raise ValueError("a number is not finite")
    with np.errstate(over="ignore"):
        return wide.astype(dtype)


def _arrays_in(text: bytes) -> Iterator[tuple[int, JsonArray, int]]:
    """Arrays of a text, and where they begin and end. Each byte is looked at a few times only."""
    at = run = looked = 0
    while (token := _TOKEN.search(text, at)) is not None:
        at, start = token.end(), token.start()
        if token.group(1) is not None:
            if not token.group(1):
                return  # the text ends within a string
            continue
        looked += 1
        check_limit("lists of numbers in a document", looked, MOST_ARRAYS)
        if start >= run:
            found = _RUN.match(text, start)
            assert found is not None
            run = found.end()
        is_nested = text[at] == ord("[")
        if is_nested and (inner := _second_last(text, at)) > start:
            at = inner  # rows of rows: the innermost are next
            continue
        end = _end(text, at, run, is_nested)
        if end is None:
            at = run
        else:
            yield start, JsonArray(text, at, end, is_nested), end + 1
            at = end + 1


def _second_last(text: bytes, at: int) -> int:
    """Of the brackets that open one after the other, where the last but one is."""
    found = _OPEN.match(text, at)
    assert found is not None
    last = text.rfind(b"[", at, found.end())
    return text.rfind(b"[", 0, last)


def _end(text: bytes, begin: int, run: int, is_nested: bool) -> int | None:
    """Where an array closes; None if it holds something else."""
    if is_nested:
        found = _CLOSE.search(text, begin, run)
        if found is None:
            return None
        end = found.end() - 1
        return end if text.count(b"[", begin, end) == text.count(b"]", begin, end) else None
    end = text.find(b"]", begin, run)
    return None if end < 0 or text.find(b"[", begin, end) >= 0 else end


def _flat(text: bytes, begin: int, end: int) -> Iterator[tuple[list[Any], list[int]]]:
    """Numbers between commas, piece by piece."""
    if _BLANK.match(text, begin, end):
        return
    while True:
        stop = end if end - begin <= _PIECE else text.rfind(b",", begin, begin + _PIECE)
        if stop < 0:
            raise ValueError("a number is too long")
        values = json.loads(b"[%b]" % text[begin:stop])
        if not values:
            raise ValueError("there is a comma too many")
        yield values, []
        if stop == end:
            return
        begin = stop + 1


def _rows(text: bytes, begin: int, end: int) -> Iterator[tuple[list[Any], list[int]]]:
    """Numbers of rows, and lengths of those that end in each piece."""
    while True:
        last = text.rfind(b"]", begin, min(end, begin + _PIECE))
        if last >= 0:
            rows = json.loads(b"[%b]" % text[begin : last + 1])
            yield list(itertools.chain.from_iterable(rows)), list(map(len, rows))
        else:
            last, first = text.find(b"]", begin, end), text.find(b"[", begin, end)
            if last < first or first < 0 or text[begin:first].strip():
                raise ValueError("there is something beside rows")
            width = 0
            for values, _ in _flat(text, first + 1, last):
                width += len(values)
                yield values, []
            yield [], [width]
        follows = _NEXT.match(text, last + 1, end)
        if follows is None:
            raise ValueError("there is something between rows")
        if not follows.group(1):
            return
        begin = follows.end()


def _ragged(what: str) -> InputError:
    return InputError(f"{what}: there are rows of different lengths: make them alike")


def _unfit(what: str, dtype: type[np.floating[Any]]) -> InputError:
    return InputError(f"{what}: a number does not fit {dtype.__name__}: scale it")

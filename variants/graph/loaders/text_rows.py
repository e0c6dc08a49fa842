"""Rows of text: where they begin, what separates their columns, what the columns are called."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph.loaders.compressed import contents
from hetune.variants.graph.loaders.file_errors import printable
from hetune.variants.graph.loaders.options import TextOptions
from hetune.variants.graph.loaders.other_formats import other_format

_SHOWN_LINES, _SHOWN_CHARACTERS = 3, 100
_OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff")
_MARKS = b"#%"
_BLANKS = " "


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a file, without a byte order mark and the comments at its top.

    Attributes:
        path: The file.
        data: The text.
        skipped: How many lines were before it.
    """

    path: Path
    data: bytes
    skipped: int

    @property
    def first(self) -> bytes:
        """The first line, without the blanks around it."""
        return self.data.partition(b"\n")[0].strip(b" \r")

    def lines(self, most: int = _SHOWN_LINES) -> list[str]:
        """The first lines that are not empty."""
        start = self.data[: 1 << 16].decode(errors="replace").splitlines()
        return [line for line in start if line.strip()][:most]

    def trouble(self, why: str, advice: str) -> GraphFileError:
        """The error that says what is wrong and which option to give, and shows three lines."""
        return GraphFileError(f"{self.path}: {why}: {advice}\n{shown(self.lines())}")


def shown(lines: Sequence[str]) -> str:
    """The first lines of a file, as a message shows them."""
    cut = (line[:_SHOWN_CHARACTERS].expandtabs(4) for line in lines[:_SHOWN_LINES])
    return "it begins with\n" + "\n".join(f"    {printable(line)}" for line in cut)


def text_of(path: Path, options: TextOptions, marks: bytes = _MARKS) -> Text:
    """The text of a file.

    Args:
        path: The file; it may be compressed.
        options: `comment` is looked at.
        marks: What comments at the top begin with where no `comment` is given.

    Raises:
        GraphFileError: It is no text in UTF-8, or holds nothing but comments.
    """
    data = contents(path)
    if data.startswith(_OTHER_BOMS):
        raise GraphFileError(f"{path} is UTF-16: write it as UTF-8")
    other = other_format(data)
    if other is not None:
        raise GraphFileError(f"{path} holds no edges but is {other}")
    if b"\0" in data[: 1 << 20]:
        raise GraphFileError(
            f"{path} is no text: it holds null bytes; pass format= if it is binary"
        )
    skipped = 0
    if options.comment:
        mark = re.escape(options.comment.encode())
        data, skipped = re.subn(rb"(?m)^[ \t]*" + mark + rb".*(?:\n|\Z)", b"", data)
        marks = b""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        line = data[start:end].strip()
        if line and line[:1] not in marks:
            return Text(path, data[start:], skipped)
        skipped += 1
        start = end
    raise GraphFileError(f"{path} holds no edge: check that it is the right file")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How lines are split.

    Attributes:
        delimiter: One character; " " for any run of blanks and tabs.
        quotes: Whether values may be quoted.
    """

    delimiter: str
    quotes: bool = False

    def split(self, line: str) -> list[str]:
        """The values of a line, without the blanks around them."""
        if self.delimiter == _BLANKS:
            return line.split()
        if self.quotes:
            return [value.strip() for value in next(csv.reader([line], delimiter=self.delimiter))]
        return [value.strip() for value in line.split(self.delimiter)]


def dialect_of(text: Text, options: TextOptions, *, quotes: bool = False) -> Dialect:
    """How lines are split: as the options say, or by tabs where the first line has some inside.

    Raises:
        GraphError: The delimiter is not one character.
    """
    given = "," if options.delimiter is None and quotes else options.delimiter
    if given is None:
        first = text.data.partition(b"\n")[0].strip(b" \r\n")
        given = "\t" if b"\t" in first.strip() else _BLANKS
    if len(given) != 1 or given in '"\r\n' or not given.isascii():
        raise GraphError(f'delimiter is {given!r}: give one character, such as "," or "\\t"')
    return Dialect(given, quotes)


def read_rows(text: Text, dialect: Dialect, count: int, wanted: Sequence[int]) -> pa.Table:
    """The wanted columns of all lines, as text without the blanks around values.

    Where nothing is left of a value, there is a null.

    Args:
        text: The lines; the first one counts like all others.
        dialect: How they are split.
        count: How many columns there are.
        wanted: Positions of columns, each once.
    """
    data, delimiter = text.data, dialect.delimiter
    if delimiter == _BLANKS:
        # Blanks of any number separate columns; tabs among them do too (cora.cites has both).
        data = re.sub(rb"[ \t]+", b"\t", data)
        data = re.sub(rb"(?m)^\t|\t(?=\r?$)", b"", data)
        delimiter = "\t"
    names = [str(i) for i in range(count)]
    table = pyarrow.csv.read_csv(
        pa.BufferReader(data),
        read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter, quote_char='"' if dialect.quotes else False
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=[str(i) for i in wanted],
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=False,
        ),
    )
    return trimmed(table)


def trimmed(table: pa.Table) -> pa.Table:
    """A table of text without the blanks around values; null where nothing is left."""
    columns = [pc.utf8_trim_whitespace(column) for column in table.columns]
    filled = [pc.if_else(pc.not_equal(column, ""), column, None) for column in columns]
    return pa.table(filled, names=table.column_names)

"""Columns of text by their roles: as the options say, or as they are usual, if nothing objects."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from hetune.variants.errors import GraphError
from hetune.variants.graph.loaders.columns import (
    advice,
    advice_by_names,
    columns_of,
    usual_places,
    usual_roles,
    warn_of_unread,
)
from hetune.variants.graph.loaders.content_checks import (
    are_numbers,
    doubt,
    is_count,
    is_edge,
    is_header,
    objection,
)
from hetune.variants.graph.loaders.edge_table import check_filled
from hetune.variants.graph.loaders.options import ColumnsWarning, TextOptions
from hetune.variants.graph.loaders.text_rows import Dialect, Text, dialect_of, read_rows

_NAMED = ("src", "dst", "etype")
_GAPS = "fill it in or drop the row; columns= can leave a column out"


def columns_of_text(
    text: Text, options: TextOptions, *, is_csv: bool = False
) -> dict[str, pa.ChunkedArray]:
    """The columns of text by their roles, as texts; those of a header are not among them.

    Args:
        text: Lines with an edge each.
        options: What is known of them.
        is_csv: Whether there is a header with names of columns, and values may be quoted, unless
            the options say otherwise.

    Raises:
        GraphFileError: Nothing says what the columns are, or what is usual contradicts the
            content; the message shows the first lines and the option to give.
        GraphError: The options do not fit the columns.
    """
    dialect = dialect_of(text, options, quotes=is_csv)
    text, names, count, is_sure = _head(text, dialect, options, is_csv)
    places = _places(text, dialect, options, names, count)
    table = read_rows(text, dialect, count, sorted(places.values()))
    if names is not None:
        table = table.slice(1)
    columns = {role: table[str(places[role])] for role in sorted(places, key=places.__getitem__)}
    if table.num_rows == 0:
        raise GraphError("there is no edge below the header: check that it is the right file")
    if not is_sure:
        _check_first_row(text, dialect, options, columns, names, places)
    try:
        check_filled(columns)
    except GraphError as error:
        raise text.trouble(str(error).partition(":")[0], _GAPS) from error
    if options.columns is not None:
        return columns
    if names is not None:
        warn_of_unread(text.path, names, places)
    elif found := objection(columns, are_apart=options.bipartite is not None):
        raise text.trouble(found[0], _remedy(found[1], places))
    elif doubtful := doubt(columns):
        what = f"{text.path}: {doubtful[0]}, as far as so few lines tell"
        warnings.warn(f"{what}: {_remedy(doubtful[1], places)}", ColumnsWarning, stacklevel=4)
    return columns


def _head(
    text: Text, dialect: Dialect, options: TextOptions, is_csv: bool
) -> tuple[Text, list[str] | None, int, bool]:
    """The lines, names of columns if the first line has them, how many columns there are, and
    whether a caller says so.
    """
    lines = [dialect.split(line) for line in text.lines()]
    said = columns_of(options.columns)
    counts = [len(values) for values in lines]
    _check_comments(text, lines)
    has_names = said is not None and said.has_names
    is_no_edge = len(counts) > 1 and (
        counts[0] != counts[1] or (are_numbers(lines[0]) and not has_names)
    )
    if options.header and is_no_edge:
        below = text.data.partition(b"\n")[2]
        return replace(text, data=below, skipped=text.skipped + 1), None, counts[1], True
    if options.header is not None:
        return text, lines[0] if options.header else None, counts[0], True
    if len(set(counts)) == 2 and len(counts) == 3 and counts[1] == counts[2]:
        raise text.trouble(
            f"the first line has {counts[0]} columns, the next {counts[1]}",
            f"pass header=True if the first is no edge, and {_for_rows(lines[1:])}",
        )
    return text, lines[0] if is_csv or has_names else None, counts[0], False


def _check_comments(text: Text, lines: list[list[str]]) -> None:
    for i, values in enumerate(lines):
        if len(values) > len(min(lines, key=len)) and any(v[:1] == "#" for v in values[1:]):
            raise text.trouble(
                f"line {text.skipped + i + 1} ends with a comment", "remove such comments"
            )


def _places(
    text: Text, dialect: Dialect, options: TextOptions, names: list[str] | None, count: int
) -> dict[str, int]:
    """The position of each role's column."""
    said = columns_of(options.columns)
    if said is not None:
        try:
            return said.positions(names, count)
        except GraphError as error:
            raise text.trouble(str(error), f"give {_for(names, count)}") from error
    if names is not None and count > 1:
        if "src" in names and "dst" in names:
            try:
                return usual_places(names)
            except GraphError as error:
                option = f'{advice_by_names(names)}, or columns="src:src,dst:dst" if none is'
                raise text.trouble(str(error), f"give {option}") from error
        below = [value for line in text.lines()[1:] for value in dialect.split(line)]
        if not options.header and (are_numbers(names) or set(names) & set(below)):
            raise text.trouble("the first line looks like an edge", _no_header(options, count))
        missing = next(name for name in ("src", "dst") if name not in names)
        roles = _roles(text, dialect, names)
        raise text.trouble(f"no column {missing!r} but {names}", _for_names(names, roles))
    rows = [dialect.split(line) for line in text.lines()]
    first = rows[0]
    if "" in first:
        raise text.trouble(
            f"line {text.skipped + 1} has {count} columns, of which some are empty",
            f'give {advice(_filled(first))}, or delimiter=" " if any run of blanks separates '
            "columns",
        )
    if count not in (2, 3):
        what = "1 column" if count == 1 else f"{count} columns"
        raise text.trouble(f"line {text.skipped + 1} has {what}", f"give {_for_rows(rows)}")
    return {role: i for i, role in enumerate(usual_roles(count))}


def _check_first_row(
    text: Text,
    dialect: Dialect,
    options: TextOptions,
    columns: dict[str, pa.ChunkedArray],
    names: list[str] | None,
    places: dict[str, int],
) -> None:
    """Objects to what was taken for a header, or for an edge."""
    rows = [dialect.split(line) for line in text.lines()]
    row = rows[0]
    if names is None:
        below = {role: column.slice(1) for role, column in columns.items()}
        if is_header(row, below):
            roles = _objected(below)
            by_names = advice_by_names(row, roles)
            option = "header=True" if options.columns is not None else by_names
            option = f"give {option}, or header=False" if len(below["src"]) else "give header=False"
            raise text.trouble(
                "the first line looks like names of columns", f"{option} if it is an edge"
            )
        if is_count(row, below):
            raise text.trouble(
                "the first line looks like counts",
                f"give header=True to skip it, and {_given(options) or _for_rows(rows)}; or "
                "header=False if it is an edge",
            )
        return
    said = columns_of(options.columns)
    is_unsaid = said is not None and not said.has_names
    if is_edge(row, columns, places):
        raise text.trouble("the first line looks like an edge", _no_header(options, len(row)))
    if is_unsaid and not is_header(row, columns):
        raise text.trouble(
            "nothing says whether the first line holds names of columns",
            "give header=True if it does, header=False if it is an edge",
        )


def _no_header(options: TextOptions, count: int) -> str:
    said = columns_of(options.columns)
    option = advice(usual_roles(count)) if said is None or said.has_names else _given(options)
    return f"give header=False and {option}, or header=True if it holds names of columns"


def _given(options: TextOptions) -> str:
    return "" if options.columns is None else "the columns= that you gave"


def _for(names: list[str] | None, count: int) -> str:
    return advice(usual_roles(count)) if names is None else advice_by_names(names)


def _for_names(names: list[str], roles: Sequence[str] | None) -> str:
    first = ", or, if the first line is an edge, header=False and "
    others = advice(roles or usual_roles(len(names)))
    return f"say which one with {advice_by_names(names, roles)}{first}{others}"


def _roles(text: Text, dialect: Dialect, names: list[str]) -> Sequence[str] | None:
    """The roles of three columns below a header if their content is not what is usual."""
    if len(names) != 3:
        return None
    try:
        table = read_rows(text, dialect, 3, range(3)).slice(1)
    except pa.ArrowInvalid:  # said once the columns are given
        return None
    return _objected(dict(zip(usual_roles(3), table.columns, strict=True)))


def _objected(columns: dict[str, pa.ChunkedArray]) -> Sequence[str] | None:
    if set(columns) != set(_NAMED) or any(column.null_count for column in columns.values()):
        return None
    found = objection(columns)
    return None if found is None or isinstance(found[1], str) else found[1]


def _filled(row: list[str]) -> list[str]:
    """The usual roles of the columns that are not empty."""
    filled = iter(usual_roles(sum(map(bool, row))))
    return [next(filled, "-") if value else "-" for value in row]


def _delimiter_in(line: str) -> str:
    found = next((c for c in "\t,;| " if c in line), ",")
    return r"\t" if found == "\t" else found


def _for_rows(rows: list[list[str]]) -> str:
    """The option for rows that are edges, as well as a few of them tell."""
    count = len(rows[0])
    if count == 1:
        return f'the delimiter, such as delimiter="{_delimiter_in(rows[0][0])}"'
    roles = _filled(rows[0])
    lasts = [row[-1] for row in rows if len(row) == count]
    if count == 3 and are_numbers(lasts) and not all(last.isdecimal() for last in lasts):
        roles = ["src", "dst", "weight"]
    return f"what the columns are, such as {advice(roles)}"


def _remedy(roles: tuple[str, ...] | str, places: dict[str, int]) -> str:
    """The option for these roles, and the one for what was guessed."""
    if isinstance(roles, str):
        return roles
    guessed = sorted(places, key=lambda role: places[role])
    wanted = advice(roles)
    if list(roles) == guessed:
        return f"give {wanted} if that is right"
    return f"give {wanted}, or {advice(guessed)} if that is right"

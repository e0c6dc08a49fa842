"""Columns of text by their roles: as the options say, or as they are usual, if nothing objects."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph.loaders.columns import (
    Columns,
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
from hetune.variants.graph.loaders.text_rows import Text, dialect_of, read_rows

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
    said = columns_of(options.columns)
    rows = [dialect.split(line) for line in text.lines()]
    _check_shape(text, rows, options)
    has_names = options.header
    if has_names is None:
        has_names = is_csv or (said is not None and said.has_names)
    elif has_names and _is_no_header(rows, said):
        below = text.data.partition(b"\n")[2]
        text, has_names = replace(text, data=below, skipped=text.skipped + 1), False
        rows = [dialect.split(line) for line in text.lines()]
    names = rows[0] if has_names else None
    places = _places(text, rows, names, said, options)
    table = read_rows(text, dialect, len(rows[0]), sorted(places.values()))
    if names is not None:
        table = table.slice(1)
    columns = {role: table[str(places[role])] for role in sorted(places, key=places.__getitem__)}
    if table.num_rows == 0:
        raise GraphError("there is no edge below the header: check that it is the right file")
    if options.header is None and names is None:
        _check_first_edge(text, rows, columns, options)
    elif options.header is None:
        _check_header(text, rows[0], columns, places, said)
    try:
        check_filled(columns)
    except GraphError as error:
        raise text.trouble(str(error).partition(":")[0], _GAPS) from error
    if said is not None:
        return columns
    if names is not None:
        warn_of_unread(text.path, names, places)
    elif found := objection(columns, are_apart=options.bipartite is not None):
        raise text.trouble(found[0], _remedy(found[1], list(columns)))
    elif doubtful := doubt(columns):
        what = f"{text.path}: {doubtful[0]}, as far as so few lines tell"
        message = f"{what}: {_remedy(doubtful[1], list(columns))}"
        warnings.warn(message, ColumnsWarning, stacklevel=4)
    return columns


def _check_shape(text: Text, rows: list[list[str]], options: TextOptions) -> None:
    """Objects to comments at the ends of lines, and to a first line that is unlike the next two."""
    counts = [len(values) for values in rows]
    for i, values in enumerate(rows):
        if counts[i] > min(counts) and any(value.startswith("#") for value in values[1:]):
            raise text.trouble(
                f"line {text.skipped + i + 1} ends with a comment", "remove such comments"
            )
    if options.header is None and len(rows) == 3 and counts[0] != counts[1] == counts[2]:
        raise text.trouble(
            f"the first line has {counts[0]} columns, the next {counts[1]}",
            f"pass header=True if the first is no edge, and {_for_rows(rows[1:])}",
        )


def _is_no_header(rows: list[list[str]], said: Columns | None) -> bool:
    """Whether a first line that is said to be no edge has no names of columns either."""
    if len(rows) < 2:
        return False
    is_numeric = are_numbers(rows[0]) and not (said is not None and said.has_names)
    return is_numeric or len(rows[0]) != len(rows[1])


def _places(
    text: Text,
    rows: list[list[str]],
    names: list[str] | None,
    said: Columns | None,
    options: TextOptions,
) -> dict[str, int]:
    """The position of each role's column."""
    first, count = rows[0], len(rows[0])
    if said is not None:
        try:
            return said.positions(names, count)
        except GraphError as error:
            option = advice(usual_roles(count)) if names is None else advice_by_names(names)
            raise text.trouble(str(error), f"give {option}") from error
    if names is not None and count > 1:
        return _places_by_names(text, rows, names, options)
    if "" in first:
        raise text.trouble(
            f"line {text.skipped + 1} has {count} columns, of which some are empty",
            f'give {advice(_roles_of(rows))}, or delimiter=" " if any run of blanks separates '
            "columns",
        )
    if count not in (2, 3):
        what = "1 column" if count == 1 else f"{count} columns"
        raise text.trouble(f"line {text.skipped + 1} has {what}", f"give {_for_rows(rows)}")
    return {role: i for i, role in enumerate(usual_roles(count))}


def _places_by_names(
    text: Text, rows: list[list[str]], names: list[str], options: TextOptions
) -> dict[str, int]:
    missing = [name for name in ("src", "dst") if name not in names]
    if not missing:
        try:
            return usual_places(names)
        except GraphError as error:
            option = f'{advice_by_names(names)}, or columns="src:src,dst:dst" if none is'
            raise text.trouble(str(error), f"give {option}") from error
    below = {value for row in rows[1:] for value in row}
    if not options.header and (are_numbers(names) or set(names) & below):
        raise _edge_for_header(text, len(names))
    roles = _roles_of(rows[1:] or rows)
    raise text.trouble(
        f"no column {missing[0]!r} but {names}",
        f"say which one with {advice_by_names(names, roles)}, or, if the first line is an edge, "
        f"header=False and {advice(roles)}",
    )


def _check_first_edge(
    text: Text,
    rows: list[list[str]],
    columns: dict[str, pa.ChunkedArray],
    options: TextOptions,
) -> None:
    """Objects to a first line that is taken for an edge, but holds names of columns or counts."""
    row, is_said = rows[0], options.columns is not None
    below = {role: column.slice(1) for role, column in columns.items()}
    if is_header(row, below):
        option = advice_by_names(row, _roles_of(rows[1:] or rows))
        option = f"{'header=True' if is_said else option}, or header=False"
        raise text.trouble(
            "the first line looks like names of columns",
            f"give {option if len(below['src']) else 'header=False'} if it is an edge",
        )
    if is_count(row, below):
        option = "the columns= that you gave" if is_said else _for_rows(rows)
        raise text.trouble(
            "the first line looks like counts",
            f"give header=True to skip it, and {option}; or header=False if it is an edge",
        )


def _check_header(
    text: Text,
    row: list[str],
    columns: dict[str, pa.ChunkedArray],
    places: dict[str, int],
    said: Columns | None,
) -> None:
    """Objects to a first line that is taken for names of columns, but may be an edge."""
    is_unsaid = said is not None and not said.has_names
    if is_edge(row, columns, places):
        raise _edge_for_header(text, None if is_unsaid else len(row))
    if is_unsaid and not is_header(row, columns):
        raise text.trouble(
            "nothing says whether the first line holds names of columns",
            "give header=True if it does, header=False if it is an edge",
        )


def _edge_for_header(text: Text, count: int | None) -> GraphFileError:
    """The error for a header that looks like an edge; no count where its columns are said."""
    option = "the columns= that you gave" if count is None else advice(usual_roles(count))
    return text.trouble(
        "the first line looks like an edge",
        f"give header=False and {option}, or header=True if it holds names of columns",
    )


def _roles_of(rows: list[list[str]]) -> list[str]:
    """What the columns of edges are, as well as a few of them tell."""
    filled = iter(usual_roles(sum(map(bool, rows[0]))))
    roles = [next(filled, "-") if value else "-" for value in rows[0]]
    lasts = [row[-1] for row in rows if len(row) == len(roles)]
    is_weighted = are_numbers(lasts) and not all(last.isdecimal() for last in lasts)
    return ["src", "dst", "weight"] if len(roles) == 3 and is_weighted else roles


def _for_rows(rows: list[list[str]]) -> str:
    """The option for rows that are edges."""
    if len(rows[0]) > 1:
        return f"what the columns are, such as {advice(_roles_of(rows))}"
    found = next((c for c in "\t,;| " if c in rows[0][0]), ",")
    return f'the delimiter, such as delimiter="{found}"'.replace("\t", r"\t")


def _remedy(roles: tuple[str, ...] | str, guessed: Sequence[str]) -> str:
    """The option for these roles, and the one for what was guessed."""
    if isinstance(roles, str):
        return roles
    others = "" if list(roles) == list(guessed) else f", or {advice(guessed)}"
    return f"give {advice(roles)}{others} if that is right"

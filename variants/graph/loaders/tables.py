"""CSV and Parquet tables with an edge per row, through pyarrow."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.columns import (
    advice_by_names,
    columns_of,
    usual_places,
    warn_of_unread,
)
from hetune.variants.graph.loaders.edge_table import graph_of_columns
from hetune.variants.graph.loaders.file_errors import check_memory
from hetune.variants.graph.loaders.options import TableOptions, TextOptions
from hetune.variants.graph.loaders.text_columns import columns_of_text
from hetune.variants.graph.loaders.text_rows import text_of

_NODES = ("src", "dst", "etype")


def load_csv(path: Path, options: TextOptions) -> HeteroGraph:
    """Read a CSV (also compressed). Blanks around names and values are dropped.

    By default there is a header line, and the columns are called `src`, `dst` and, where there are
    edge types, `etype` or by another usual name such as `relation`.

    Raises:
        GraphFileError: A column is missing (the message lists those there are), a row is malformed
            (named by its number), or the file is cut short.
    """
    text = text_of(path, options, marks=b"")
    return graph_of_columns(columns_of_text(text, options, is_csv=True), options)


def load_parquet(path: Path, options: TableOptions) -> HeteroGraph:
    """Read a Parquet file, by default its columns `src`, `dst` and, where it is there, `etype`.

    Raises:
        GraphFileError: A column is missing or neither numbers nor text, or the file is cut short.
    """
    with pyarrow.parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        places = _places(path, names, options)
        if options.columns is None:
            warn_of_unread(path, names, places)
        for role, place in places.items():
            _check_type(path, names[place], file.schema_arrow.field(place).type, role)
        check_memory(path, 48 * file.metadata.num_rows, f"{file.metadata.num_rows} rows")
        table = file.read(columns=[names[place] for place in places.values()])
        return graph_of_columns({role: table[names[i]] for role, i in places.items()}, options)


def _places(path: Path, names: list[str], options: TableOptions) -> dict[str, int]:
    said = columns_of(options.columns)
    try:
        if said is not None:
            return said.positions(names, len(names))
        for name in ("src", "dst"):
            if name not in names:
                raise GraphError(f"there is no column {name!r}, only {names}")
        return usual_places(names)
    except GraphError as error:
        raise GraphFileError(f"{path}: {error}: say which with {advice_by_names(names)}") from error


def _check_type(path: Path, name: str, kind: pa.DataType, role: str) -> None:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_number or (is_text and role in _NODES):
        return
    wanted = "int64 or string" if role in _NODES else "int64 or double"
    raise GraphFileError(f"{path}: column {name!r} is {kind}: cast it to {wanted}")

"""CSV and Parquet tables with an edge per row, through pyarrow."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders._reading import (
    check_file,
    check_memory,
    graph_from_columns,
    reading,
    same_type,
    trimmed,
)


def load_csv(
    path: Path,
    *,
    src: str = "src",
    dst: str = "dst",
    etype: str | None = None,
    delimiter: str = ",",
    relabel: bool | None = None,
    num_nodes: int | None = None,
    bipartite: Sequence[str] | None = None,
) -> HeteroGraph:
    """Read a CSV with a header line (also gzipped). Blanks around names and values are dropped.

    Args:
        path: The file.
        src: Column of source nodes; integers are ids, other values are labels.
        dst: Column of destination nodes.
        etype: Column of edge types; by default "etype" where there is one.
        delimiter: What separates columns.
        relabel: True numbers integers like labels.
        num_nodes: N, where isolated nodes follow the largest id.
        bipartite: Two node type names, where the columns number different things.

    Raises:
        GraphFileError: A column is missing (the message lists those there are), a row is malformed
            (named by its number), or the file is cut short.
    """
    size = check_file(path)
    check_memory(path, 4 * size, "its text")
    with reading(path, "a CSV table"):
        parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
        serial = pyarrow.csv.ReadOptions(use_threads=False)
        with pyarrow.csv.open_csv(path, read_options=serial, parse_options=parse) as reader:
            there = {name.strip(): name for name in reader.schema.names}
        columns = _columns(path, list(there), src, dst, etype)
        names = [there[name] for name in columns]
        table = pyarrow.csv.read_csv(
            path,
            read_options=serial,
            parse_options=parse,
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=names, column_types=dict.fromkeys(names, pa.string())
            ),
        )
        return _graph(trimmed(table), names, relabel, num_nodes, bipartite)


def load_parquet(
    path: Path,
    *,
    src: str = "src",
    dst: str = "dst",
    etype: str | None = None,
    relabel: bool | None = None,
    num_nodes: int | None = None,
    bipartite: Sequence[str] | None = None,
) -> HeteroGraph:
    """Read a Parquet file; options as for `load_csv`.

    Raises:
        GraphFileError: A column is missing or neither integer nor text, or the file is cut short.
    """
    check_file(path)
    with reading(path, "a Parquet file"), pyarrow.parquet.ParquetFile(path) as file:
        columns = _columns(path, file.schema_arrow.names, src, dst, etype)
        for name in columns:
            kind = file.schema_arrow.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            texts = (pa.types.is_string(kind), pa.types.is_large_string(kind))
            if not (pa.types.is_integer(kind) or any(texts)):
                raise GraphFileError(
                    f"{path}: column {name!r} is {kind}: cast it to int64 or string"
                )
        check_memory(path, 48 * file.metadata.num_rows, f"{file.metadata.num_rows} rows")
        return _graph(file.read(columns=columns), columns, relabel, num_nodes, bipartite)


def _columns(path: Path, there: list[str], src: str, dst: str, etype: str | None) -> list[str]:
    if etype is None and "etype" in there:
        etype = "etype"
    wanted = [src, dst] if etype is None else [src, dst, etype]
    for option, name in zip(("src", "dst", "etype"), wanted, strict=False):
        if name not in there:
            raise GraphFileError(
                f"{path} has no column {name!r} but {there}: say which one with {option}="
            )
    return wanted


def _graph(
    table: pa.Table,
    columns: list[str],
    relabel: bool | None,
    num_nodes: int | None,
    bipartite: Sequence[str] | None,
) -> HeteroGraph:
    src, dst = same_type(table[columns[0]], table[columns[1]])
    etype = table[columns[2]] if len(columns) == 3 else None
    return graph_from_columns(
        src, dst, etype, relabel=relabel, num_nodes=num_nodes, bipartite=bipartite
    )

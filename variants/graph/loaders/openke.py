"""OpenKE's files of ids: a count, then `head tail relation` per line."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.edge_table import check_filled, graph_of_columns
from hetune.variants.graph.loaders.file_errors import check_file, reading
from hetune.variants.graph.loaders.id_columns import column_of, is_integer
from hetune.variants.graph.loaders.options import COMPRESSED, TextOptions
from hetune.variants.graph.loaders.text_rows import Dialect, Text, read_rows, text_of

_ENDINGS = tuple(f"2id.txt{ending}" for ending in ("", *COMPRESSED))
_ROLES = ("src", "dst", "etype")
_BLANKS = Dialect(" ")


def holds_openke(text: Text, options: TextOptions) -> bool:
    """Whether the first line is a lone count above rows of three, or the name ends in "2id.txt"."""
    if options.columns is not None or options.header is not None or options.delimiter is not None:
        return False
    if text.path.name.endswith(_ENDINGS):
        return True
    lines = text.lines(2)
    return text.first.isdigit() and len(lines) == 2 and len(lines[1].split()) == len(_ROLES)


def load_openke(text: Text, options: TextOptions) -> HeteroGraph:
    """The graph of OpenKE's ids, which are taken as they are.

    N and names come from `entity2id.txt` and `relation2id.txt` beside the file where they exist.

    Raises:
        GraphFileError: The count does not match the lines, or an option is given that ids have no
            use for.
    """
    path = text.path
    if path.name.startswith(("entity2id.", "relation2id.")):
        raise GraphFileError(f"{path} names ids, it holds no edges: load train2id.txt beside it")
    if options.relabel or options.bipartite is not None:
        raise GraphFileError(
            f"{path} holds OpenKE's ids, which are taken as they are: leave relabel and bipartite "
            "out"
        )
    header = text.first.decode()
    if not header.isdecimal():
        raise GraphFileError(
            f"{path}, line {text.skipped + 1}: {header[:40]!r} is not the count of edges"
        )
    count = int(header[:19])
    return _graph(path, _columns(text, count), options)


def _columns(text: Text, count: int) -> dict[str, pa.ChunkedArray]:
    path, lines = text.path, text.data.partition(b"\n")[2]
    if not lines.strip():
        if count:
            raise GraphFileError(f"{path} states {count} edges but has none: fetch it again")
        return dict.fromkeys(_ROLES, pa.chunked_array([], pa.int64()))
    table = read_rows(replace(text, data=lines), _BLANKS, len(_ROLES), range(len(_ROLES)))
    if table.num_rows != count:
        raise GraphFileError(
            f"{path} states {count} edges but has {table.num_rows}: fetch it again"
        )
    columns = {role: table[str(i)] for i, role in enumerate(_ROLES)}
    check_filled(columns)
    for role, column in columns.items():
        if column_of(role, column).ids is None:
            row = pc.index(is_integer(column), False).as_py()
            raise GraphFileError(
                f"{path}: row {row + 1} has {column[row].as_py()[:40]!r}, which is no id: give "
                "integers, or say what the columns are with columns="
            )
    return columns


def _graph(path: Path, columns: dict[str, pa.ChunkedArray], options: TextOptions) -> HeteroGraph:
    entities = _dictionary(path, "entity2id.txt")
    num_nodes = options.num_nodes
    if num_nodes is None and entities is not None:
        num_nodes = len(entities)
    return graph_of_columns(
        columns,
        replace(options, num_nodes=num_nodes),
        etype_names=_dictionary(path, "relation2id.txt"),
        ntype_names=["entity"],
        node_names=entities if options.node_names or _are_named(options) else None,
    )


def _are_named(options: TextOptions) -> bool:
    """Whether a vocabulary names entities, so that ids alone do not tell which they are."""
    return options.known is not None and "entity" in (options.known.node_names or {})


def _dictionary(beside: Path, name: str) -> list[str] | None:
    """Names by id of an OpenKE dictionary; None where the file does not exist."""
    there = (beside.with_name(f"{name}{ending}") for ending in ("", *COMPRESSED))
    path = next((file for file in there if file.is_file()), None)
    if path is None:
        return None
    check_file(path)
    with reading(path, "an OpenKE dictionary"):
        lines = text_of(path, TextOptions(), marks=b"").data.decode().splitlines()
        try:
            count = int(lines[0])
            pairs = [line.rsplit(maxsplit=1) for line in lines[1:] if line.strip()]
            names = {int(number): name for name, number in pairs}
            if len(pairs) != count:
                raise ValueError(f"it states {count} names but has {len(pairs)}")
            return [names[i] for i in range(count)]
        except (ValueError, IndexError, KeyError) as error:
            raise GraphFileError(
                f"{path} is no OpenKE dictionary ({error}): lines are 'name TAB id' after the count"
            ) from error

"""What all loaders share: errors that name the file, and edges from columns of ids or labels."""

import gzip
import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph._arrays import as_ids, check_found, check_range
from hetune.variants.graph.hetero import HeteroGraph

_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    RuntimeError,  # a zip of another version, method or with a password
    tokenize.TokenError,  # the header of an array
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    pa.ArrowException,
)


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a reader raises into a `GraphFileError` that names the file.

    Args:
        path: The file.
        what: What it should be: "an N-Triples file".
    """
    try:
        yield
    except GraphFileError:
        raise
    except GraphError as error:
        raise GraphFileError(f"{path}: {error}") from error
    except FileNotFoundError as error:
        missing = error.filename or path
        raise GraphFileError(f"{missing} does not exist: check the path") from error
    except (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile) as error:
        raise GraphFileError(
            f"{path} is cut short or no {what.split(' ', 1)[-1]}: {error}; fetch it again"
        ) from error
    except _BROKEN as error:
        reason = " ".join(str(error).split())[:300]
        raise GraphFileError(f"{path} cannot be read as {what}: {reason}; mend it there") from error


def check_file(path: Path) -> int:
    """The file's size in bytes.

    Raises:
        GraphFileError: It does not exist, is a folder, or is empty.
    """
    if not path.exists():
        raise GraphFileError(f"{path} does not exist: check the path")
    if not path.is_file():
        raise GraphFileError(f"{path} is a folder, not a file: name a file in it")
    size = path.stat().st_size
    if size == 0:
        raise GraphFileError(f"{path} is empty: fetch or write it again")
    return size


def check_memory(path: Path, wanted: int, why: str) -> None:
    """Refuse a file whose header asks for more memory than the machine has left."""
    available = psutil.virtual_memory().available
    if wanted > available:
        raise GraphFileError(
            f"{path}: reading {why} takes {wanted / 2**30:.1f} GiB, but only "
            f"{available / 2**30:.1f} GiB of memory are free: check the file"
        )


def is_gzip(path: Path) -> bool:
    """Whether the file starts as gzip does, whatever its name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def graph_from_columns(
    src: pa.ChunkedArray,
    dst: pa.ChunkedArray,
    etype: pa.ChunkedArray | None = None,
    *,
    relabel: bool | None = None,
    num_nodes: int | None = None,
    bipartite: Sequence[str] | None = None,
) -> HeteroGraph:
    """A graph from columns of node ids or labels, one row per edge.

    Integers are node ids as they are; anything else is a label, and labels are numbered in order
    of first appearance, sources first.

    Args:
        src: Source column [E].
        dst: Destination column [E].
        etype: Edge type column [E]: integers (as numbers or as text) are edge types as they are,
            else names.
        relabel: True numbers integers like labels, False insists on integers.
        num_nodes: N, where the ids alone do not tell.
        bipartite: Names of a source and a destination node type whose ids are apart from each
            other; by default both columns name the same nodes.

    Raises:
        GraphError: A value is missing, or something does not fit.
    """
    check_filled(src, dst, etype)
    if bipartite is None:
        ends = pa.chunked_array([*src.chunks, *dst.chunks], src.type)
        ids, count = _number(ends, relabel, num_nodes)
        src_ids, dst_ids = ids[: len(src)], ids[len(src) :]
        ntype, names = None, None
    else:
        if len(set(bipartite)) != 2:
            raise GraphError(f"bipartite is {bipartite!r}: give two distinct node type names")
        src_ids, rows = _number(src, relabel)
        dst_ids, columns = _number(dst, relabel)
        check_range("src", as_ids("src", src_ids), rows, f"{bipartite[0]} nodes")
        check_range("dst", as_ids("dst", dst_ids), columns, f"{bipartite[1]} nodes")
        dst_ids = dst_ids + rows
        if num_nodes not in (None, rows + columns):
            raise GraphError("num_nodes cannot be combined with bipartite: leave it out")
        ntype, names, count = np.repeat([0, 1], [rows, columns]), tuple(bipartite), rows + columns
    etype_ids, etype_names = None, None
    if etype is not None:
        etype, _ = same_type(etype, etype)
        if pa.types.is_integer(etype.type):
            etype_ids = etype.to_numpy()
        else:
            encoded = pc.dictionary_encode(etype).combine_chunks()
            etype_ids = _codes(encoded)
            etype_names = [str(name) for name in encoded.dictionary.to_pylist()]
    return HeteroGraph(
        src_ids,
        dst_ids,
        etype_ids,
        ntype,
        num_nodes=count if num_nodes is None and count else num_nodes,
        etype_names=etype_names,
        ntype_names=names,
    )


def part_of(graph: HeteroGraph, edges: slice | np.ndarray) -> HeteroGraph:
    """Some edges of a graph, with all of its nodes and types."""
    return HeteroGraph(
        graph.src[edges],
        graph.dst[edges],
        graph.etype[edges],
        graph.ntype,
        etype_names=graph.etype_names,
        ntype_names=graph.ntype_names,
    )


def check_filled(
    src: pa.ChunkedArray, dst: pa.ChunkedArray, etype: pa.ChunkedArray | None = None
) -> None:
    """Refuse columns in which a value is missing, with a `GraphError` that names the row."""
    for name, column in (("source", src), ("destination", dst), ("edge type", etype)):
        if column is not None and column.null_count:
            row = pc.index(column.is_null(), True).as_py() + 1
            raise GraphError(f"row {row} has no {name}: fill it in or drop the row")


def trimmed(table: pa.Table) -> pa.Table:
    """A table of text without the blanks around values; null where nothing is left."""
    columns = [pc.utf8_trim_whitespace(column) for column in table.columns]
    filled = [pc.if_else(pc.not_equal(column, ""), column, None) for column in columns]
    return pa.table(filled, names=table.column_names)


def same_type(src: pa.ChunkedArray, dst: pa.ChunkedArray) -> tuple[pa.ChunkedArray, ...]:
    """Both columns as int64 where both hold integers (as numbers or as text), else as text."""
    texts = []
    numbers = []
    for column in (src, dst):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_integer(column.type):
            numbers.append(column.cast(pa.int64()))
            texts.append(column.cast(pa.string()))
            continue
        text = column.cast(pa.string())
        texts.append(text)
        number = _as_integers(text)
        if number is not None:
            numbers.append(number)
    return tuple(numbers) if len(numbers) == 2 else tuple(texts)


def _as_integers(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    try:
        numbers = text.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    # "007" and "+7" are labels: as numbers they would merge with "7".
    return (
        numbers if pc.all(pc.equal(numbers.cast(pa.string()), text)).as_py() is not False else None
    )


def _number(
    column: pa.ChunkedArray, relabel: bool | None, num_nodes: int | None = None
) -> tuple[np.ndarray, int]:
    if pa.types.is_integer(column.type) and not relabel:
        ids = column.to_numpy()
        count = max(0, int(ids.max()) + 1) if len(ids) else 0
        if num_nodes is None:
            check_found("nodes", count, len(ids), "pass relabel=True to number them anew")
        return ids, count
    if relabel is False:
        raise GraphError("the nodes are labels, not integers: leave relabel out")
    encoded = pc.dictionary_encode(column).combine_chunks()
    return _codes(encoded), len(encoded.dictionary)


def _codes(encoded: pa.DictionaryArray) -> np.ndarray:
    codes: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)

"""Text with an edge per line: triples, OpenKE ids and edge lists."""

import gzip
import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders._reading import (
    check_file,
    check_filled,
    check_memory,
    graph_from_columns,
    is_gzip,
    part_of,
    reading,
    same_type,
    trimmed,
)
from hetune.variants.graph.loaders.npz import SPLITS


def load_text(
    path: Path,
    *,
    relabel: bool | None = None,
    num_nodes: int | None = None,
    bipartite: Sequence[str] | None = None,
) -> HeteroGraph:
    """Read `head TAB relation TAB tail`, or two columns `source destination` (also gzipped).

    Columns are separated by tabs, or by blanks where the first line has no tab. Blanks around a
    value are no part of it. Skipped are lines that start with "#" or "%" at the top, and empty ones
    anywhere. Relations that are integers are edge types as they are, others are names.

    A file whose first line is a lone count, or whose name ends in "2id.txt", holds OpenKE's ids:
    after the count `head tail relation` per line. Counts and names come from `entity2id.txt` and
    `relation2id.txt` beside it where they exist.

    Args:
        path: The file.
        relabel: Integers are node ids as they are unless this is True; other labels are always
            numbered in order of first appearance.
        num_nodes: N, where isolated nodes follow the largest id.
        bipartite: Two node type names, where the columns number different things.

    Raises:
        GraphFileError: A line has another number of columns or a value is missing (named by its
            number), OpenKE's count does not match the lines, or the file is empty or cut short.
    """
    check_file(path)
    with reading(path, "text with an edge per line"):
        data = _contents(path)
        skipped, first = _first_line(path, data)
        if path.name.endswith(("2id.txt", "2id.txt.gz")) or re.fullmatch(rb"\d+", first):
            if relabel or num_nodes is not None or bipartite is not None:
                raise GraphFileError(
                    f"{path} holds OpenKE's ids, which are taken as they are: leave relabel, "
                    "num_nodes and bipartite out"
                )
            return _openke(path, data)
        table = _table(path, data, skipped, first)
        src, dst = same_type(table.column(0), table.column(table.num_columns - 1))
        etype = table.column(1) if table.num_columns == 3 else None
        return graph_from_columns(
            src, dst, etype, relabel=relabel, num_nodes=num_nodes, bipartite=bipartite
        )


def _openke(path: Path, data: bytes) -> HeteroGraph:
    if path.name.startswith(("entity2id.", "relation2id.")):
        raise GraphFileError(f"{path} names ids, it holds no edges: load train2id.txt beside it")
    with reading(path, "OpenKE's ids"):
        header = data.partition(b"\n")[0].decode().strip()
        if not header.isdecimal():
            raise GraphFileError(f"{path}, line 1: {header[:40]!r} is not the count of edges")
        count = int(header)
        if 6 * count > len(data) + 1:
            raise GraphFileError(
                f"{path} states {count} edges but has only {len(data)} bytes: fetch it again"
            )
        check_memory(path, 40 * count, f"{count} edges")
        lines = io.BytesIO(data)
        rows = np.loadtxt(lines, dtype=np.int64, skiprows=1, ndmin=2) if count else _no_rows()
        if rows.shape != (count, 3):
            raise GraphFileError(
                f"{path} states {count} edges of 3 columns but has {rows.shape[0]} of "
                f"{rows.shape[1]}: fetch it again"
            )
        entities = _dictionary(path, "entity2id.txt")
        relations = _dictionary(path, "relation2id.txt")
        return HeteroGraph(
            rows[:, 0],
            rows[:, 1],
            rows[:, 2],
            num_nodes=None if entities is None else len(entities),
            etype_names=relations,
            ntype_names=["entity"],
        )


def load_split_folder(path: Path, *, split: str | None = None) -> HeteroGraph:
    """Read a folder with `train.txt`, `valid.txt` and `test.txt` (or `.tsv`) of triples.

    Nodes and relations are numbered over all files, whichever part is asked for; integers are ids
    as they are.

    Args:
        path: The folder.
        split: Only the edges of "train", "valid" or "test".

    Raises:
        GraphFileError: There is no `train` file, or a file cannot be read.
    """
    if split is not None and split not in SPLITS:
        raise GraphFileError(f"split is {split!r}: one of {', '.join(SPLITS)}")
    files = {
        name: file
        for name in SPLITS
        for ending in (".txt", ".tsv")
        if (file := path / f"{name}{ending}").is_file()
    }
    if "train" not in files or (split is not None and split not in files):
        raise GraphFileError(
            f"{path} has no {split or 'train'}.txt or .tsv: a folder has train, valid and test "
            "files of triples, or is an OGB raw folder; of any other give the file of edges "
            "(OpenKE's train2id.txt, say)"
        )
    tables = {}
    for name, file in files.items():
        check_file(file)
        with reading(file, "text with a triple per line"):
            data = _contents(file)
            tables[name] = _table(file, data, *_first_line(file, data))
            if tables[name].num_columns != 3:
                raise GraphFileError(f"{file} has two columns: triples have three")
            head, relation, tail = tables[name].columns
            check_filled(head, tail, relation)
    with reading(path, "a folder of triples"):
        table = pa.concat_tables([t.rename_columns(["h", "r", "t"]) for t in tables.values()])
        src, dst = same_type(table["h"], table["t"])
        graph = graph_from_columns(src, dst, table["r"])
    if split is None:
        return graph
    starts = dict(zip(tables, np.cumsum([0, *map(len, tables.values())]).tolist(), strict=False))
    return part_of(graph, slice(starts[split], starts[split] + len(tables[split])))


def _contents(path: Path) -> bytes:
    check_memory(path, 4 * path.stat().st_size, "its text")
    return gzip.decompress(path.read_bytes()) if is_gzip(path) else path.read_bytes()


def _first_line(path: Path, data: bytes) -> tuple[int, bytes]:
    """How many lines to skip, and the first line after them, stripped."""
    start = 0
    skipped = 0
    while start < len(data):
        end = data.find(b"\n", start)
        line = data[start : end if end >= 0 else len(data)].strip(b" \r\n")
        if line and line[:1] not in b"#%":
            return skipped, line
        skipped += 1
        start = end + 1 if end >= 0 else len(data)
    raise GraphFileError(f"{path} holds no edge: check that it is the right file")


def _table(path: Path, data: bytes, skipped: int, first: bytes) -> pa.Table:
    delimiter = "\t"
    columns = len(first.split(b"\t"))
    if columns not in (2, 3):
        # Blanks of any number separate columns; tabs among them do too (cora.cites has both).
        columns = len(first.split())
        data = re.sub(rb"[ \t]+", b"\t", data)
        data = re.sub(rb"(?m)^\t|\t(?=\r?$)", b"", data)
    if columns not in (2, 3):
        raise GraphFileError(
            f"{path}, line {skipped + 1}: {columns} columns; give 'source destination' or "
            "'head TAB relation TAB tail'"
        )
    names = [str(i) for i in range(columns)]
    table = pyarrow.csv.read_csv(
        pa.BufferReader(data),
        read_options=pyarrow.csv.ReadOptions(
            column_names=names, skip_rows=skipped, use_threads=False
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )
    return trimmed(table)


def _no_rows() -> np.ndarray:
    return np.empty((0, 3), dtype=np.int64)


def _dictionary(beside: Path, name: str) -> list[str] | None:
    """Names by id of an OpenKE dictionary; None where the file does not exist."""
    there = (beside.with_name(file) for file in (name, f"{name}.gz"))
    path = next((file for file in there if file.is_file()), None)
    if path is None:
        return None
    lines = _contents(path).decode().splitlines()
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

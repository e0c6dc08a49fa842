"""Matrix Market files in coordinate format."""

import re
from pathlib import Path

import numpy as np
import scipy.sparse

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.convert.scipy import from_scipy
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.compressed import contents
from hetune.variants.graph.loaders.edge_table import check_filled
from hetune.variants.graph.loaders.file_errors import check_memory
from hetune.variants.graph.loaders.id_columns import column_of
from hetune.variants.graph.loaders.options import NameOptions
from hetune.variants.graph.loaders.text_rows import Dialect, Text, read_rows
from hetune.variants.graph.rename import named_by_number

_BANNER = re.compile(
    rb"%%MatrixMarket[ \t]+matrix[ \t]+(\w+)[ \t]+(\w+)[ \t]+([\w-]+)[ \t]*\r?\n", re.IGNORECASE
)
_SIZE = re.compile(
    rb"(?:[ \t\r]*(?:%[^\n]*)?\n)*[ \t]*(\d+)[ \t]+(\d+)[ \t]+(\d+)[ \t\r]*(?:\n|\Z)"
)
_VALUES = {b"pattern": 0, b"real": 1, b"double": 1, b"integer": 1, b"complex": 2}
_SYMMETRIES = (b"general", b"symmetric", b"skew-symmetric", b"hermitian")
_SHORTEST = len(b"1 1\n")


def load_matrix_market(path: Path, options: NameOptions) -> HeteroGraph:
    """Read a `.mtx` in coordinate format: entry (i, j) is an edge i -> j.

    A symmetric file gives both directions. A matrix that is not square gives the two node types
    "row" and "col". Values are not looked at.

    Raises:
        GraphFileError: It is dense, malformed, or cut short.
    """
    data = contents(path)
    values, symmetry, start = _banner(path, data)
    size = _SIZE.match(data, start)
    if size is None:
        raise ValueError("no line of sizes after the first")
    rows, columns, entries = (int(number[:30]) for number in size.groups())
    if _SHORTEST * entries > len(data):
        raise GraphFileError(
            f"{path} states {entries} entries but has only {len(data)} bytes: fetch it again"
        )
    stored = entries * (1 if symmetry == b"general" else 2)
    check_memory(path, 40 * stored + 8 * (rows + columns), f"a {rows} x {columns} matrix")
    i, j = _entries(Text(path, data[size.end() :], 0), entries, 2 + values)
    if symmetry != b"general":
        is_off = i != j
        i, j = np.concatenate([i, j[is_off]]), np.concatenate([j, i[is_off]])
    ones = np.ones(len(i), np.int8)
    graph = from_scipy(scipy.sparse.coo_array((ones, (i, j)), shape=(rows, columns)))
    is_typed = None if graph.num_ntypes > 1 else False
    return named_by_number(graph, options.known, relations=False, node_types=is_typed)


def _banner(path: Path, data: bytes) -> tuple[int, bytes, int]:
    """How many values an entry has, the symmetry, and where the next line begins."""
    banner = _BANNER.match(data)
    if banner is None:
        raise ValueError("the first line is no %%MatrixMarket matrix ...")
    layout, field, symmetry = (word.lower() for word in banner.groups())
    if layout == b"array":
        raise GraphFileError(
            f"{path} holds a dense array: write its sparse form with "
            "scipy.io.mmwrite(path, scipy.sparse.coo_array(dense))"
        )
    if layout != b"coordinate" or field not in _VALUES or symmetry not in _SYMMETRIES:
        raise ValueError("the first line names no known layout, values or symmetry")
    return _VALUES[field], symmetry, banner.end()


def _entries(text: Text, entries: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries, from 0, int64."""
    if not entries and not text.data.strip():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    table = read_rows(text, Dialect(" "), columns, (0, 1))
    if table.num_rows != entries:
        raise ValueError(f"{entries} entries are stated, but there are {table.num_rows}")
    found = []
    for name in ("0", "1"):
        check_filled({"row" if name == "0" else "column": table[name]})
        ids = column_of("index", table[name]).ids
        if ids is None:
            raise ValueError("an index is no integer")
        found.append(ids.to_numpy() - 1)
    return found[0], found[1]

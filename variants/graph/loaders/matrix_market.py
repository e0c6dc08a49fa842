"""Matrix Market files, through SciPy."""

import io
from pathlib import Path

import scipy.io
import scipy.sparse

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.convert.scipy import from_scipy
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders._compressed import contents, is_plain
from hetune.variants.graph.loaders._reading import check_file, check_memory, reading
from hetune.variants.graph.loaders.options import NameOptions
from hetune.variants.graph.rename import named_by_number


def load_matrix_market(path: Path, options: NameOptions) -> HeteroGraph:
    """Read a `.mtx` in coordinate format: entry (i, j) is an edge i -> j.

    A symmetric file gives both directions. A matrix that is not square gives the two node types
    "row" and "col". Values are not looked at.

    Raises:
        GraphFileError: It is dense, malformed, or cut short.
    """
    size = check_file(path)
    with reading(path, "a Matrix Market file"):
        # SciPy goes by the name, and knows two of the compressions.
        data = b"" if is_plain(path) else contents(path)
        size = len(data) or size
        rows, columns, entries, layout, _, symmetry = scipy.io.mminfo(_source(path, data))
        if layout != "coordinate":
            raise GraphFileError(
                f"{path} holds a dense array: write its sparse form with "
                "scipy.io.mmwrite(path, scipy.sparse.coo_array(dense))"
            )
        # The shortest entry is "1 1\n".
        if 4 * entries > size:
            raise GraphFileError(
                f"{path} states {entries} entries but has only {size} bytes: fetch it again"
            )
        stored = entries * (1 if symmetry == "general" else 2)
        check_memory(path, 40 * stored + 8 * (rows + columns), f"a {rows} x {columns} matrix")
        graph = from_scipy(scipy.sparse.coo_array(scipy.io.mmread(_source(path, data))))
        is_typed = None if graph.num_ntypes > 1 else False
        return named_by_number(graph, options.known, relations=False, node_types=is_typed)


def _source(path: Path, data: bytes) -> Path | io.BytesIO:
    return io.BytesIO(data) if data else path

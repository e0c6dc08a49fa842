"""Which loader reads which path. Loaders and their libraries are imported when they are needed."""

import importlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph

_LOADERS = {
    ".npz": "npz.load_npz",
    ".nt": "rdf.load_ntriples",
    ".nt.gz": "rdf.load_ntriples",
    ".ttl": "rdf.load_turtle",
    ".ttl.gz": "rdf.load_turtle",
    ".tsv": "text.load_text",
    ".tsv.gz": "text.load_text",
    ".txt": "text.load_text",
    ".txt.gz": "text.load_text",
    ".mtx": "matrix_market.load_matrix_market",
    ".mtx.gz": "matrix_market.load_matrix_market",
    ".csv": "tables.load_csv",
    ".csv.gz": "tables.load_csv",
    ".parquet": "tables.load_parquet",
}
"""Modules beside this one, and functions in them."""
_Loader = Callable[..., HeteroGraph]


def formats() -> tuple[str, ...]:
    """The file endings that `load` knows. It also reads OGB raw folders and split folders."""
    return tuple(_LOADERS)


def load(path: str | os.PathLike[str], *, format: str | None = None, **options: Any) -> HeteroGraph:
    """Read a graph from a file, by its ending, or from a folder.

    Args:
        path: A file with one of the endings of `formats()`, an OGB raw folder, or a folder with
            `train.txt`, `valid.txt` and `test.txt`.
        format: The ending to go by in place of the file's own: ".txt".
        options: What the loader takes, e.g. `split=` for `.npz`, `node_types=` for RDF, `src=` and
            `dst=` for tables, `relabel=` for text.

    Raises:
        GraphFileError: No loader knows the ending or an option, or the file is unreadable, cut
            short, empty or wrong; the message names the file and, where possible, the line.
    """
    where = Path(path)
    loader = _loader(where, format)
    known = list(inspect.signature(loader).parameters)[1:]
    for option in options:
        if option not in known:
            raise GraphFileError(
                f"{where}: no option {option!r} for such a file; it takes "
                f"{', '.join(known) or 'none'}"
            )
    return loader(where, **options)


def _loader(path: Path, ending: str | None) -> _Loader:
    if ending is None and path.is_dir():
        from hetune.variants.graph.loaders.ogb import load_ogb, raw_folder
        from hetune.variants.graph.loaders.text import load_split_folder

        return load_ogb if raw_folder(path) is not None else load_split_folder
    name = path.name.lower() if ending is None else f".{ending.lower().removeprefix('.')}"
    matching = [known for known in _LOADERS if name.endswith(known)]
    if not matching:
        raise GraphFileError(
            f"{path}: no loader for {ending or path.suffix!r}; rename it to, or pass format= "
            f"with, one of {', '.join(_LOADERS)}"
        )
    module, _, function = _LOADERS[max(matching, key=len)].partition(".")
    loader: _Loader = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return loader

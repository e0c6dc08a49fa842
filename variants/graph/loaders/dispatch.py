"""Which loader reads which path."""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.matrix_market import load_matrix_market
from hetune.variants.graph.loaders.npz import load_npz
from hetune.variants.graph.loaders.ogb import load_ogb, raw_folder
from hetune.variants.graph.loaders.rdf import load_ntriples, load_turtle
from hetune.variants.graph.loaders.tables import load_csv, load_parquet
from hetune.variants.graph.loaders.text import load_split_folder, load_text

_LOADERS: dict[str, Callable[..., HeteroGraph]] = {
    ".npz": load_npz,
    ".nt": load_ntriples,
    ".nt.gz": load_ntriples,
    ".ttl": load_turtle,
    ".ttl.gz": load_turtle,
    ".tsv": load_text,
    ".tsv.gz": load_text,
    ".txt": load_text,
    ".txt.gz": load_text,
    ".mtx": load_matrix_market,
    ".mtx.gz": load_matrix_market,
    ".csv": load_csv,
    ".csv.gz": load_csv,
    ".parquet": load_parquet,
}


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


def _loader(path: Path, ending: str | None) -> Callable[..., HeteroGraph]:
    if ending is None and path.is_dir():
        return load_ogb if raw_folder(path) is not None else load_split_folder
    name = path.name.lower() if ending is None else f".{ending.lower().removeprefix('.')}"
    matching = [known for known in _LOADERS if name.endswith(known)]
    if not matching:
        raise GraphFileError(
            f"{path}: no loader for {ending or path.suffix!r}; rename it to, or pass format= "
            f"with, one of {', '.join(_LOADERS)}"
        )
    return _LOADERS[max(matching, key=len)]

"""Which loader reads which path. Loaders and their libraries are imported when they are needed."""

import dataclasses
import importlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.file_errors import check_file, reading
from hetune.variants.graph.loaders.option_types import check_kinds
from hetune.variants.graph.loaders.options import COMPRESSED, NameOptions
from hetune.variants.graph.renumber import renumbered

_LINES = "text.load_text", "text with an edge per line"
_TEXTS = {
    ".nt": ("ntriples.load_ntriples", "an N-Triples file"),
    ".ttl": ("turtle.load_turtle", "Turtle"),
    ".tsv": _LINES,
    ".txt": _LINES,
    ".mtx": ("matrix_market.load_matrix_market", "a Matrix Market file"),
    ".csv": ("tables.load_csv", "a CSV table"),
}
"""Functions of the modules here, and what files are, of those that may be compressed."""
_LOADERS = {
    ".npz": ("npz.load_npz", "an .npz graph"),
    ".parquet": ("tables.load_parquet", "a Parquet file"),
    **{
        f"{name}{ending}": loader for name, loader in _TEXTS.items() for ending in ("", *COMPRESSED)
    },
}
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
        options: What the loader takes: the fields of `TextOptions` for text and CSV, `TableOptions`
            for Parquet, `SplitFolderOptions`, `NpzOptions`, `RdfOptions` for Turtle,
            `NTriplesOptions`, and for others `NameOptions`, which all have: `vocabulary`, `like`
            and `unknown`. All are in `hetune.variants.graph.loaders.options`.

    Raises:
        GraphFileError: No loader knows the ending or an option, or the file is unreadable, cut
            short, empty or wrong; the message names the file and, where possible, the line.
    """
    where = Path(path)
    if format is not None and not isinstance(format, str):
        raise GraphFileError(f'{where}: format is {format!r}: give an ending, such as ".txt"')
    loader, what = _loader(where, format)
    kind = inspect.signature(loader, eval_str=True).parameters["options"].annotation
    shared = [field.name for field in dataclasses.fields(NameOptions)]
    takes = [field.name for field in dataclasses.fields(kind)]
    takes = [*(name for name in takes if name not in shared), *shared]
    for option in options:
        if option not in takes:
            raise GraphFileError(
                f"{where}: no option {option!r} for such a file; it takes {', '.join(takes)}"
            )
    check_kinds(where, kind, options)
    given: NameOptions = kind(**options)
    vocabulary = given.known
    with reading(where, what):
        if format is not None or not where.is_dir():
            check_file(where)
        graph = loader(where, dataclasses.replace(given, vocabulary=vocabulary, like=None))
        if vocabulary is None:
            return graph
        return renumbered(graph, vocabulary, unknown=given.unknown)


def _loader(path: Path, ending: str | None) -> tuple[_Loader, str]:
    """What reads a path, and what the path should be."""
    if ending is None and path.is_dir():
        from hetune.variants.graph.loaders.ogb import load_ogb, raw_folder
        from hetune.variants.graph.loaders.text import load_split_folder

        if raw_folder(path) is not None:
            return load_ogb, "an OGB raw folder"
        return load_split_folder, "a folder of triples"
    name = path.name.lower() if ending is None else f".{ending.lower().removeprefix('.')}"
    matching = [known for known in _LOADERS if name.endswith(known)]
    if not matching:
        texts = ", ".join(_TEXTS)
        raise GraphFileError(
            f"{path}: no loader for {ending or path.suffix!r}; pass format= with, or rename it to, "
            f"one of .npz, .parquet, {texts}; the last {len(_TEXTS)} may be compressed "
            f"({', '.join(COMPRESSED)}), which is found out"
        )
    name, what = _LOADERS[max(matching, key=len)]
    module, _, function = name.partition(".")
    loader: _Loader = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return loader, what

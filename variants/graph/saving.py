"""Graphs in files that `load` reads back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from hetune.variants.errors import GraphFileError
from hetune.variants.graph import _edge_data
from hetune.variants.graph._node_names import packed
from hetune.variants.graph.typed_edges import TypedEdges


def save(graph: TypedEdges, path: str | os.PathLike[str]) -> None:
    """Writes the `.npz` that `hetune.load` reads back: arrays, names, triples and edge data.

    Args:
        graph: What to write; its device is not kept.
        path: Of the file, which ends in ".npz". One that is there is replaced.

    Raises:
        GraphFileError: The name ends otherwise, the file cannot be written, a name of a type
            ends in a zero byte, or NumPy lacks the dtype of edge data.
    """
    where = Path(path)
    if where.suffix.lower() != ".npz":
        raise GraphFileError(f"{where}: graphs are written as .npz: name it {where.stem}.npz")
    columns: dict[str, Any] = {
        name: getattr(graph, name).cpu().numpy() for name in ("src", "dst", "etype", "ntype")
    }
    columns["ntype_names"] = _strings("ntype_names", graph.ntype_names)
    columns["etype_names"] = _strings("etype_names", graph.etype_names)
    if (triples := graph.vocabulary(node_names=False).canonical_etypes) is not None:
        columns["canonical_etypes"] = _strings("canonical_etypes", triples)
    if graph.node_names is not None:
        columns |= packed(graph.node_names)
    columns |= _edge_data.packed(graph.edge_data)
    try:
        with where.open("wb") as file:
            np.savez(file, **columns)
    except OSError as error:
        raise GraphFileError(f"{where} cannot be written: {error.strerror or error}") from error


def _strings(what: str, names: tuple[object, ...]) -> np.ndarray:
    found = np.array(names, dtype=np.str_)
    if found.tolist() != [list(name) if isinstance(name, tuple) else name for name in names]:
        raise GraphFileError(f"{what} has a name that ends in a zero byte: rename it")
    return found

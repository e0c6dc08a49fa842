"""What edges can be read from in chunks, by a path."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from hetune.variants.graph.loaders.ogb import raw_folder
from hetune.variants.partition.edge_files import ENDINGS, EdgeFile
from hetune.variants.partition.ogb_edges import OgbFolder

EdgeSource: TypeAlias = EdgeFile | OgbFolder


def edge_source(path: Path) -> EdgeSource:
    """The file or folder of edges.

    Raises:
        GraphFileError: It cannot be read in chunks.
    """
    if not path.is_dir():
        return EdgeFile(path)
    packed = _packed(path)
    return OgbFolder(path) if packed is None else EdgeFile(packed)


def is_edge_source(path: Path) -> bool:
    """Whether edges there may be read in chunks."""
    if not path.is_dir():
        return path.is_file() and path.suffix in ENDINGS
    return _packed(path) is not None or raw_folder(path) is not None


def _packed(folder: Path) -> Path | None:
    """The file that the largest of OGB's graphs are in, as ogbn-papers100M."""
    files = [place / "data.npz" for place in (folder, folder / "raw")]
    return next((file for file in files if file.is_file()), None)

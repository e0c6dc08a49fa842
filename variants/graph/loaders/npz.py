"""NumPy archives: src, dst, etype, ntype, their names and, for knowledge graphs, a split."""

import math
import zipfile
from pathlib import Path

import numpy as np

from hetune.variants.errors import GraphFileError
from hetune.variants.graph import _edge_data, _node_names
from hetune.variants.graph._arrays import as_ids, check_range
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.edge_table import part_of
from hetune.variants.graph.loaders.file_errors import check_memory
from hetune.variants.graph.loaders.npz_members import read_header
from hetune.variants.graph.loaders.options import NpzOptions
from hetune.variants.graph.rename import named_by_number, with_names

SPLITS = ("train", "valid", "test")
_REQUIRED = ("src", "dst")
_NAMES = ("etype_names", "ntype_names", "canonical_etypes", *_node_names.ARRAYS)
_KNOWN = (*_REQUIRED, "etype", "ntype", *_NAMES, "split")


def load_npz(path: Path, options: NpzOptions) -> HeteroGraph:
    """Read a `.npz` of flat arrays; never unpickles.

    Arrays: `src`, `dst` int [E] global node ids; optional `etype` int [E], `ntype` int [N],
    `etype_names` [R], `ntype_names` [T] and `canonical_etypes` [R, 3] str, `split` int8 [E]
    (0 train, 1 valid, 2 test); `edge_data/<name>`, numbers [E, ...]. `HeteroGraph.save` writes such
    files, with names of nodes where it has any: `named_ntypes` str, their names one after the other
    as `node_name_utf8` uint8, and where each begins as `node_name_offsets` int64.

    Raises:
        GraphFileError: The file is unreadable, cut short, or lacks an array.
    """
    _check_sizes(path)
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files if _is_known(name)}
        found = archive.files
    for name in _REQUIRED:
        if name not in arrays:
            raise GraphFileError(f"{path} has no array {name!r} but {sorted(found)}: add it")
    _check_ids(arrays)
    graph = HeteroGraph(
        arrays["src"],
        arrays["dst"],
        arrays.get("etype"),
        arrays.get("ntype"),
        num_nodes=options.num_nodes,
        num_etypes=options.num_etypes,
        etype_names=arrays.get("etype_names"),
        ntype_names=arrays.get("ntype_names"),
        canonical_etypes=arrays.get("canonical_etypes"),
        edge_data=_edge_data.unpacked(arrays),
    )
    counts = np.diff(graph.node_offsets).tolist()
    if names := _node_names.unpacked(arrays, graph.ntype_names, counts):
        graph = with_names(graph, node_names=names)
    etypes = None if "etype_names" in arrays else "etype" in arrays
    ntypes = None if "ntype_names" in arrays else "ntype" in arrays
    graph = named_by_number(graph, options.known, relations=etypes, node_types=ntypes)
    if options.split is None:
        return graph
    return part_of(graph, _chosen(path, arrays, options.split))


def _is_known(name: str) -> bool:
    return name in _KNOWN or name.startswith(_edge_data.PREFIX)


def _check_ids(arrays: dict[str, np.ndarray]) -> None:
    """Against the counts that the file itself states, which no option changes."""
    if "ntype" in arrays and arrays["ntype"].ndim == 1:
        for name in _REQUIRED:
            check_range(name, as_ids(name, arrays[name]), len(arrays["ntype"]), "nodes")
    if "etype_names" in arrays and "etype" in arrays and arrays["etype_names"].ndim == 1:
        etype = as_ids("etype", arrays["etype"])
        check_range("etype", etype, len(arrays["etype_names"]), "edge types")


def _chosen(path: Path, arrays: dict[str, np.ndarray], split: str) -> np.ndarray:
    """Whether each edge is of that part."""
    if split not in SPLITS:
        raise GraphFileError(f"split is {split!r}: one of {', '.join(SPLITS)}")
    if "split" not in arrays:
        raise GraphFileError(f"{path} has no array 'split': leave split out")
    if arrays["split"].shape != arrays["src"].shape:
        raise GraphFileError(f"{path}: split has another length than src: write it again")
    chosen: np.ndarray = arrays["split"] == SPLITS.index(split)
    return chosen


def _check_sizes(path: Path) -> None:
    """Compare the shape that each array's header states with the bytes that are there."""
    total = 0
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as member:
                shape, _, dtype = read_header(member)
                stated = math.prod(shape) * dtype.itemsize
                if dtype.hasobject:
                    raise GraphFileError(
                        f"{path}: array {info.filename} holds Python objects, which are never "
                        "unpickled: save numbers and fixed-width strings"
                    )
                there = info.file_size - member.tell()
                if stated != there:
                    raise GraphFileError(
                        f"{path}: array {info.filename} states shape {shape} of {dtype}, "
                        f"{stated} bytes, but holds {there}: fetch it again"
                    )
                total += stated
    check_memory(path, 2 * total, "its arrays")

"""The features of a graph in C++ (`graph.cpp`), called through ctypes."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import torch

from hetune.variants.graph.index import GraphIndex
from hetune.variants.registry import load_packaged

_MOST_FEATURES = 128


@cache
def library() -> ctypes.CDLL:
    """The compiled source.

    Raises:
        CompileError: There is no compiler, or it refused the source.
    """
    what, package = "features of a typed graph", "hetune.costmodel.features"
    compiled = load_packaged(package, "graph.cpp", "graph-features", what)
    compiled.hetune_graph_features.argtypes = [ctypes.c_void_p] * 9 + [ctypes.c_int64]
    compiled.hetune_graph_features.restype = ctypes.c_int64
    return compiled


def features_of(index: GraphIndex, num_ntypes: int) -> np.ndarray:
    """The features of a graph, in the order of `graph.NAMES`.

    Args:
        index: Of the whole graph.
        num_ntypes: Its number of node types.

    Returns:
        float64 [features].
    """
    stats = index.relation_stats
    pairs = index.num_src_pairs, index.num_dst_pairs
    counts = np.array(
        [index.num_ids, index.num_edges, num_ntypes, index.num_etypes, *pairs], np.int64
    )
    no_targets = index.indptr[-1:].expand(index.num_ids - index.num_nodes)
    indptr = torch.cat([index.indptr, no_targets]) if len(no_targets) else index.indptr
    lists = index.src, index.src_pair_of_edge, indptr, index.dst_pair_etype
    by_relation = stats.edges, stats.src_pairs, stats.dst_pairs
    out = np.empty(_MOST_FEATURES)
    found = library().hetune_graph_features(
        counts.ctypes.data,
        *(ids.data_ptr() for ids in lists),
        *(numbers.ctypes.data for numbers in by_relation),
        out.ctypes.data,
        torch.get_num_threads(),
    )
    if found < 0:
        raise MemoryError("out of memory while a graph's features were computed")
    return out[:found].copy()

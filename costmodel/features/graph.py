"""Numbers that say what running a layer on a graph will cost: `docs/features.md` has formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from hetune.costmodel.features import graph_native
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.state import GraphSlot
from hetune.variants.plan.choices import Side
from hetune.variants.plan.sides import side_of

CACHED_ROWS_BITS = (6, 9, 12, 15, 18)
CACHED_ROWS = tuple(1 << bits for bits in CACHED_ROWS_BITS)
"""Sizes of caches, in rows, for which features say what share of gathers misses."""

NAMES: tuple[str, ...] = (
    "num_nodes",
    "num_edges",
    "num_ntypes",
    "num_etypes",
    "used_etypes",
    "src_pairs",
    "dst_pairs",
    "hybrid_rows",
    "sources",
    "destinations",
    "isolated_nodes",
    "src_pairs_per_edge",
    "dst_pairs_per_edge",
    "hybrid_rows_per_edge",
    "src_side_edge_share",
    "etypes_per_source",
    "etypes_per_destination",
    "in_degree_mean",
    "in_degree_p50",
    "in_degree_p90",
    "in_degree_p99",
    "in_degree_max",
    "in_degree_gini",
    "in_degree_cv",
    "in_degree_top_share",
    "in_degree_hub_share",
    "out_degree_mean",
    "out_degree_p99",
    "out_degree_max",
    "out_degree_gini",
    "out_degree_cv",
    "out_degree_top_share",
    "out_degree_hub_share",
    "relation_edges_max",
    "relation_edges_max_share",
    "relation_edges_p50",
    "relation_edges_gini",
    "effective_relations",
    "dst_pairs_per_etype_256",
    "dst_pairs_per_etype_4096",
    "near_gathers",
    *(f"src_misses_{rows}" for rows in CACHED_ROWS),
    *(f"src_pair_misses_{rows}" for rows in CACHED_ROWS),
)
"""Names of a graph's features, in their order; counts, and shares and ratios without a unit."""

_FEATURES = GraphSlot[None, np.ndarray]()


def graph_features(graph: HeteroGraph) -> np.ndarray:
    """The features of a graph, computed once and kept on it.

    The order in which a graph's edges were given does not matter, nor does the number of threads.

    Args:
        graph: Any graph, empty ones included.

    Returns:
        float64 [`NAMES`], finite and not negative; read-only.
    """

    def computed() -> np.ndarray:
        features = graph_native.features_of(GraphIndex.of(graph), graph.num_ntypes)
        features.flags.writeable = False
        return features

    return graph.state.of(_FEATURES, None, computed)


def side(features: Sequence[float] | np.ndarray) -> Side:
    """The side that a graph has alone, if it has, by its `graph_features`.

    None is known by features of another version of hetune.
    """
    if len(features) != len(NAMES):
        return ""
    return side_of(features[NAMES.index("src_side_edge_share")])


def missing_share(
    features: np.ndarray, table: Literal["src", "src_pair"], cached_rows: np.ndarray
) -> np.ndarray:
    """The share of gathers that find their row in no cache of some size, between 0 and 1.

    Args:
        features: `graph_features` of the graph, float64 [`NAMES`].
        table: What edges gather from: a row for each source node, or for each source pair.
        cached_rows: How many rows the cache holds, any shape.

    Returns:
        float64, of the shape of `cached_rows`: linear in the logarithm of the rows between those
        of `CACHED_ROWS`, 1 where one row or none is held, and constant above.
    """
    first = NAMES.index(f"{table}_misses_{CACHED_ROWS[0]}")
    shares = features[first : first + len(CACHED_ROWS)].tolist()
    held = np.log2(np.maximum(cached_rows, 1))
    known = (0, *CACHED_ROWS_BITS)
    found: np.ndarray = np.interp(held, known, (1.0 if shares[0] > 0 else 0.0, *shares))
    return found

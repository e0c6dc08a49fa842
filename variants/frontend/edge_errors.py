"""What is wrong with a call's edges, in the words of the call.

A graph that is made of them names arguments of `HeteroGraph`, which such a call does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from hetune.variants.errors import GraphError
from hetune.variants.graph import CanonicalEtype


def flat_error(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, cause: GraphError
) -> GraphError:
    """Why ``(x, edge_index, edge_type)`` is no graph.

    Args:
        edge_index: Integers [2, E].
        edge_type: Integers.
        num_nodes: Rows of x.
        num_relations: Relations of the layer.
        cause: What is said if none of the usual mistakes is found.
    """
    edges = edge_index.shape[1]
    if edge_type.dim() != 1 or edge_type.numel() != edges:
        return GraphError(
            f"edge_type has shape {list(edge_type.shape)} but edge_index has {edges} edges: give "
            f"one type for each edge, shape [{edges}]"
        )
    if edge_type.device != edge_index.device:
        return GraphError(
            f"edge_type is on {edge_type.device} but edge_index is on {edge_index.device}: move "
            "one of them"
        )
    found = _end_error("edge_index", edge_index, ("x", "x"), (num_nodes, num_nodes))
    if found is not None:
        return found
    if (wrong := _first_outside(edge_type, num_relations)) is None:
        return cause
    position, value = wrong
    most = int(edge_type.max())
    mend = (
        "types count from 0"
        if value < 0
        else f"make it with num_relations={most + 1}, or number the types anew"
    )
    return GraphError(
        f"edge_type[{position}] is {value}, but the layer was made for {num_relations} relations "
        f"(types 0..{num_relations - 1}): {mend}"
    )


def hetero_error(
    edges: Mapping[CanonicalEtype, Tensor],
    x_dict: Mapping[str, Tensor],
    etypes: list[CanonicalEtype],
    cause: GraphError,
) -> GraphError:
    """Why ``(x_dict, edge_index_dict)`` is no graph for a layer.

    Args:
        edges: Integers [2, E_r] by edge type.
        x_dict: Rows of each node type.
        etypes: Edge types of the layer's metadata.
        cause: What is said if none of the usual mistakes is found.
    """
    for key, edge_index in edges.items():
        if key not in etypes:
            return GraphError(
                f"edge_index_dict has the key {key!r}, but the layer was made for the edge types "
                f"{', '.join(map(str, etypes))}: leave it out, or make the layer with metadata "
                "that has it"
            )
        ends = key[0], key[2]
        names = (f"x_dict[{ends[0]!r}]", f"x_dict[{ends[1]!r}]")
        rows = tuple(x_dict[name].shape[0] if name in x_dict else 0 for name in ends)
        found = _end_error(f"edge_index_dict[{key}]", edge_index, names, rows)
        if found is not None:
            return found
    return cause


def _end_error(
    name: str, edge_index: Tensor, features: Sequence[str], rows: Sequence[int]
) -> GraphError | None:
    for end in (0, 1):
        if (wrong := _first_outside(edge_index[end], rows[end])) is None:
            continue
        position, value = wrong
        mend = (
            "ids count its rows from 0"
            if value < 0
            else "give it a row for each node, or ids of the rows that it has"
        )
        there = f"{features[end]} has {rows[end]} rows"
        return GraphError(f"{name}[{end}, {position}] is {value}, but {there}: {mend}")
    return None


def _first_outside(ids: Tensor, limit: int) -> tuple[int, int] | None:
    """Position and value of the first id that is none of 0..limit - 1."""
    wrong = (ids < 0) | (ids >= limit)
    if not bool(wrong.any()):
        return None
    position = int(wrong.int().argmax())
    return position, int(ids[position])

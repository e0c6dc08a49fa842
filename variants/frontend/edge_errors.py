"""What is wrong with a call's edges, in the words of the call.

A graph that is made of them names arguments of `HeteroGraph`, which such a call does not have.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from hetune.variants.errors import GraphError
from hetune.variants.graph import CanonicalEtype


def check_edge_tensors(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int
) -> None:
    """Raise `GraphError` for the usual mistakes in ``(x, edge_index, edge_type)``.

    Args:
        edge_index: Integers [2, E].
        edge_type: Integers.
        num_nodes: Rows of x.
        num_relations: Relations of the layer.
    """
    edges = edge_index.shape[1]
    if edge_type.dim() != 1 or edge_type.numel() != edges:
        raise GraphError(
            f"edge_type has shape {list(edge_type.shape)} but edge_index has {edges} edges: give "
            f"one type for each edge, shape [{edges}]"
        ) from None
    if edge_type.device != edge_index.device:
        raise GraphError(
            f"edge_type is on {edge_type.device} but edge_index is on {edge_index.device}: move "
            "one of them"
        ) from None
    for end in (0, 1):
        _check_end("edge_index", edge_index, end, "x", num_nodes)
    if (wrong := _first_outside(edge_type, num_relations)) is not None:
        position, value = wrong
        mend = f"make it with num_relations={int(edge_type.max()) + 1}, or number the types anew"
        raise GraphError(
            f"edge_type[{position}] is {value}, but the layer was made for {num_relations} "
            f"relations (types 0..{num_relations - 1}): "
            f"{'types count from 0' if value < 0 else mend}"
        ) from None


def check_edge_dict(
    edges: Mapping[CanonicalEtype, Tensor],
    x_dict: Mapping[str, Tensor],
    etypes: list[CanonicalEtype],
) -> None:
    """Raise `GraphError` for the usual mistakes in ``(x_dict, edge_index_dict)``.

    Args:
        edges: Integers [2, E_r] by edge type.
        x_dict: Rows of each node type.
        etypes: Edge types of the layer's metadata.
    """
    for key, edge_index in edges.items():
        if key not in etypes:
            raise GraphError(
                f"edge_index_dict has the key {key!r}, but the layer was made for the edge types "
                f"{', '.join(map(str, etypes))}: leave it out, or make the layer with metadata "
                "that has it"
            ) from None
        for end, name in ((0, key[0]), (1, key[2])):
            rows = x_dict[name].shape[0] if name in x_dict else 0
            _check_end(f"edge_index_dict[{key}]", edge_index, end, f"x_dict[{name!r}]", rows)


def _check_end(name: str, edge_index: Tensor, end: int, features: str, rows: int) -> None:
    if (wrong := _first_outside(edge_index[end], rows)) is not None:
        position, value = wrong
        mend = "give it a row for each node, or ids of the rows that it has"
        raise GraphError(
            f"{name}[{end}, {position}] is {value}, but {features} has {rows} rows: "
            f"{'ids count its rows from 0' if value < 0 else mend}"
        ) from None


def _first_outside(ids: Tensor, limit: int) -> tuple[int, int] | None:
    """Position and value of the first id that is none of 0..limit - 1."""
    wrong = ((ids < 0) | (ids >= limit)).nonzero()
    return (int(wrong[0]), int(ids[wrong[0]])) if len(wrong) else None

"""PyG's layers called with torch's sparse matrices in place of an edge_index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.tracing.arguments import CallArguments, read_arguments
from hetune.variants.frontend.tracing.edge_module import EdgeModule
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.sparse_tensors import is_sparse, made_of
from hetune.variants.frontend.tracing.symbols import symbols_in

_VALUES, _LAYOUT = " values", " layout"
"""What the names of a matrix's parts end with; its entries have its own name."""
_ONES = " of ones"


def has_matrix(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call's edges are a sparse matrix of torch's: rows of nodes may be one, too."""
    values = (*args, *kwargs.values())
    return any(map(is_sparse, values)) and not any(map(_is_edge_index, values))


def _is_edge_index(value: object) -> bool:
    if not isinstance(value, Tensor) or value.is_floating_point():
        return False
    return value.dim() == 2 and len(value) == 2


@dataclass(frozen=True, slots=True, eq=False)
class AdjacencyArguments(CallArguments):
    """Those of a call with a matrix, whose entries are there once each."""

    def drawn(self, random: torch.Generator, num_nodes: int) -> CallArguments:
        """As of `CallArguments`, each edge once, in the matrix's order."""
        found = CallArguments.drawn(self, random, num_nodes)
        ends = found.values[self.edges].flip(0).unique(dim=1).flip(0)
        weights = found.values[self.edges + _VALUES][: ends.shape[1]]
        if self.values[self.edges + _LAYOUT].endswith(_ONES):
            weights = torch.ones_like(weights)
        parts = {self.edges: ends.contiguous(), self.edges + _VALUES: weights}
        return replace(found, values={**found.values, **parts})


class AdjacencyLayer(EdgeModule):
    """Runs a layer on the matrix that edges and their values make."""

    def forward(self, **values: Any) -> Any:
        """The layer's result.

        Args:
            **values: Its arguments by name, the matrix taken apart as `read` does.
        """
        name = next(key for key in values if key.endswith(_LAYOUT)).removesuffix(_LAYOUT)
        given = {k: v for k, v in values.items() if k not in (name + _VALUES, name + _LAYOUT)}
        rows = next(v for v in given.values() if isinstance(v, tuple) or _are_rows(v))
        pair = rows if isinstance(rows, tuple) else (rows, rows)
        size = (pair[0] if pair[1] is None else pair[1]).shape[0], pair[0].shape[0]
        entries = values[name].flip(0)
        matrix = torch.sparse_coo_tensor(entries, values[name + _VALUES], size).coalesce()
        layout = values[name + _LAYOUT].removesuffix(_ONES)
        if symbols_in([*given.values(), *pair]):
            vars(self.module)["fuse"] = False  # messages say the same as products with matrices
            layout = "sparse_coo"
        if layout != "sparse_coo":
            matrix = matrix.to_sparse(layout=getattr(torch, layout))
        return self.module(**{**given, name: matrix})

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """As of `EdgeModule`: a matrix's entries [2, E], its values [E], and its layout."""
        matrices = [value for value in (*args, *kwargs.values()) if is_sparse(value)]
        if len(matrices) != 1:
            raise NotTraceable(f"{len(matrices)} arguments are sparse matrices: one compiles")
        if torch.is_grad_enabled() and matrices[0].requires_grad:
            raise NotTraceable("gradients of a sparse matrix's values are needed")
        edges, weights, layout = made_of(matrices[0], _taken_apart)
        plain = tuple(edges if value is matrices[0] else value for value in args)
        named = {k: edges if value is matrices[0] else value for k, value in kwargs.items()}
        found = read_arguments(self.module, plain, named)
        size = found.num_nodes, found.num_sources or found.num_nodes
        if matrices[0].shape != size:
            raise NotTraceable(f"the matrix is {[*matrices[0].shape]}, not {[*size]} as rows are")
        parts = {found.edges + _VALUES: weights, found.edges + _LAYOUT: layout}
        values = {**found.values, **parts}
        features = found.features, found.edges, found.edge_features, found.sources
        return AdjacencyArguments(values, *features)


def _are_rows(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1


def _taken_apart(matrix: Tensor) -> tuple[Tensor, Tensor, str]:
    """Sources and destinations of its entries, int64 [2, E], their values [E], and its layout."""
    if matrix.dim() != 2 or matrix.dtype is not torch.float32:
        raise InputError(
            f"the matrix is {matrix.dtype} of shape {list(matrix.shape)}: give float32 [N, N]"
        )
    entries = matrix.detach().to_sparse(layout=torch.sparse_coo).coalesce()
    edges, weights = entries.indices().flip(0).contiguous(), entries.values().clone()
    kind = str(matrix.layout).removeprefix("torch.")
    return edges, weights, kind + _ONES * bool((weights == 1).all())

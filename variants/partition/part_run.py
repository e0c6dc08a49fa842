"""A layer on one part of a graph: what is read for it, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hetune.variants.errors import InputError, MemoryLimitError
from hetune.variants.graph.bipartite import BipartiteGraph
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loops import with_loops
from hetune.variants.graph.part import GraphPart
from hetune.variants.partition.layers import PartitionedLayer
from hetune.variants.partition.partitions import Partitions
from hetune.variants.partition.row_files import gathered
from hetune.variants.runtime.domain import split_relations


@dataclass(frozen=True, slots=True)
class PartInputs:
    """What a layer reads for a part.

    Attributes:
        part: Its edges, and the nodes that they join.
        rows: Of these nodes, float32 [nodes, width], for each input of the layer.
    """

    part: GraphPart
    rows: tuple[Tensor, ...]


def read_part(
    layer: PartitionedLayer,
    partitions: Partitions,
    rows: tuple[np.ndarray, ...],
    first: int,
    last: int,
    memory: int,
    variant: str | None = None,
) -> PartInputs:
    """The edges into the nodes of some ranges, and the rows that a layer reads of them.

    Args:
        layer: The layer.
        partitions: Of the graph.
        rows: Its inputs, of all nodes: [N, width].
        first: The first range.
        last: The range after the last one.
        memory: Most bytes that the part may take.
        variant: Id of the variant that is to run.

    Raises:
        MemoryLimitError: They do not fit.
    """
    side = partitions.sides and partitions.sides.side
    bipartite = layer.is_bipartite(partitions.types, variant, side)
    part = partitions.part(first, last, bipartite=bipartite)
    if layer.loops != "given":
        part = replace(part, graph=with_loops(part.graph, layer.loops))
    fixed = layer.fixed_bytes(part.graph.num_edges, len(part.nodes), partitions.num_nodes)
    if fixed >= memory:
        raise MemoryLimitError(
            f"a part of {part.graph.num_edges} edges takes {fixed} bytes, and the limit is {memory}"
        )
    return PartInputs(part, tuple(gathered(each, part.nodes) for each in rows))


def run_part(
    layer: PartitionedLayer,
    partitions: Partitions,
    inputs: PartInputs,
    memory: int,
    variant: str | None = None,
) -> tuple[Tensor, str]:
    """A layer's rows for the nodes of a part, and the variant that computed them.

    Nothing is computed for nodes that edges only come from, where the layer allows that; with a
    variant, where the bits stay those of a run in memory, too. Without one, the choice for a part
    holds for others of about its size.

    Args:
        layer: The layer.
        partitions: Of the graph.
        inputs: What `read_part` gave.
        memory: Most bytes to take.
        variant: Id of the variant to run.

    Returns:
        Float32 [nodes of the ranges, width], and an id.

    Raises:
        MemoryLimitError: They do not fit.
        VariantError: There is no such variant.
        InputError: A function gives something else than a row for each of its rows.
    """
    part, graph = inputs.part, inputs.part.graph
    left = memory - layer.fixed_bytes(graph.num_edges, len(part.nodes), partitions.num_nodes)
    compiled, rows = layer.layer, part.targets
    given: tuple[Tensor | HeteroGraph, ...] = *inputs.rows, graph
    if variant is not None and layer.is_hybrid(variant):
        variant = layer.named(variant, split_relations(graph).side)
    name = variant
    if layer.bipartite is not None and isinstance(graph, BipartiteGraph):
        compiled, (x,) = layer.bipartite, inputs.rows
        given, rows = (x[rows], x, graph), slice(None)
        name = variant and layer.exact[variant]
    with torch.no_grad():
        found = compiled(*given, variant=name, memory_limit=left)
        results = found if isinstance(found, tuple) else (found,)
        result = torch.cat([each[rows] for each in results], 1) if results[1:] else results[0][rows]
        for function in layer.functions:
            result = _checked(function(result), result)
    return result, variant or compiled._last.variant or ""


def _checked(found: object, rows: Tensor) -> Tensor:
    if isinstance(found, Tensor) and (found.shape, found.dtype) == (rows.shape, rows.dtype):
        return found
    what = type(found).__name__
    if isinstance(found, Tensor):
        what = f"{found.dtype} {list(found.shape)}"
    raise InputError(
        f"a function of rows {rows.dtype} {list(rows.shape)} gives {what}: give rows of the same "
        "shape and dtype"
    )

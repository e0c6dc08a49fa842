"""What a few nodes' outputs of a stack of layers depend on: smaller graphs, layer by layer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.graph._arrays import IdArray, as_ids
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.part import GraphPart, part_of

__all__ = ["ReachStep", "reach"]


@dataclass(frozen=True, slots=True)
class ReachStep:
    """What one layer of a stack has to run on.

    Attributes:
        graph: All edges into the nodes whose outputs are needed, and the nodes that they join, in
            the order of the whole graph.
        rows: Where the rows of these nodes are in what the layer before gives, or for the first
            layer in the features of all nodes, int64; None if they are all of them, in order.
        targets: Where the needed outputs are in the layer's result, int64; None for all of it.
        nodes: Ids of the nodes whose outputs are needed, ascending, int64.
    """

    graph: HeteroGraph
    rows: Tensor | None
    targets: Tensor | None
    nodes: Tensor

    def inputs(self, x: Tensor) -> Tensor:
        """The layer's input, of what the layer before gives, or of the features of all nodes."""
        return x if self.rows is None else x.index_select(0, self.rows.to(x.device))

    def needed(self, out: Tensor) -> Tensor:
        """The needed rows of the layer's result."""
        return out if self.targets is None else out.index_select(0, self.targets.to(out.device))


def reach(
    graph: HeteroGraph,
    nodes: IdArray,
    layers: int,
    *,
    outputs: Collection[int] | None = None,
    most_edges: float | None = None,
) -> tuple[ReachStep, ...] | None:
    """The smaller graphs that layers may run on, where only some nodes' outputs are asked for.

    A layer's output for a node depends on its input for the node and for the sources of the edges
    into it. So the nodes that the last layer has to give are those that are asked for, and each
    layer before has to give what the next one takes in. All edges into these nodes are kept, with
    their order: degrees and means are those of the whole graph. A run, with ``x`` the features of
    all nodes, gives rows for ``steps[-1].nodes``::

        for step, layer in zip(steps, compiled_layers):
            x = step.needed(layer(step.inputs(x), step.graph))

    Args:
        graph: The whole graph; it gets indexed.
        nodes: Ids in its order, in any order, also repeatedly.
        layers: How many layers there are.
        outputs: Layers, from 0, whose outputs for the nodes are asked for; the last by default.
        most_edges: Give up when all steps together have more edges than that.

    Returns:
        One step for each layer; None if it was given up.

    Raises:
        InputError: There is no such node or layer.
    """
    ids = as_ids("nodes", nodes).cpu().numpy().astype(np.int64)
    wanted = np.unique(ids)
    if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < graph.num_nodes:
        wrong = wanted[0] if wanted[0] < 0 else wanted[-1]
        raise InputError(
            f"there is no node {wrong}: the graph has {graph.num_nodes}, numbered from 0"
        )
    asked = {layers - 1} if outputs is None else set(outputs)
    if not asked or not 0 <= min(asked) <= max(asked) < layers:
        raise InputError(f"outputs are {sorted(asked)}: name some of the layers 0 to {layers - 1}")
    parts: list[GraphPart] = []
    needed, edges = np.empty(0, np.int64), 0
    for number in reversed(range(layers)):
        if number in asked:
            needed = np.union1d(needed, wanted)
        if parts and np.array_equal(needed, parts[-1].needed):
            part = parts[-1]
        else:
            left = None if most_edges is None else most_edges - edges
            found = _part(graph, needed, left)
            if found is None:
                return None
            part = found
        edges += part.graph.num_edges
        parts.append(part)
        needed = part.nodes
    parts.reverse()
    given = [np.arange(graph.num_nodes), *(part.needed for part in parts)]
    return tuple(
        ReachStep(
            part.graph,
            _positions(part.nodes, before),
            _positions(part.needed, part.nodes),
            torch.from_numpy(part.needed),
        )
        for part, before in zip(parts, given, strict=False)
    )


def _part(graph: HeteroGraph, needed: np.ndarray, most_edges: float | None) -> GraphPart | None:
    index = GraphIndex.of(graph)
    first = index.indptr.numpy()[needed].astype(np.int64)
    counts = index.indptr.numpy()[needed + 1] - first
    edges = int(counts.sum())
    if most_edges is not None and edges > most_edges:
        return None
    if len(needed) == graph.num_nodes:
        return GraphPart(graph, needed, needed)
    positions = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(edges)
    src, etype = (column.numpy()[positions] for column in (index.src, index.etype))
    return part_of(graph, graph.node_offsets, needed, src, np.repeat(needed, counts), etype)


def _positions(chosen: np.ndarray, among: np.ndarray) -> Tensor | None:
    """Where the chosen ones are among others; both ascending."""
    if len(chosen) == len(among):
        return None
    return torch.from_numpy(np.searchsorted(among, chosen))

"""Layers that run on parts of a graph, and what they give there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from hetune.variants.errors import InputError, MemoryLimitError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.partition.content_digest import content_digest
from hetune.variants.partition.partitions import Partitions
from hetune.variants.partition.row_files import gathered
from hetune.variants.program.locality import reads_near_nodes
from hetune.variants.program.sources import with_sources
from hetune.variants.program.text import show
from hetune.variants.runtime.backends import backend_of
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer

RowFunction: TypeAlias = Callable[[Tensor], Tensor]
"""Of rows one by one, such as an activation."""

_EDGE_BYTES = 120
"""Of an edge while its part is read, numbered and indexed."""
_NODE_BYTES = 5
"""Of each node of the whole graph while a part's nodes are numbered."""


@dataclass(frozen=True, slots=True)
class PartitionedLayer:
    """A layer of a run, and what its rows go through before the next layer.

    Pickled, for workers that are trusted, it is its module, which is compiled where it is loaded.

    Attributes:
        layer: Compiled to choose for every part.
        adapter: What it computes.
        functions: Applied to its rows, in order.
        bipartite: The same layer for graphs whose sources have rows of their own, so that nothing
            is computed for these; None where its program reads more of them.
    """

    layer: CompiledLayer
    adapter: Adapter
    functions: tuple[RowFunction, ...]
    bipartite: CompiledLayer | None

    def digest(self) -> str:
        """Of its program, its weights and its functions, in hex."""
        adapter = self.adapter
        found = hashlib.blake2b(show(adapter.program).encode(), digest_size=16)
        found.update(repr((adapter.metadata, adapter.vocabulary, adapter.is_reversed)).encode())
        for part in (adapter.weights(), *self.functions):
            found.update(content_digest(part).encode())
        return found.hexdigest()

    def bytes_of(self, edges: int, targets: int, num_nodes: int) -> int:
        """About what a part needs, with tables of its pairs."""
        rows = min(edges + targets, num_nodes)
        width = self.adapter.width + self.adapter.result_width
        tables = 4 * min(edges, 2 * rows) * self.adapter.result_width
        return _EDGE_BYTES * edges + 4 * rows * width + tables + _NODE_BYTES * num_nodes

    def __reduce__(self) -> Any:
        layer = self.layer
        made = layer.module, layer._runs.backend.name, layer._policy, layer.vocabulary
        return _loaded, (*made, self.functions)


def _loaded(
    module: nn.Module,
    backend: str,
    policy: Policy,
    vocabulary: Vocabulary | None,
    functions: tuple[RowFunction, ...],
) -> PartitionedLayer:
    made = module, backend_of(module, backend, policy.precision), policy, vocabulary
    (found,) = partitioned_layers([CompiledLayer(*made), *functions])
    return found


def partitioned_layers(
    model: Sequence[CompiledLayer | RowFunction],
) -> tuple[PartitionedLayer, ...]:
    """The layers of a model, each with the functions that follow it.

    Raises:
        InputError: One is not compiled, or reads more than the edges into its nodes.
    """
    found: list[PartitionedLayer] = []
    for each in model:
        if not isinstance(each, CompiledLayer):
            if not found or not callable(each):
                raise InputError(
                    f"{type(each).__name__} is no compiled layer: give what hetune.compile made of "
                    "layers, in order, with functions of rows between them"
                )
            last = found.pop()
            found.append(replace(last, functions=(*last.functions, each)))
            continue
        adapter, name = adapt(each.module, each.vocabulary), type(each.module).__name__
        if not isinstance(adapter, Adapter):
            raise InputError(f"{name} does not run in parts: {adapter.reason}")
        if not reads_near_nodes(adapter.program):
            raise InputError(
                f"{name} does not run in parts: it reads more than the edges into a node and "
                "their sources' rows"
            )
        compiled = compile_layer(each, expected_runs=1.0)
        found.append(PartitionedLayer(compiled, adapter, (), _bipartite(compiled, adapter)))
    if not found:
        raise InputError("there is no layer: give compiled ones")
    return tuple(found)


def _bipartite(layer: CompiledLayer, adapter: Adapter) -> CompiledLayer | None:
    program = with_sources(adapter.program)
    if program is None or adapter.vocabulary or adapter.metadata or adapter.is_reversed:
        return None
    return layer._around(ProgramLayer(program, adapter.weights()).eval())


def run_part(
    layer: PartitionedLayer,
    partitions: Partitions,
    rows: np.ndarray,
    first: int,
    last: int,
    memory: int,
    variant: str | None = None,
) -> tuple[Tensor, str]:
    """A layer's rows for the nodes of some ranges, and the variant that computed them.

    It depends on nothing else, and changes nothing. Without a variant nothing is computed for nodes
    that edges only come from, where the layer allows that; with one, rows have the bits of a run in
    memory.

    Args:
        layer: The layer.
        partitions: Of the graph.
        rows: Its input, of all nodes: [N, width].
        first: The first range.
        last: The range after the last one.
        memory: Most bytes to take.
        variant: Id of the variant to run.

    Returns:
        Float32 [nodes of the ranges, width], and an id.

    Raises:
        MemoryLimitError: They do not fit.
        VariantError: There is no such variant.
    """
    part = partitions.part(first, last)
    graph, targets = part.graph, len(part.needed)
    width = layer.adapter.width
    fixed = _EDGE_BYTES * graph.num_edges + 4 * len(part.nodes) * width
    fixed += _NODE_BYTES * partitions.num_nodes
    if fixed >= memory:
        raise MemoryLimitError(
            f"a part of {graph.num_edges} edges takes {fixed} bytes, and the limit is {memory}"
        )
    start = int(np.searchsorted(part.nodes, part.needed[0])) if targets else 0
    x, compiled = gathered(rows, part.nodes), layer.layer
    options: dict[str, Any] = {"variant": variant, "memory_limit": memory - fixed}
    with torch.no_grad():
        if layer.bipartite is not None and variant is None:
            compiled = layer.bipartite
            result = compiled(x[start : start + targets], x, partitions.bipartite(part), **options)
        else:
            result = compiled(x, graph, **options)[start : start + targets]
        for function in layer.functions:
            result = function(result)
    return result, compiled.status().variant or ""

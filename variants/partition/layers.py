"""Layers that run on parts of a graph, and what they give there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from torch import Tensor, nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.kernel.text import show as show_launch
from hetune.variants.partition.content_digest import content_digest
from hetune.variants.plan.sides import id_on
from hetune.variants.plan.variants import Variant
from hetune.variants.program.locality import reads_near_nodes
from hetune.variants.program.sources import SOURCES, with_sources
from hetune.variants.program.text import show
from hetune.variants.runtime.backends import backend_of
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.domain import split_relations

RowFunction: TypeAlias = Callable[[Tensor], Tensor]
"""Of rows one by one, such as an activation."""

_READ_BYTES, _INDEX_BYTES = 24, 96
"""Of an edge while its part is read and numbered, and while it is indexed."""
_NODE_BYTES = 4
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
        exact: Ids of the variants whose rows have the same bits from either.
    """

    layer: CompiledLayer
    adapter: Adapter
    functions: tuple[RowFunction, ...]
    bipartite: CompiledLayer | None
    exact: frozenset[str]

    def digest(self) -> str:
        """Of its program, its weights and its functions, in hex."""
        adapter = self.adapter
        found = hashlib.blake2b(show(adapter.program).encode(), digest_size=16)
        found.update(repr((adapter.metadata, adapter.vocabulary, adapter.is_reversed)).encode())
        for part in (adapter.weights(), *self.functions):
            found.update(content_digest(part).encode())
        return found.hexdigest()

    def bytes_of(self, edges: int, targets: int, num_nodes: int) -> int:
        """About what a part needs, with tables of pairs of its nodes and the next one's inputs."""
        rows = min(edges + targets, num_nodes)
        results = targets if self.bipartite else rows
        tables = min(edges, 4 * results)
        made = 4 * (results + tables) * self.adapter.result_width
        return self.fixed_bytes(edges, rows, num_nodes) + made

    def fixed_bytes(self, edges: int, rows: int, num_nodes: int) -> int:
        """About what a part and what is read of the next one need, whatever runs.

        Args:
            edges: Of the part.
            rows: Nodes that they join.
            num_nodes: Of the whole graph.
        """
        inputs = _READ_BYTES * edges + 4 * rows * self.adapter.width
        return 2 * inputs + _INDEX_BYTES * edges + _NODE_BYTES * num_nodes

    def named(self, variant: str, graph: HeteroGraph) -> tuple[str, bool]:
        """What runs on a part under an id, and whether `bipartite` gives the same bits for it."""
        found = self.layer._promoted.get(variant)
        if found is not None and found.choices.plan.program.is_hybrid:
            name = id_on(found, split_relations(graph).side)
            variant = name if name in self.layer._promoted else variant
        return variant, variant in self.exact

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
        compiled = compile_layer(each, dynamic=True)
        bipartite = _bipartite(compiled, adapter)
        exact = (
            _exact(compiled, bipartite, adapter.inputs[0].name) if bipartite else frozenset[str]()
        )
        found.append(PartitionedLayer(compiled, adapter, (), bipartite, exact))
    if not found:
        raise InputError("there is no layer: give compiled ones")
    return tuple(found)


def _bipartite(layer: CompiledLayer, adapter: Adapter) -> CompiledLayer | None:
    program = with_sources(adapter.program)
    if program is None or adapter.vocabulary or adapter.metadata or adapter.is_reversed:
        return None
    return layer._around(ProgramLayer(program, adapter.weights()).eval())


def _exact(layer: CompiledLayer, bipartite: CompiledLayer, x: str) -> frozenset[str]:
    """Ids of variants whose kernels are the same but for where rows of sources are."""
    whole = layer._promoted
    return frozenset(
        name
        for name, variant in bipartite._promoted.items()
        if name in whole and _kernels(variant, x) == _kernels(whole[name], x)
    )


def _kernels(variant: Variant, x: str) -> list[str]:
    """The lines of its launches, where all features have the name `x`, and need not be listed."""
    text = "\n".join(map(show_launch, variant.plan.launches))
    lines = re.sub(rf"\b{SOURCES}\b", x, text).splitlines()
    return [line for line in lines if not line.startswith(f"  buffer {x}: ")]

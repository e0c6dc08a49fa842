"""Layers that run on parts of a graph, and what they give there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from torch import Tensor, nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loops import Loops
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.kernel.text import show as show_launch
from hetune.variants.partition.content_digest import content_digest
from hetune.variants.passes.choices import FOLD_ALL
from hetune.variants.passes.pipeline import run_passes
from hetune.variants.passes.transform_side import TransformSide
from hetune.variants.passes.weights_first import FoldScale
from hetune.variants.plan.choices import Side
from hetune.variants.plan.sides import id_on
from hetune.variants.plan.variants import Variant
from hetune.variants.program.locality import reads_near_nodes
from hetune.variants.program.nodes import End, Program, Space
from hetune.variants.program.sources import SOURCES, with_sources
from hetune.variants.program.text import show
from hetune.variants.runtime.backends import backend_of
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer

RowFunction: TypeAlias = Callable[[Tensor], Tensor]
"""Of rows one by one, such as an activation."""

_READ_BYTES, _INDEX_BYTES = 24, 96
"""Of an edge while its part is read and numbered, and while it is indexed."""
_NODE_BYTES = 4
"""Of each node of the whole graph while a part's nodes are numbered."""


@dataclass(frozen=True, slots=True)
class LayerInput:
    """Rows that a layer reads.

    Attributes:
        layer: The number of the layer that gives them; -1: the features, or `table`.
        first: Where in its rows they begin.
        table: Rows of all nodes that belong to the model, [N, width].
    """

    layer: int
    first: int = 0
    table: Tensor | None = None


@dataclass(frozen=True, slots=True)
class PartitionedLayer:
    """A layer of a run, and what its rows go through before the next layer.

    Its results are side by side in a row. Pickled, for workers that are trusted, it is its module,
    which is compiled where it is loaded.

    Attributes:
        layer: Compiled to choose for every part.
        adapter: What it computes.
        inputs: What the adapter's inputs are.
        loops: What becomes of the graph's self loops.
        functions: Applied to its rows, in order.
        bipartite: The same layer for graphs whose sources have rows of their own, so that nothing
            is computed for these; None where its program reads more of them.
        exact: Ids of its variants whose rows have the same bits as some of `layer`, by their ids.
    """

    layer: CompiledLayer
    adapter: Adapter
    inputs: tuple[LayerInput, ...]
    loops: Loops
    functions: tuple[RowFunction, ...]
    bipartite: CompiledLayer | None
    exact: Mapping[str, str]

    @property
    def width(self) -> int:
        """Floats that are read for a node."""
        return sum(param.type.width for param in self.adapter.inputs)

    @property
    def result_width(self) -> int:
        """Floats of a row of its results."""
        program = self.adapter.program
        return sum(program.type_of(name).width for name in program.results)

    def check_rows(self, width: int, num_nodes: int) -> None:
        """Raises `InputError` unless it takes features of a width, on so many nodes."""
        for given, param in zip(self.inputs, self.adapter.inputs, strict=True):
            if given.table is not None and len(given.table) != num_nodes:
                raise InputError(
                    f"the model has a parameter with {len(given.table)} rows, and there are "
                    f"{num_nodes} nodes"
                )
            if given.layer < 0 and given.table is None and param.type.width != width:
                raise InputError(
                    f"features have rows of {width}, and the layer takes {param.type.width}"
                )

    def digest(self) -> str:
        """Of its program, its weights, its inputs and its functions, in hex."""
        adapter = self.adapter
        found = hashlib.blake2b(show(adapter.program).encode(), digest_size=16)
        found.update(repr((adapter.metadata, adapter.vocabulary, adapter.is_reversed)).encode())
        found.update(
            repr([self.loops, *((each.layer, each.first) for each in self.inputs)]).encode()
        )
        tables = [each.table for each in self.inputs]
        for part in (adapter.weights(), *tables, *self.functions):
            found.update(content_digest(part).encode())
        return found.hexdigest()

    def bytes_of(self, edges: int, targets: int, num_nodes: int) -> int:
        """About what a part needs, with tables of pairs of its nodes and the next one's inputs."""
        rows = min(edges + targets, num_nodes)
        results = targets if self.bipartite else rows
        tables = min(edges, 4 * results)
        made = 4 * (results + tables) * self.result_width
        return self.fixed_bytes(edges, rows, num_nodes) + made

    def fixed_bytes(self, edges: int, rows: int, num_nodes: int) -> int:
        """About what a part and what is read of the next one need, whatever runs.

        Args:
            edges: Of the part.
            rows: Nodes that they join.
            num_nodes: Of the whole graph.
        """
        inputs = _READ_BYTES * edges + 4 * rows * self.width
        edges += rows if self.loops in ("added", "replaced") else 0
        return 2 * inputs + _INDEX_BYTES * edges + _NODE_BYTES * num_nodes

    def is_bipartite(
        self, types: HeteroGraph, variant: str | None = None, side: Side | None = None
    ) -> bool:
        """Whether `bipartite` runs on parts of a graph, under the id of a variant if one is given.

        Args:
            types: A graph with the same types.
            variant: The id.
            side: Of all edge types of the whole graph; None where it is not known.
        """
        if self.bipartite is None:
            return False
        if variant is not None:
            is_known = side is not None or not self.is_hybrid(variant)
            if not (is_known and self.named(variant, side) in self.exact):
                return False
        if self.adapter.metadata is not None:
            return tuple(map(list, self.adapter.metadata)) == types.metadata()
        of_types = any(param.type.space is Space.NTYPE for param in self.adapter.program.params)
        return types.is_canonical or not of_types

    def named(self, variant: str, side: Side | None) -> str:
        """What runs on parts under an id, where plans take edge types on this side."""
        if side is None or not self.is_hybrid(variant):
            return variant
        name = id_on(self.layer._promoted[variant], side)
        return name if name in self.layer._promoted else variant

    def is_hybrid(self, variant: str) -> bool:
        """Whether what runs under an id depends on the side of edge types."""
        found = self.layer._promoted.get(variant)
        return found is not None and found.choices.plan.program.is_hybrid

    def __reduce__(self) -> Any:
        layer = self.layer
        made = layer.module, layer._runs.backend.name, layer._policy, layer.vocabulary
        return _loaded, (*made, self.inputs, self.loops, self.functions)


def _loaded(
    module: nn.Module,
    backend: str,
    policy: Policy,
    vocabulary: Vocabulary | None,
    inputs: tuple[LayerInput, ...],
    loops: Loops,
    functions: tuple[RowFunction, ...],
) -> PartitionedLayer:
    made = module, backend_of(module, backend, policy.precision), policy, vocabulary
    return replace(partitioned(CompiledLayer(*made), inputs, loops), functions=functions)


def partitioned(
    layer: CompiledLayer, inputs: tuple[LayerInput, ...], loops: Loops
) -> PartitionedLayer:
    """A layer that reads these rows.

    Raises:
        InputError: It is no program, has other inputs, or reads more than its nodes' edges.
    """
    adapter, name = adapt(layer.module, layer.vocabulary), type(layer.module).__name__
    if not isinstance(adapter, Adapter):
        raise InputError(f"{name} does not run in parts: {adapter.reason}")
    if not reads_near_nodes(adapter.program):
        raise InputError(
            f"{name} does not run in parts: it reads more than the edges into a node and their "
            "sources' rows; hetune.compile a model of it"
        )
    spaces = [param.type.space for param in adapter.inputs]
    if spaces != [Space.NODE] * len(inputs):
        raise InputError(f"{name} does not run in parts: it takes more than rows of nodes")
    if any(
        adapter.program.type_of(each).space is not Space.NODE for each in adapter.program.results
    ):
        raise InputError(f"{name} does not run in parts: it gives more than rows of nodes")
    compiled = compile_layer(layer, dynamic=True)
    bipartite = _bipartite(compiled, adapter) if loops == "given" else None
    exact = _exact(compiled, bipartite, adapter.inputs[0].name) if bipartite else {}
    return PartitionedLayer(compiled, adapter, inputs, loops, (), bipartite, exact)


def _bipartite(layer: CompiledLayer, adapter: Adapter) -> CompiledLayer | None:
    if adapter.vocabulary or adapter.is_reversed:
        return None
    program = with_sources(adapter.program) or with_sources(_folded(adapter.program))
    if program is None:
        return None
    return layer._around(ProgramLayer(program, adapter.weights()).eval())


def _folded(program: Program) -> Program:
    """The program with linear maps of nodes made part of those of edge types."""
    return run_passes((FoldScale(), TransformSide(End.DST), *FOLD_ALL), program)


def _exact(layer: CompiledLayer, bipartite: CompiledLayer, x: str) -> dict[str, str]:
    """Variants of either whose kernels are the same but for where rows of sources are, by id."""
    found = {_kernels(variant, x): name for name, variant in bipartite._promoted.items()}
    names = {name: found.get(_kernels(variant, x)) for name, variant in layer._promoted.items()}
    return {name: other for name, other in names.items() if other is not None}


def _kernels(variant: Variant, x: str) -> tuple[str, object]:
    """What tells its bits: derived weights, launches and schedules.

    All features have the name `x`, and need not be listed. Values are numbered, but for those that
    have the name of a parameter, and perhaps of a function.
    """
    plan = variant.plan
    text = "\n".join(f"{let.name}: {let.op}" for let in plan.weights)
    text = "\n".join([text, *map(show_launch, plan.launches)])
    lines = re.sub(rf"\b{SOURCES}\b", x, text).splitlines()
    text = "\n".join(line for line in lines if not line.startswith(f"  buffer {x}: "))
    names = dict.fromkeys(re.findall(r"(\w*[_\d]\w*):", text))
    params = {param.name for param in plan.program.params}
    numbers = {name: f"%{number}" for number, name in enumerate(names) if name not in params}
    text = re.sub(r"\b\w+\b(?!\()", lambda word: numbers.get(word[0], word[0]), text)
    return text, variant.schedules

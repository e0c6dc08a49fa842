"""What each layer of a model reads and gives: rows by name, of nodes or of edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetune.service.core.models.description import ModelDescription, ProgramDocument
from hetune.variants.errors import InputError
from hetune.variants.frontend.model_steps.steps import inputs_of
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loops import Loops, with_loops
from hetune.variants.program.locality import reads_near_nodes
from hetune.variants.program.nodes import Program, Space, Type

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Wiring:
    """Rows go by the name of an input of the model, or by the number of the layer that gives them.

    A layer's results after the first are called such as "2.1".

    Attributes:
        reads: Names of what each layer takes in.
        gives: Names of each layer's results.
        loops: What becomes of the graph's loops for each layer.
        inputs: Types of the model's inputs.
        types: Types of all rows.
        is_chain: Each layer reads what the one before gives for near nodes, and nothing else: a
            layer's rows of some nodes depend on their neighbors' alone.
    """

    reads: tuple[tuple[str, ...], ...]
    gives: tuple[tuple[str, ...], ...]
    loops: tuple[Loops, ...]
    inputs: Mapping[str, Type]
    types: Mapping[str, Type]
    is_chain: bool

    @property
    def outputs(self) -> tuple[str, ...]:
        """All results, each layer's first one before any other: outputs are numbered so."""
        first = tuple(names[0] for names in self.gives)
        return first + tuple(name for names in self.gives for name in names[1:])

    def graph(self, number: int, graph: HeteroGraph) -> HeteroGraph:
        """What a layer runs on."""
        return with_loops(graph, self.loops[number])

    def last_reads(self) -> dict[str, int]:
        """The last layer that reads each."""
        return {name: number for number, names in enumerate(self.reads) for name in names}

    def most_bytes(self, copies: Sequence[int], nodes: int, edges: int) -> int:
        """What is held at the same time, without outputs that are kept.

        Args:
            copies: More tensors of its first result that are made after each layer.
            nodes: Of what it runs on.
            edges: Likewise.
        """
        rows = {Space.NODE: nodes, Space.EDGE: edges}

        def size(names: Sequence[str]) -> int:
            return sum(rows[self.types[n].space] * self.types[n].width for n in names)

        last, held, most = self.last_reads(), list(self.inputs), 0
        for number, names in enumerate(self.gives):
            at_work = size(held) + size(names) + copies[number] * size(names[:1])
            most = max(most, at_work)
            held = [name for name in (*held, *names) if last.get(name, -1) > number]
        return most * _FLOAT_BYTES


def wiring_of(description: ModelDescription, programs: Sequence[Program]) -> Wiring:
    """How the layers of a model are joined.

    Raises:
        InputError: A layer reads what none before it gives, or rows of another type; or nothing
            reads x; or rows of edges meet other edges.
    """
    layers = description.layers
    reads = tuple(
        _reads(layer.inputs if isinstance(layer, ProgramDocument) else None, number)
        for number, layer in enumerate(layers)
    )
    loops = tuple(
        layer.loops if isinstance(layer, ProgramDocument) else "given" for layer in layers
    )
    inputs = inputs_of(list(zip(programs, reads, strict=True)))
    x = inputs.get("x")
    if x is None or (x.type.space, x.type.width) != (Space.NODE, description.in_channels):
        raise InputError(
            f"no layer reads x as node rows of {description.in_channels}: let one read it so"
        )
    types = {name: param.type for name, param in inputs.items()}
    gives = []
    for number, program in enumerate(programs):
        if len(set(program.results)) < len(program.results):
            raise InputError(f"layer {number} gives a result twice: give it once")
        names = tuple(
            str(number) if i == 0 else f"{number}.{i}" for i in range(len(program.results))
        )
        types |= dict(zip(names, map(program.type_of, program.results), strict=True))
        gives.append(names)
    for number, names in enumerate(gives):
        for name in (*reads[number], *names):
            if types[name].space not in (Space.NODE, Space.EDGE):
                raise InputError(f"layer {number} gives rows of {types[name].space}s: give others")
            if types[name].space is Space.EDGE and loops[number] != "given":
                raise InputError(
                    f"layer {number} reads or gives rows of edges, and its loops are "
                    f"{loops[number]}: leave them as they are given"
                )
    if missing := [name for name in description.tables if name not in inputs]:
        raise InputError(f"no layer reads the table {missing[0]}: leave it out")
    is_chain = all(names == _reads(None, n) for n, names in enumerate(reads)) and all(
        len(names) == 1 and types[names[0]].space is Space.NODE for names in gives
    )
    near = all(map(reads_near_nodes, programs))
    return Wiring(
        reads, tuple(gives), loops, {n: types[n] for n in inputs}, types, is_chain and near
    )


def _reads(names: tuple[str, ...] | None, number: int) -> tuple[str, ...]:
    """In the one form that names have."""
    if names is None:
        return ("x",) if number == 0 else (str(number - 1),)
    return tuple(_plain(name) for name in names)


def _plain(name: str) -> str:
    layer, _, result = name.partition(".")
    if not layer.isdecimal():
        return name
    return str(int(layer)) if not int(result or 0) else f"{int(layer)}.{int(result)}"

"""A plan: what is computed once, what runs every time, and in which buffers."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.kernel.nodes import Buffer, Launch
from hetune.variants.program.nodes import Let, Program


@dataclass(frozen=True, slots=True)
class BufferView:
    """A second name for a buffer, under another row shape of the same width."""

    name: str
    base: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A lowered program.

    Attributes:
        program: The program that was lowered.
        weights: Values in weight spaces: computed once per set of parameters (and graph, where
            a node type's weight is taken to edge types).
        constants: Values made of counts and given constants alone: computed once per graph.
        launches: What every run executes, in order.
        temporaries: Buffers that a run writes, the result's among them, but for scratch; features
            of edges are copied to theirs.
        results: Names of the buffers that hold the program's results.
        views: Other names that launches use for buffers.
    """

    program: Program
    weights: tuple[Let, ...]
    constants: tuple[Let, ...]
    launches: tuple[Launch, ...]
    temporaries: tuple[Buffer, ...]
    results: tuple[str, ...]
    views: tuple[BufferView, ...] = ()

"""What layers make of edges alone, said in words that a program and a graph have.

Tracing gives numbers: edges after loops came or went, and constants such as those of GCN. They are
told by what they equal on a random graph, which the check of the whole model confirms on others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.graph.loops import LOOPS, Loops, edges_with_loops
from hetune.variants.program.nodes import Count, End, Map, Space, Take

_TOLERANCE = 1e-6
Chain = tuple[tuple[str, float | None], ...]
_OF_COUNTS: Mapping[Chain, Callable[[Tensor], Tensor]] = {
    (): lambda n: n,
    (("rsqrt0", None),): lambda n: n.rsqrt().masked_fill(n == 0, 0),
    (("rsqrt0", None), ("square", None)): lambda n: n.reciprocal().masked_fill(n == 0, 0),
    (("clamp_min", 1.0),): lambda n: n.clamp(min=1),
    (("clamp_min", 1.0), ("reciprocal", None)): lambda n: n.clamp(min=1).reciprocal(),
    (("shift", 1.0), ("log", None)): lambda n: (n + 1).log(),
    (("clamp_min", 1.0), ("shift", 1.0), ("log", None)): lambda n: (n.clamp(min=1) + 1).log(),
}
"""Functions of the number of edges at a node, as a program has them."""


def loops_of(edges: Tensor, src: Tensor, dst: Tensor, num_nodes: int) -> Loops:
    """What a layer has done to the loops of its edges.

    Args:
        edges: That it was given, [2, E].
        src: Sources of those that it uses.
        dst: Destinations of those that it uses.
        num_nodes: N.

    Raises:
        NotTraceable: Something else.
    """
    for loops in LOOPS:
        ends = edges_with_loops(edges[0], edges[1], num_nodes, loops)
        if torch.equal(ends[0], src) and torch.equal(ends[1], dst):
            return loops
    raise NotTraceable(
        "it makes other edges than those with self loops removed, added or replaced, with messages "
        "from edge_index[0] to edge_index[1]: give it the edges that it is to use"
    )


class GraphConstants:
    """Puts constants into a program as functions of the graph.

    Args:
        recorder: Of the program.
        src: Sources of the edges that the layer uses.
        dst: Destinations.
    """

    def __init__(self, recorder: ProgramRecorder, src: Tensor, dst: Tensor) -> None:
        nodes = recorder.counts[Space.NODE]
        self._recorder = recorder
        self._ends = {End.SRC: src, End.DST: dst}
        self._counts = {
            end: torch.bincount(index, minlength=nodes).double()
            for end, index in self._ends.items()
        }

    def value_of(self, rows: Tensor, space: Space) -> str:
        """The value that has these rows.

        Raises:
            NotTraceable: They are no such function.
        """
        rows = rows.double()
        if rows.dim() == 1:
            of_node = ((end, chain) for end, chain in product((End.DST, End.SRC), _OF_COUNTS))
            if space is Space.NODE:
                for end, chain in of_node:
                    if _equal(self._at_nodes(end, chain), rows):
                        return self._node_value(end, chain)
            else:
                return self._edge_value(rows)
        raise NotTraceable(
            f"it multiplies or adds numbers that follow from the {space}s of the graph in a way "
            "that no program says: degrees, their roots, inverses and logarithms are known"
        )

    def _edge_value(self, rows: Tensor) -> str:
        of_node = [(end, chain) for end, chain in product((End.DST, End.SRC), _OF_COUNTS)]
        parts = [(at, *which) for at, which in product((End.SRC, End.DST), of_node)]
        for part in parts:
            if _equal(self._at_edges(*part), rows):
                return self._taken(*part)
        for one, other in product(parts, parts):
            if one[0] is End.SRC and other[0] is End.DST:
                found = self._at_edges(*one) * self._at_edges(*other)
                if _equal(found, rows):
                    names = self._taken(*one), self._taken(*other)
                    return self._recorder.emit(Map("mul", names), "norm")
        raise NotTraceable(
            "it multiplies or adds numbers of edges that follow from the graph in a way that no "
            "program says: degrees, their roots, inverses and logarithms are known"
        )

    def _at_nodes(self, end: End, chain: Chain) -> Tensor:
        return _OF_COUNTS[chain](self._counts[end])

    def _at_edges(self, at: End, end: End, chain: Chain) -> Tensor:
        return self._at_nodes(end, chain)[self._ends[at]]

    def _node_value(self, end: End, chain: Chain) -> str:
        name = self._recorder.emit(Count(Space.NODE, end=end), "degree")
        for fn, const in chain:
            name = self._recorder.emit(Map(fn, (name,), const), fn)
        return name

    def _taken(self, at: End, end: End, chain: Chain) -> str:
        return self._recorder.emit(Take(self._node_value(end, chain), Space.EDGE, at), "of_end")


def _equal(one: Tensor, other: Tensor) -> bool:
    return bool(torch.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE))

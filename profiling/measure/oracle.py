"""What outputs are checked against: the interpreter in float64, on a sample of nodes if need be."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hetune.profiling.measure.inputs import Inputs
from hetune.profiling.measure.magnitudes import with_magnitudes
from hetune.variants.errors import ProgramError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.interpret import Groups, interpret_results
from hetune.variants.program.limitation import limitation
from hetune.variants.program.nodes import (
    Count,
    End,
    Program,
    Reduce,
    Softmax,
    Space,
    operands,
)
from hetune.variants.program.outer_sums import outer_products
from hetune.variants.runtime.domain import split_relations

MOST_ELEMENTS = 1 << 21
"""Numbers in a row for every edge and node, above which a sample of nodes is checked."""

_WHOLE_NODES = 0.25
_WHOLE_HUB = 0.5
"""Shares of the sample that a node, and the node with most edges, may take."""


class Oracle:
    """A program's results, for all rows, or those of a sample of nodes and the edges into them.

    Where a node's row depends on the edges that come in, and on nothing behind them, a large
    graph's sample has the rows of the whole graph; sums over types have no sample. The node with
    most edges is in it unless it alone takes half of the sample; numbers that are not finite are
    found everywhere.

    Args:
        program: What to compute; its results have a row for each node, edge or type.
        graph: What to compute it on.
        inputs: Of all variants.
        most_elements: Bounds what the sample takes.
        seed: Of the sample.

    Attributes:
        nodes: The nodes that are checked, in node results; None for all.
    """

    def __init__(
        self,
        program: Program,
        graph: HeteroGraph,
        inputs: Inputs,
        *,
        most_elements: int = MOST_ELEMENTS,
        seed: int = 0,
    ) -> None:
        if reason := limitation(program):
            raise ProgramError(f"no kernel computes the program {program.name!r} yet: {reason}")
        width = max(widest(program), 1)
        rows = most_elements // width
        self.nodes: Tensor | None = None
        checked: dict[Space, Tensor] = {}
        groups = split_relations(graph).groups if program.groups else {}
        magnitudes: dict[str, Tensor] = {}
        if graph.num_nodes + graph.num_edges <= rows or needs_all_rows(program):
            whole, sums = with_magnitudes(program)
            found = _interpret(whole, graph, {**inputs.weights, **inputs.features}, groups)
            found, added = found[: len(program.results)], found[len(program.results) :]
            magnitudes = dict(zip(sums, added, strict=True))
        else:
            self.nodes = sample_nodes(graph, rows, seed)
            part, kept, edges, place = incoming(graph, self.nodes)
            rows_of = {Space.NODE: kept, Space.EDGE: edges}
            features = {
                name: values[rows_of[program.type_of(name).space]]
                for name, values in inputs.features.items()
            }
            found = _interpret(program, part, {**inputs.weights, **features}, groups)
            checked = {Space.NODE: self.nodes, Space.EDGE: edges}
            here = {Space.NODE: place, Space.EDGE: torch.arange(part.num_edges)}
            found = tuple(
                rows[here[program.type_of(name).space]]
                for name, rows in zip(program.results, found, strict=True)
            )
        self._results = tuple(
            _Expected(rows, checked.get(program.type_of(name).space), magnitudes.get(name))
            for name, rows in zip(program.results, found, strict=True)
        )

    def error(self, found: tuple[Tensor, ...]) -> float:
        """``max |found - expected| / max |expected|`` of the worst float32 result [rows, ...].

        A sum over a type is compared with the sum of its terms' absolute values, if that is more.
        Infinite where a number is not finite, of whatever row.
        """
        pairs = zip(self._results, found, strict=True)
        return max(expected.error(rows) for expected, rows in pairs)


class _Expected:
    """One result.

    Args:
        rows: What is expected.
        checked: Which rows of the whole graph's these are; None for all.
        magnitudes: What each number's error is in proportion to, if more than the largest one.
    """

    def __init__(self, rows: Tensor, checked: Tensor | None, magnitudes: Tensor | None) -> None:
        self._rows, self._checked = rows, checked
        largest = rows.abs().max() if rows.numel() else rows.new_ones(())
        self._scale = largest if magnitudes is None else magnitudes.clamp(min=largest)
        self._scale = self._scale.where(self._scale > 0, 1.0)

    def error(self, found: Tensor) -> float:
        # A sum with anything infinite or undefined is neither finite nor defined.
        if not bool(found.sum().isfinite()):
            return float("inf")
        if not self._rows.numel():
            return 0.0
        found = found.view(len(found), *self._rows.shape[1:])
        rows = found if self._checked is None else found[self._checked]
        return (rows - self._rows).abs_().div_(self._scale).max().item()


def needs_all_rows(program: Program) -> bool:
    """Whether no sample of a graph has its rows."""
    sums_all = any(program.type_of(name).space.is_weight for name in program.results)
    return sums_all or looks_behind(program)


def looks_behind(program: Program) -> bool:
    """Whether a node's row may depend on other edges than those that come in."""
    of_edges: set[str] = set()
    for let in program.lets:
        is_source = getattr(let.op, "end", None) is End.SRC
        if is_source and (isinstance(let.op, Count) or of_edges.intersection(operands(let.op))):
            return True
        makes = isinstance(let.op, Count | Reduce | Softmax)
        if makes or of_edges.intersection(operands(let.op)):
            of_edges.add(let.name)
    return False


def sample_nodes(graph: HeteroGraph, rows: int, seed: int) -> Tensor:
    """Nodes with about `rows` incoming edges and neighbours in all, at least one; sorted."""
    degree = torch.bincount(graph.dst.long(), minlength=graph.num_nodes)
    cost = 2 * degree + 1
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    order = order[cost[order] <= _WHOLE_NODES * rows]
    hub = int(degree.argmax())
    if cost[hub] <= _WHOLE_HUB * rows:
        order = torch.cat([torch.tensor([hub]), order[order != hub]])
    chosen = order[cost[order].cumsum(0) <= rows]
    if not chosen.numel():
        chosen = degree.argmin().view(1)
    return chosen.sort().values


def incoming(graph: HeteroGraph, nodes: Tensor) -> tuple[HeteroGraph, Tensor, Tensor, Tensor]:
    """The edges that come into some nodes, as a graph of the nodes that these edges touch.

    Returns:
        The graph; the node of the whole graph that each of its nodes is, sorted; the edge that
        each of its edges is; and where in it the given nodes are.
    """
    wanted = torch.zeros(graph.num_nodes, dtype=torch.bool)
    wanted[nodes] = True
    edges = wanted[graph.dst.long()].nonzero().flatten()
    src, dst = graph.src[edges].long(), graph.dst[edges].long()
    wanted[src] = True
    kept = wanted.nonzero().flatten()
    place = torch.empty(graph.num_nodes, dtype=torch.int32)
    place[kept] = torch.arange(kept.numel(), dtype=torch.int32)
    part = HeteroGraph(
        place[src],
        place[dst],
        graph.etype[edges],
        graph.ntype[kept],
        num_nodes=kept.numel(),
        num_etypes=graph.num_etypes,
        num_ntypes=graph.num_ntypes,
        ntype_names=graph.ntype_names,
        etype_names=graph.etype_names,
        canonical_etypes=graph.canonical_etypes if graph.is_canonical else None,
        validate=False,
    )
    return part, kept, edges, place[nodes].long()


def _interpret(
    program: Program, graph: HeteroGraph, values: Mapping[str, Tensor], groups: Groups
) -> tuple[Tensor, ...]:
    exact = {name: value.double() for name, value in values.items()}
    return tuple(rows.float() for rows in interpret_results(program, exact, graph, groups))


def widest(program: Program) -> int:
    """Numbers in the widest row of nodes or edges, of those that the interpreter has."""
    outer = {product.name for product in outer_products(program, {*program.results}).values()}
    kinds = [param.type for param in program.params]
    kinds += [let.type for let in program.lets if let.name not in outer]
    return max(kind.width for kind in kinds if not kind.space.is_weight)

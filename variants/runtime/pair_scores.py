"""Runs scores that were taken apart: rows of queries meet rows of candidates in products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.passes.pairs import PairDistance, PairNumber, PairProduct, PairScore
from hetune.variants.program.apply import apply_map
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.nodes import End, Map, Program, Space
from hetune.variants.runtime.absolute_distances import absolute_distances
from hetune.variants.runtime.pair_products import (
    joined_rows,
    root,
    row_blocks,
    squared_distances,
)

_Rows = dict[str, tuple[Tensor, ...]]


def pair_scores(
    score: PairScore,
    values: Mapping[str, Tensor],
    nodes: Tensor,
    types: Tensor,
    candidates: Tensor | None = None,
) -> Tensor:
    """Scores of candidates, all or some.

    Args:
        score: A score, taken apart.
        values: A tensor for each parameter of its program: rows of nodes [N, *row shape], weights
            [types, *row shape], all of one float dtype.
        nodes: int64 [B], what is at the other end of each edge.
        types: int64 [B], the type of each.
        candidates: int64 [chunks, K]: B / chunks queries in a row share a chunk's candidates. Only
            where keys do not depend on types. All nodes by default.

    Returns:
        [B, N] or [B, K], of the values' dtype. Differentiable.
    """
    run = _Run(score, values)
    queries = run.queries(nodes, types)
    if candidates is not None:
        chunks, count = candidates.shape
        shape = (chunks, len(nodes) // max(chunks, 1))
        queries = {
            name: tuple(rows.view(*shape, *rows.shape[1:]) for rows in tensors)
            for name, tensors in queries.items()
        }
        return _meet(score, queries, run.keys(candidates, 0), (*shape, count)).flatten(0, 1)
    if not score.by_type or not len(nodes):
        return _meet(score, queries, run.keys(None, 0), (len(nodes), run.num_nodes))
    order = types.argsort(stable=True)
    kinds, counts = torch.unique_consecutive(types[order], return_counts=True)

    def parts() -> Iterator[tuple[Tensor, Tensor]]:
        for kind, rows in zip(kinds.tolist(), torch.split(order, counts.tolist()), strict=True):
            keys = run.keys(None, kind)
            part = {name: tuple(t[rows] for t in tensors) for name, tensors in queries.items()}
            yield rows, _meet(score, part, keys, (len(rows), run.num_nodes))

    return joined_rows(parts(), (len(nodes), run.num_nodes))


class _Run:
    """Makes rows of queries and keys."""

    def __init__(self, score: PairScore, values: Mapping[str, Tensor]) -> None:
        self._score, self._values = score, values
        products = [leaf for leaf in score.leaves.values() if isinstance(leaf, PairProduct)]
        self._ones = {product.ones for product in products}
        self._like = next(iter(values.values()))
        programs = [score.queries, *(product.slopes for product in products)]
        programs += [] if score.keys is None else [score.keys]
        params = [param for program in programs for param in program.params]
        of = {param.type.space: param.name for param in params if param.name in values}
        nodes = of.get(Space.NODE) or next(iter(score.tables.values()))
        self.num_nodes = len(values[nodes])
        self._num_types = len(values[of[Space.ETYPE]]) if Space.ETYPE in of else 1

    def queries(self, nodes: Tensor, types: Tensor) -> _Rows:
        """What each leaf needs of the queries."""
        score, zeros = self._score, torch.zeros_like(nodes)
        ends = (nodes, zeros) if score.end is End.DST else (zeros, nodes)
        graph = self._edges(*ends, types)
        results = self._interpreted(score.queries, graph)
        rows: _Rows = {}
        for name, leaf in score.leaves.items():
            match leaf:
                case PairProduct(slopes, _, offset):
                    found = self._interpreted(slopes, graph)
                    flat = _side_by_side([_flat(slope, 1) for slope in found])
                    rows[name] = (flat,) if offset is None else (flat, results[offset])
                case PairDistance(query=of):
                    rows[name] = (results[of],)
                case PairNumber(int(of)):
                    rows[name] = (results[of],)
        return rows

    def keys(self, candidates: Tensor | None, kind: int) -> dict[str, Tensor]:
        """Rows of candidates [chunks, K], or of all nodes, with edges of a type: [..., width]."""
        score, leading = self._score, 1 if candidates is None else 2

        def given(name: str) -> Tensor:
            table = self._values[name]
            if candidates is None:
                return table
            rows = table.index_select(0, candidates.flatten())
            return rows.view(*candidates.shape, *table.shape[1:])

        found = {name: given(table) for name, table in score.tables.items()}
        if score.keys is not None:
            values = {
                p.name: given(p.name).flatten(0, leading - 1)
                if p.type.space is Space.NODE
                else _row(self._values[p.name], kind)
                for p in score.keys.params
            }
            count = self.num_nodes if candidates is None else candidates.numel()
            none = torch.empty(0, dtype=torch.int32, device=self._like.device)
            graph = HeteroGraph(none, none, num_nodes=count, validate=False)
            made = interpret_results(score.keys, values, graph)
            for key, rows in zip(score.made, made, strict=True):
                shape = rows.shape[:1] if candidates is None else candidates.shape
                found[key] = rows.view(*shape, *rows.shape[1:])
        return {name: _flat(rows, leading) for name, rows in found.items()}

    def _edges(self, src: Tensor, dst: Tensor, types: Tensor) -> HeteroGraph:
        return HeteroGraph(
            *(src.int(), dst.int(), types.int()),
            num_nodes=self.num_nodes,
            num_etypes=self._num_types,
            validate=False,
        )

    def _interpreted(self, program: Program, graph: HeteroGraph) -> tuple[Tensor, ...]:
        given = dict(self._values)
        for param in program.params:
            if param.name not in given:  # keys, or the gradient of a score
                number = 1.0 if param.name in self._ones else 0.0
                shape = (graph.num_edges, *param.type.shape)
                given[param.name] = self._like.new_full(shape, number)
        return interpret_results(program, given, graph)


def _row(weight: Tensor, kind: int) -> Tensor:
    """A type's row [1, ...] of a weight of types; the only one of a weight that all share."""
    return weight[kind : kind + 1] if len(weight) > 1 else weight


def _flat(rows: Tensor, leading: int) -> Tensor:
    """Rows with all axes as one after some leading ones."""
    return rows.reshape(*rows.shape[:leading], math.prod(rows.shape[leading:]))


def _meet(
    score: PairScore, queries: _Rows, keys: Mapping[str, Tensor], shape: Sequence[int]
) -> Tensor:
    """Scores [..., B, count] of queries [..., B, width] with keys [..., count, width]."""
    numbers: dict[str, Tensor] = {}
    for name, leaf in score.leaves.items():
        match leaf:
            case PairProduct(keys=names):
                slopes, *offset = queries[name]
                met = slopes @ _side_by_side([keys[key] for key in names]).mT
                numbers[name] = met.add_(offset[0].unsqueeze(-1)) if offset else met
            case PairDistance():
                numbers[name] = _distances(leaf, queries[name][0], keys[leaf.key])
            case PairNumber(str(key)):
                numbers[name] = keys[key].mT
            case PairNumber():
                numbers[name] = queries[name][0].unsqueeze(-1)
    result = score.outer.result
    if result in numbers:
        return numbers[result].expand(shape)
    made = {name for name, leaf in score.leaves.items() if not isinstance(leaf, PairNumber)}
    out = None
    for rows in row_blocks(numbers.values(), shape):
        known = {n: v[..., rows, :] if v.shape[-2] > 1 else v for n, v in numbers.items()}
        for let in score.outer.lets:
            assert isinstance(let.op, Map)
            args = [known[name] for name in let.op.args]
            is_root = let.op.fn == "sqrt" and args[0].requires_grad
            known[let.name] = root(*args) if is_root else apply_map(let.op.fn, args, let.op.const)
        found = known[result]
        if rows == slice(None):
            return found.expand(shape)
        if out is None:  # of numbers that no other block reads
            out = numbers[made.pop()] if made else found.new_empty(shape)
        out[..., rows, :] = found
    assert out is not None
    return out


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), -1)


def _distances(leaf: PairDistance, rows: Tensor, keys: Tensor) -> Tensor:
    """As `PairDistance` says, of [..., B, width] and [..., count, width]."""
    rows = -rows if leaf.sign > 0 else rows
    if leaf.power == 2:
        found = squared_distances(rows, keys)
    elif leaf.power == 1:
        found = absolute_distances(rows, keys)
    else:
        found = torch.cdist(rows, keys, p=leaf.power)
        if leaf.power != math.inf:
            found = found.pow(leaf.power)
    return found if leaf.scale == 1 else found * leaf.scale

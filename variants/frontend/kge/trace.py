"""A function of one triple's rows, run once by `torch.vmap`: the program of a batch of triples.

A batch of triples is a typed edge list: entities are nodes, relations are types of edges, and a
score is a row of an edge. Below `torch.vmap`, functions of rows are functions of all rows, one
after the other: these are what is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hetune.variants.errors import HetuneError, ProgramError
from hetune.variants.frontend.kge.differences import with_products_of_sums
from hetune.variants.frontend.kge.layer import RowPlace, ScoreLayer
from hetune.variants.frontend.kge.picked import with_picked_columns
from hetune.variants.frontend.kge.values import TorchSteps, TripleValues
from hetune.variants.frontend.tracing.alignment import is_rows, rows_of
from hetune.variants.frontend.tracing.expressions import Expression, evaluate
from hetune.variants.frontend.tracing.interpreter import Interpreter
from hetune.variants.frontend.tracing.not_traceable import NotTraceable, reason_of
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.simplify import needed
from hetune.variants.frontend.tracing.tape import Tape
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.interpret import interpret
from hetune.variants.program.nodes import Param, Program, Reshape, Space, operands
from hetune.variants.program.verify import verify

TensorsByName = Mapping[str, Tensor]
_TOLERANCE = 1e-9
"""Largest error relative to the largest score, in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class TracedScore:
    """What a score function computes of a batch.

    Attributes:
        program: With one result, a number for each edge.
        weights: What each weight of the program is, of the layer's tables.
    """

    program: Program
    weights: Mapping[str, Expression]

    def weights_of(self, tables: TensorsByName) -> dict[str, Tensor]:
        """A tensor [types, *row shape] for each weight of the program, in the tables' dtype."""
        known: dict[str, Any] = {}
        types = self.program.types
        found = {name: evaluate(weight, tables, known) for name, weight in self.weights.items()}
        return {
            name: rows[None] if types[name].space is Space.SHARED else rows
            for name, rows in found.items()
        }


def trace_score(layer: ScoreLayer, entities: TensorsByName) -> TracedScore:
    """The program of a score function, confirmed on random triples.

    Args:
        layer: The function, and its tables.
        entities: Tables of entities by name; only their shapes count.

    Raises:
        NotTraceable: It is no program, or computes something else; says why.
    """
    tables = {**layer.tables, **entities}
    random = torch.Generator().manual_seed(0)
    with torch.inference_mode(False), torch.no_grad():
        try:
            first, second = (_RandomTriples(layer, tables, random, i) for i in range(2))
            traced = _traced(layer, first)
            _check(traced, layer, first)
            _check(traced, layer, second)
        except HetuneError:
            raise
        except Exception as error:
            raise NotTraceable(reason_of(error)) from None
    return traced


class _RandomTriples:
    """Some triples, which share entities and relations, and tables in float64.

    No number of rows is one of columns, nor a multiple of it.
    """

    def __init__(
        self, layer: ScoreLayer, tables: TensorsByName, random: torch.Generator, i: int
    ) -> None:
        columns = {extent for table in tables.values() for extent in table.shape[1:] if extent > 1}
        free = (n for n in itertools.count(17) if all(n % extent for extent in columns))
        self.count, self.entities, self.relations = itertools.islice(free, 3 * i, 3 * i + 3)
        rows = dict.fromkeys(layer.entities, self.entities)
        rows |= dict.fromkeys(layer.relations, self.relations)
        shapes = {
            name: (rows[name], *table.shape[1:]) if name in rows else table.shape
            for name, table in tables.items()
        }
        self.tables = {
            name: torch.rand(shape, generator=random, dtype=torch.float64) * 1.6 - 0.7
            for name, shape in shapes.items()
        }
        ends = {RowPlace.HEAD: self.entities, RowPlace.RELATION: self.relations}
        ends[RowPlace.TAIL] = self.entities
        self.ids = {
            place: torch.randint(count, (self.count,), generator=random)
            for place, count in ends.items()
        }

    def rows(self, name: str, place: RowPlace) -> Tensor:
        """As of `ScoreLayer.run`."""
        table = self.tables[name]
        return table if place is RowPlace.SHARED else table[self.ids[place]]

    def graph(self) -> HeteroGraph:
        """An edge for each triple."""
        heads, rels, tails = (
            self.ids[place] for place in (RowPlace.HEAD, RowPlace.RELATION, RowPlace.TAIL)
        )
        return HeteroGraph(heads, tails, rels, num_nodes=self.entities, num_etypes=self.relations)


def _traced(layer: ScoreLayer, triples: _RandomTriples) -> TracedScore:
    recorder = ProgramRecorder(Tape({}, triples.entities, triples.count))
    recorder.counts[Space.EDGE] = triples.count
    values = TripleValues(Interpreter(recorder, triples.count, {}, torch.device("cpu")))
    given = {
        (name, argument.place): triples.rows(name, argument.place)
        for argument in layer.arguments
        for name in argument.names
    }
    for (name, place), rows in given.items():
        values.give(rows, name, place)
    with torch.enable_grad(), TorchSteps() as recorded:
        score = layer.run(lambda name, place: given[name, place])
    for step in recorded.steps:
        values.take(step)
    result = values.of(score)
    if not is_rows(result):
        raise NotTraceable("the score depends on no row of the triple")
    name = recorder.emit(Reshape(rows_of(result).name, ()), "score")
    lets = tuple(needed(recorder.lets, (name,)))
    used = {read for let in lets for read in operands(let.op)}
    params = tuple(
        Param(param, recorder.types[param], role)
        for role, names in (("feature", recorder.features), ("weight", recorder.weights))
        for param in names
        if param in used
    )
    if not any(param.type.space is Space.NODE for param in params):
        raise NotTraceable("the score depends on no entity")
    own = layer._get_name()
    whole = Program(own if own.isidentifier() else "score", params, lets, (name,))
    program, picks = with_picked_columns(with_products_of_sums(whole))
    try:
        verify(program)
    except ProgramError as error:
        raise NotTraceable(str(error)) from None
    weights = {n: w for n, w in recorder.weights.items() if n in used}
    return TracedScore(program, {**weights, **picks})


def _check(traced: TracedScore, layer: ScoreLayer, triples: _RandomTriples) -> None:
    given = {**triples.tables, **traced.weights_of(triples.tables)}
    found = interpret(traced.program, given, triples.graph())
    expected = layer.run(triples.rows)
    error = ((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()
    if not error <= _TOLERANCE:
        raise NotTraceable(f"its program gives other numbers: they differ by {error:.0e}")

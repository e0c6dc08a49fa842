"""Score functions that score many candidates at once, where they can without an edge for each."""

from __future__ import annotations

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.batch import check_ids, check_queries, check_range
from hetune.variants.frontend.kge.layer import ScoreLayer, ScoreOfRows
from hetune.variants.frontend.kge.tables import ScoreTables
from hetune.variants.frontend.kge.trace import TracedScore, trace_score
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.runtime.edge_scores import scores_of_edges
from hetune.variants.runtime.program_candidates import SIDES, ProgramCandidates
from hetune.variants.runtime.score_model import ScoreModel

_TRIPLES_AT_ONCE = 1 << 16
"""That a function which is no program scores."""


class FunctionCandidates:
    """A score function with tables of one kind.

    Args:
        function: Of one triple's rows.
        given: Tables; others of their kind are given later.
    """

    def __init__(self, function: ScoreOfRows, given: ScoreTables) -> None:
        self._function = function
        self._traced: TracedScore | None = None
        try:
            self._traced = trace_score(self._layer(given), given.entities)
            self._scores = ProgramCandidates(self._traced.program)
        except NotTraceable as error:
            self._reason = str(error)

    @property
    def is_program(self) -> bool:
        """Whether it is; else all scores are computed by an edge for each."""
        return self._traced is not None

    def all(self, given: ScoreTables, nodes: Tensor, rels: Tensor, side: str) -> Tensor:
        """Scores [B, N] of all entities at a side.

        Raises:
            InputError: There is no such side, entity or relation.
        """
        count = given.num_entities
        check_queries(nodes, rels, side, count, given.num_relations)
        nodes, rels = nodes.long(), rels.long()
        if not len(nodes) * count:
            return next(iter(given.entities.values())).new_empty((len(nodes), count))
        if self._traced is not None:
            return self._scores.of_all(_values(self._traced, given), nodes, rels, side)
        layer, entities = self._layer(given), tuple(given.entities.values())
        return scores_of_edges(
            lambda heads, types, tails: layer(heads, types, tails, *entities),
            nodes,
            rels,
            SIDES[side],
            torch.arange(count, device=nodes.device),
            _TRIPLES_AT_ONCE,
        )

    def chunks(
        self, given: ScoreTables, triples: tuple[Tensor, Tensor, Tensor], side: str, others: Tensor
    ) -> Tensor | None:
        """Scores [B, K] of negatives [chunks, K] for chunks of triples.

        None where rows of triples and negatives do not meet in products and distances alone, or
        these do not tell.

        Raises:
            InputError: There is no such entity or relation.
        """
        if self._traced is None or not self._scores.has_chunks(side):
            return None
        heads, rels, tails = (ids.long() for ids in triples)
        check_ids((heads, rels, tails), given.num_entities, given.num_relations)
        check_range("negatives", others, "entities", given.num_entities)
        values, nodes = _values(self._traced, given), heads if side == "tail" else tails
        return self._scores.of_chunks(values, nodes, rels, side, others.long())

    def model(self, given: ScoreTables) -> ScoreModel:
        """The function with its tables, which may be written to a file.

        Raises:
            InputError: The function is no program.
        """
        if self._traced is None:
            raise InputError(f"the function is no program: {self._reason}")
        program, values = self._traced.program, _values(self._traced, given)
        return ScoreModel(program, {p.name: values[p.name].detach() for p in program.params})

    def _layer(self, given: ScoreTables) -> ScoreLayer:
        return ScoreLayer(self._function, given.arguments, given.weights, given.options)


def _values(traced: TracedScore, given: ScoreTables) -> dict[str, Tensor]:
    found = traced.weights_of({**given.weights, **given.entities})  # of one dtype, and on a device
    return {**given.entities, **found}

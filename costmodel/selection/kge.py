"""`hetune.kge.score`: a function of one triple that scores batches of them, compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial, update_wrapper
from types import FunctionType, MappingProxyType
from typing import Any, Literal, overload

from torch import Tensor

from hetune.costmodel.selection.compile import compile
from hetune.costmodel.selection.weighted_layers import WeightedLayers
from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.batch import check_negatives, check_triples
from hetune.variants.frontend.kge.formulas import FORMULAS, SHARED
from hetune.variants.frontend.kge.layer import ScoreLayer
from hetune.variants.frontend.kge.tables import ScoreTables, Tables, bound_tables
from hetune.variants.frontend.tracing.captured import captured

Side = Literal["head", "tail"]


class ScoreFunction:
    """Scores triples of a knowledge graph. Made by `score`.

    Attributes:
        shared: Names of arguments that are the same for all triples.
    """

    def __init__(self, function: FunctionType, shared: Iterable[str] = ()) -> None:
        update_wrapper(self, function)
        self._function, self.shared = function, frozenset(shared)
        self._signature = inspect.signature(function)
        self._layers = WeightedLayers(partial(compile, dynamic=True))

    def __call__(
        self,
        heads: Tensor,
        rels: Tensor,
        tails: Tensor,
        *,
        entity: Tables,
        tail: Tables | None = None,
        **tables: Any,
    ) -> Tensor:
        """The scores of triples.

        Args:
            heads: Numbers of entities, integers [B].
            rels: Numbers of relations, integers [B].
            tails: Numbers of entities, integers [B].
            entity: Rows of entities, float [N, *row shape]; a tuple where the function takes one.
            tail: Rows of tails, where these are others; likewise.
            **tables: The function's other arguments by name: rows of relations [R, *row shape],
                tensors that all triples share, and options that are no tensors.

        Returns:
            Float [B].

        Raises:
            InputError: A table is missing or has another shape, or there is no entity or relation
                of some number.
        """
        check_triples(heads, rels, tails)
        return self._run((heads, rels, tails), self._bound(entity, tail, tables))

    def corrupt(
        self,
        heads: Tensor,
        rels: Tensor,
        tails: Tensor,
        negatives: Tensor,
        *,
        side: Side = "tail",
        entity: Tables,
        tail: Tables | None = None,
        **tables: Any,
    ) -> Tensor:
        """The scores of triples with other tails, or heads.

        Args:
            heads: As of a call.
            rels: Likewise.
            tails: Likewise.
            negatives: Numbers of entities in place of the tails: K for each triple [B, K], or for
                each of as many chunks of consecutive triples as there are rows [chunks, K].
            side: What they are in place of.
            entity: As of a call.
            tail: Likewise.
            **tables: Likewise.

        Returns:
            Float [B, K].

        Raises:
            InputError: As of a call, or numbers of rows do not fit.
        """
        check_triples(heads, rels, tails)
        check_negatives(negatives, len(heads), side)
        count, chunk = negatives.shape[1], len(heads) // max(len(negatives), 1)
        others = negatives.repeat_interleave(chunk, 0).flatten()
        ends = {"head": heads, "tail": tails}
        kept = {name: ids.repeat_interleave(count) for name, ids in ends.items() if name != side}
        ids = {**kept, side: others}
        triples = ids["head"], rels.repeat_interleave(count), ids["tail"]
        return self._run(triples, self._bound(entity, tail, tables)).view(-1, count)

    def _bound(self, entity: Tables, tail: Tables | None, tables: Mapping[str, Any]) -> ScoreTables:
        return bound_tables(self._signature, self.shared, entity, tail, tables)

    def _run(self, triples: tuple[Tensor, Tensor, Tensor], given: ScoreTables) -> Tensor:
        entities = tuple(given.entities.values())
        if not len(triples[0]):
            return entities[0][triples[0]].flatten(1).sum(1)
        scores: Tensor = self._layers.run(
            (captured(self._function), given.kind),
            given.weights,
            lambda: ScoreLayer(self._function, given.arguments, given.weights, given.options),
            *triples,
            *entities,
        )
        return scores


@overload
def score(function: Callable[..., Any], *, shared: Iterable[str] = ()) -> ScoreFunction: ...
@overload
def score(*, shared: Iterable[str] = ()) -> Callable[[Callable[..., Any]], ScoreFunction]: ...
def score(
    function: Callable[..., Any] | None = None, *, shared: Iterable[str] = ()
) -> ScoreFunction | Callable[[Callable[..., Any]], ScoreFunction]:
    """Decorator: a function of one triple scores batches of triples, compiled.

    Its first three parameters are the rows of the head, the relation and the tail, tensors (or
    tuples of them) as they are in a table's row; others are rows of further tables of relations.
    It returns one number, and is what `torch.vmap` makes of it for a batch.

        @hetune.kge.score
        def transe(h, r, t, p=1):
            return -torch.linalg.vector_norm(h + r - t, p)

        scores = transe(heads, rels, tails, entity=entities.weight, r=relations.weight)

    Args:
        function: The function.
        shared: Names of parameters that are the same for all triples.

    Raises:
        InputError: It is no function written in Python, or takes no three arguments.
    """
    if function is None:
        return partial(score, shared=shared)
    if not isinstance(function, FunctionType):
        raise InputError(f"{function!r} is no function written in Python: give one")
    if len(inspect.signature(function).parameters) < 3:
        raise InputError(f"{function.__name__} does not take a head, a relation and a tail")
    return ScoreFunction(function, shared)


scores = MappingProxyType(
    {name: ScoreFunction(function, SHARED.get(name, ())) for name, function in FORMULAS.items()}
)
"""Score functions of the literature by name in small letters: see `formulas`."""

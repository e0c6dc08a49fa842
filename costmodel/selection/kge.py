"""`hetune.kge.score`: a function of one triple that scores batches of them, compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial, update_wrapper
from types import FunctionType, MappingProxyType
from typing import Any, overload

import torch
from torch import Tensor

from hetune.costmodel.selection.compile import compile
from hetune.costmodel.selection.weighted_layers import WeightedLayers
from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.batch import (
    Side,
    check_ids,
    check_negatives,
    check_range,
    check_triples,
)
from hetune.variants.frontend.kge.formulas import FORMULAS, SHARED
from hetune.variants.frontend.kge.layer import ScoreLayer
from hetune.variants.frontend.kge.tables import (
    ScoreTables,
    Tables,
    TableShapes,
    bound_tables,
    named,
)
from hetune.variants.frontend.tracing.captured import captured
from hetune.variants.runtime.batch_calls import BatchCalls
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.function_candidates import FunctionCandidates
from hetune.variants.runtime.modes import needs_gradients
from hetune.variants.runtime.score_model import ScoreModel

_OF_CALLS = frozenset(("heads", "rels", "tails", "negatives", "nodes", "side", "entity", "tail"))
"""Arguments that are no tables of the function's."""
_LEFT_OUT = object()
_MOST_KINDS = 64
"""Sets of options and of shapes of tables whose ways to score candidates are kept."""


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
        self._candidates: dict[Hashable, FunctionCandidates] = {}
        self._shapes: TableShapes | None = None
        self._last: tuple[object, Mapping[str, Any], BatchCalls] | None = None

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
        triples = heads, rels, tails
        if (found := self._run_like_last(triples, entity, tail, tables)) is not None:
            return found
        check_triples(*triples)
        return self._run(triples, self._bound(entity, tail, tables))

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
        given = self._bound(entity, tail, tables)
        count, chunk = negatives.shape[1], len(heads) // max(len(negatives), 1)
        if chunk >= _least_chunk(given):
            candidates = self._candidates_of(given)
            scores = candidates.chunks(given, (heads, rels, tails), side, negatives)
            if scores is not None:
                return scores
        others = negatives.repeat_interleave(chunk, 0).flatten()
        ends = {"head": heads, "tail": tails}
        kept = {name: ids.repeat_interleave(count) for name, ids in ends.items() if name != side}
        ids = {**kept, side: others}
        triples = ids["head"], rels.repeat_interleave(count), ids["tail"]
        try:
            return self._run(triples, given).view(len(heads), count)
        except InputError:  # which names these triples, and not what was given
            check_ids((heads, rels, tails), given.num_entities, given.num_relations)
            check_range("negatives", negatives, "entities", given.num_entities)
            raise

    def all(
        self,
        nodes: Tensor,
        rels: Tensor,
        *,
        side: Side = "tail",
        entity: Tables,
        tail: Tables | None = None,
        **tables: Any,
    ) -> Tensor:
        """The scores of all entities as tails, or as heads.

        Where candidates are met in inner products and distances, those are products of matrices.

        Args:
            nodes: Numbers of the entities at the other side, integers [B].
            rels: As of a call.
            side: What is any entity.
            entity: As of a call.
            tail: Likewise.
            **tables: Likewise.

        Returns:
            Float [B, N].

        Raises:
            InputError: As of a call, or there is no such side.
        """
        given = self._bound(entity, tail, tables)
        return self._candidates_of(given).all(given, nodes, rels, side)

    def _bound(self, entity: Tables, tail: Tables | None, tables: Mapping[str, Any]) -> ScoreTables:
        given = {"entity": entity, **tables}
        if tail is not None:
            given["tail"] = tail
        if self._shapes is not None and (found := self._shapes.bound(given)) is not None:
            return found
        found = bound_tables(self._signature, self.shared, entity, tail, tables)
        self._shapes = TableShapes(found, given)
        return found

    def __reduce__(self) -> str:  # as functions, it is copied and pickled by its name
        return self._function.__qualname__

    def model(self, *, entity: Tables, tail: Tables | None = None, **tables: Any) -> ScoreModel:
        """The function with its tables as they are now, to be saved and loaded.

        Args:
            entity: As of a call.
            tail: Likewise.
            **tables: Likewise.

        Raises:
            InputError: As of a call, or the function is no program.
        """
        given = self._bound(entity, tail, tables)
        return self._candidates_of(given).model(given)

    def _candidates_of(self, given: ScoreTables) -> FunctionCandidates:
        key = captured(self._function), given.kind
        try:
            found = self._candidates.get(key)
        except TypeError as error:
            raise InputError(f"an option is no constant: {error}") from None
        if found is None:
            if len(self._candidates) >= _MOST_KINDS:
                self._candidates.clear()
            found = self._candidates[key] = FunctionCandidates(self._function, given)
        return found

    def _run(self, triples: tuple[Tensor, Tensor, Tensor], given: ScoreTables) -> Tensor:
        entities = tuple(given.entities.values())
        if not triples[0].numel():
            return entities[0][triples[0]].flatten()
        read = captured(self._function)

        def call(layer: CompiledLayer) -> tuple[Tensor, BatchCalls]:
            return layer.forward(*triples, *entities), layer._known.batches

        scores, batches = self._layers.run(
            (read, given.kind),
            given.weights,
            lambda: ScoreLayer(self._function, given.arguments, given.weights, given.options),
            call,
        )
        self._last = read, given.options, batches
        return scores

    def _run_like_last(
        self,
        triples: tuple[Tensor, Tensor, Tensor],
        entity: Tables,
        tail: Tables | None,
        tables: Mapping[str, Any],
    ) -> Tensor | None:
        """The scores of a call that differs from one of late in numbers alone; None of others."""
        if (last := self._last) is None or torch.compiler.is_dynamo_compiling():
            return None
        read, options, batches = last
        given = {"entity": entity, **tables}
        if tail is not None:
            given["tail"] = tail
        for name, known in options.items():
            value = given.pop(name, _LEFT_OUT)
            if type(value) is not type(known) or value != known:
                return None
        if captured(self._function) != read:
            return None
        if any(type(value) is tuple for value in given.values()):
            given = dict(named(given))
        heads, rels, tails = triples
        return batches.of_tables((heads, tails, rels), given)


def _least_chunk(given: ScoreTables) -> int:
    """How many triples have to share negatives for these to be gathered and multiplied.

    Fewer make too little of each row: they are read edge by edge. There, gradients take longer than
    those of products, and tables that are not float32 have no kernels.
    """
    tables = (*given.entities.values(), *given.weights.values())
    has_kernels = all(table.dtype is torch.float32 for table in tables)
    return 32 if has_kernels and not needs_gradients(lambda: tables) else 4


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
        InputError: It is no function written in Python, takes no three arguments, or one that a
            call has itself; or it has no argument that is shared.
    """
    if function is None:
        return partial(score, shared=shared)
    if not isinstance(function, FunctionType):
        raise InputError(f"{function!r} is no function written in Python: give one")
    if len(inspect.signature(function).parameters) < 3:
        raise InputError(f"{function.__name__} does not take a head, a relation and a tail")
    _, relation, _, *others = inspect.signature(function).parameters
    if own := _OF_CALLS.intersection((relation, *others)):
        raise InputError(f"{function.__name__}'s {min(own)} is an argument of calls: rename it")
    shared = (shared,) if isinstance(shared, str) else tuple(shared)
    if unknown := set(shared).difference(others):
        raise InputError(f"{function.__name__} has no argument {unknown.pop()!r} to be shared")
    return ScoreFunction(function, shared)


scores = MappingProxyType(
    {name: ScoreFunction(function, SHARED.get(name, ())) for name, function in FORMULAS.items()}
)
"""Score functions of the literature by name in small letters: see `formulas`."""

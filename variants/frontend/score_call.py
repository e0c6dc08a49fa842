"""Calls of score functions: a batch of triples, and tables of entities."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hetune.variants.errors import GraphError
from hetune.variants.frontend.adapter import Adapter, Arguments, Unsupported
from hetune.variants.frontend.call import Call, Ids, RepeatReader
from hetune.variants.frontend.calls import feature_refusal
from hetune.variants.frontend.kge.batch import check_ids
from hetune.variants.frontend.kge.layer import ScoreLayer
from hetune.variants.frontend.kge.trace import trace_score
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.graph.edge_batch import EdgeBatch, FreeBatches
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.limitation import limitation


class ScoreCall(Call):
    """A call of a score function.

    Args:
        adapter: Of the layer.
        triples: Integers [B] each: heads, relations and tails.
        entities: A table [N, *row shape] by the program's names.
        num_entities: N.
        free: Batches that take other triples.
    """

    __slots__ = ("_adapter", "_entities", "_free", "_num_entities", "_triples")

    def __init__(
        self,
        adapter: Adapter,
        triples: tuple[Tensor, ...],
        entities: Mapping[str, Tensor],
        num_entities: int,
        free: FreeBatches,
    ) -> None:
        self._adapter, self._triples = adapter, triples
        self._entities, self._num_entities, self._free = entities, num_entities, free

    @property
    def features(self) -> tuple[Tensor, ...]:
        """The tables of entities."""
        return tuple(self._entities.values())

    @property
    def edges(self) -> object:
        """The triples."""
        return self._triples

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """None: each batch is another one."""
        return ()

    @property
    def others(self) -> tuple[object, ...]:
        """The numbers of entities and relations."""
        return self._num_entities, self._adapter.num_relations

    def graph(self) -> HeteroGraph:
        """An edge from head to tail for each triple.

        Raises:
            InputError: There is no entity, or relation, of some number.
        """
        heads, rels, tails = self._triples
        counts = self._num_entities, self._adapter.num_relations
        batch = self._free.take(*counts, heads.shape[0])
        if batch is not None and batch.replace_ids(heads, tails, rels):
            return batch
        try:
            return EdgeBatch(heads, tails, rels, num_nodes=counts[0], num_etypes=counts[1])
        except GraphError:
            check_ids(self._triples, *counts)
            raise

    def inputs(self, graph: HeteroGraph) -> dict[str, Tensor]:
        """The tables of entities."""
        return dict(self._entities)

    def repeat_reader(self, args: tuple[Any, ...]) -> RepeatReader:
        """Those with other triples, and tables of the same shapes."""
        adapter, free = self._adapter, self._free
        module, names = adapter.module, [*self._entities]
        assert isinstance(module, ScoreLayer)
        places = [module.entities.index(name) for name in names]  # two may be one table now
        has_types = self._triples[1] is args[1]

        def read(args: tuple[Any, ...]) -> ScoreCall:
            heads, rels, tails, *entities = args
            tables = {name: entities[i] for name, i in zip(names, places, strict=True)}
            rels = rels if has_types else torch.zeros_like(rels)
            return ScoreCall(adapter, (heads, rels, tails), tables, entities[0].shape[0], free)

        return read

    def edge_batch(self) -> tuple[Ids, Mapping[str, Tensor]]:
        """From heads to tails, and tables of entities."""
        heads, rels, tails = self._triples
        return (heads, tails, rels), self._entities

    def result(self, graph: HeteroGraph, results: tuple[Tensor, ...]) -> Tensor:
        """[B]."""
        scores = results[0]
        if isinstance(graph, EdgeBatch):
            if scores.grad_fn is None:
                self._free.give(graph)
            else:  # its backward reads the ids, and may be asked for as long as it is there
                weakref.finalize(scores.grad_fn, self._free.give, graph).atexit = False
        return scores.flatten() if scores.dim() != 1 else scores


def adapt_score(module: ScoreLayer, call: Arguments | None) -> Adapter | Unsupported:
    """The adapter of a score function for calls like this one.

    Args:
        module: The layer.
        call: What it is called with, if it is.
    """
    if call is None:
        return Unsupported("it is traced by its first call", needs_call=True)
    _, _, _, *entities = call[0]
    tables = dict(zip(module.entities, entities, strict=True))
    try:
        traced = trace_score(module, tables)
    except NotTraceable as error:
        return Unsupported(f"it is no program: {error}")
    if (reason := limitation(traced.program)) is not None:
        return Unsupported(reason)
    place = {name: table.detach().new_empty(0) for name, table in tables.items()}
    adapter = Adapter(
        module,
        traced.program,
        lambda: traced.weights_of({**module.tables, **place}),  # constants are where tables are
        1 if module.num_relations is None else module.num_relations,
        is_own=True,
    )
    free = FreeBatches()
    adapter.read = lambda args, kwargs: _read(module, adapter, args, free)
    return adapter


def _read(
    module: ScoreLayer, adapter: Adapter, args: tuple[Any, ...], free: FreeBatches
) -> ScoreCall | Unsupported:
    heads, rels, tails, *entities = args
    rows = dict(zip(module.entities, entities, strict=True))
    for name, table in rows.items():
        if (reason := feature_refusal(name, table, torch.float32, dims=None)) is not None:
            return Unsupported(reason)
    if not module.relations:
        rels = torch.zeros_like(rels)
    used = {param.name: rows[param.name] for param in adapter.inputs}
    return ScoreCall(adapter, (heads, rels, tails), used, len(entities[0]), free)

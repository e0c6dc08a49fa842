"""Scores of triples, and the entities that score best, by models that are kept."""

from __future__ import annotations

import torch
from torch import Tensor

from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.inference.answers import Answer
from hetune.service.core.inference.deadline import check_deadline
from hetune.service.core.inference.inference import Inference
from hetune.service.core.models.graph_check import check_fits
from hetune.service.core.models.models import Model
from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.batch import check_ids, check_triples
from hetune.variants.graph.edge_batch import EdgeBatch
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.ranking import BYTES_A_SCORE, MEMORY_LIMIT, TopEntities, top_k
from hetune.variants.runtime.score_model import ScoreModel

_FLOAT_BYTES, _BEST_BYTES = 4, 12
"""Of a number; of an entity with its score."""


def score_triples(
    inference: Inference,
    model: Model,
    triples: tuple[Tensor, Tensor, Tensor],
    *,
    variant: str | None = None,
    memory_limit: int | None = None,
    explain: bool = False,
    deadline: float | None = None,
) -> Answer:
    """Scores triples: a run on a batch of edges.

    Args:
        inference: What runs models.
        model: Scores triples.
        triples: Heads, relations and tails, integers [B] each.
        variant: Id to run; the selector's choice if None.
        memory_limit: As of `Inference.run`.
        explain: Likewise.
        deadline: Likewise.

    Returns:
        Scores, float32 [B, 1].

    Raises:
        InputError: The model scores no triples, or there is no entity or relation of some number.
        HetuneError: As `Inference.run` does.
    """
    scores, (heads, rels, tails) = _scores_of(model), triples
    check_triples(heads, rels, tails)
    check_ids(triples, scores.num_entities, scores.num_relations)
    if scores.num_relations is None:
        rels = torch.zeros_like(rels)
    nodes, etypes = scores.num_entities, model.description.num_relations
    return inference.run(
        model,
        EdgeBatch(heads, tails, rels, num_nodes=nodes, num_etypes=etypes),
        None,
        variants=None if variant is None else (variant,),
        memory_limit=memory_limit,
        explain=explain,
        deadline=deadline,
    )


def top_entities(
    limits: ServiceLimits,
    model: Model,
    nodes: Tensor,
    rels: Tensor,
    *,
    k: int,
    side: str,
    known: HeteroGraph | None,
    deadline: float | None = None,
) -> TopEntities:
    """The entities that score best at a side: `hetune.kge.top_k`, on the host.

    Args:
        limits: `run_bytes` bounds scores and answer.
        model: Scores triples.
        nodes: Entities at the other side, integers [B].
        rels: Relations, integers [B].
        k: How many for each.
        side: "head" or "tail".
        known: Its edges are left out.
        deadline: Time of `time.monotonic()` after which no further batch is begun.

    Raises:
        InputError: The model scores no triples, or arguments or the graph do not fit it.
        TooLargeError: Scores of one query, or the answer, would be over the limit.
        DeadlineError: The deadline has passed.
    """
    scores, most = _scores_of(model), limits.run_bytes
    widest = max(kind.width for kind in scores.program.types.values())
    row = scores.num_entities * (BYTES_A_SCORE + _FLOAT_BYTES * widest)
    answer = nodes.numel() * min(k, scores.num_entities) * _BEST_BYTES
    check_limit("bytes for scores of all entities", row + answer, most)
    triples = None
    if known is not None:
        check_fits(model, known)
        triples = torch.stack((known.src, known.etype, known.dst), 1)
    return top_k(
        scores,
        nodes,
        rels,
        k=k,
        side=side,
        known=triples,
        memory_limit=min(MEMORY_LIMIT, (most - answer) // 2),
        progress=lambda done, count: check_deadline(deadline),
    )


def _scores_of(model: Model) -> ScoreModel:
    if model.scores is None:
        raise InputError(f"the model {model.name} scores no triples: give one of hetune.kge")
    return model.scores

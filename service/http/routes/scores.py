"""Routes of models that score triples: scores, and the entities that score best."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import torch
from fastapi import APIRouter
from torch import Tensor

from hetune.service.core.formats.documents import Bytes, Document, Positive, Seconds, parse
from hetune.service.core.formats.json_arrays import JsonArray
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.formats.message import Pieces, unpack
from hetune.service.core.formats.number_fields import Integers
from hetune.service.core.graphs.document import GraphDocument, GraphHeader
from hetune.service.core.inference.answers import RunReport
from hetune.service.core.inference.triple_scores import score_triples, top_entities
from hetune.service.http.body import Media
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.routes.computations import ModelRequest, add_computation, as_json
from hetune.service.http.routes.requests import graph_in
from hetune.variants.errors import MalformedError
from hetune.variants.frontend.kge.batch import Side
from hetune.variants.graph.hetero import HeteroGraph

H = TypeVar("H", bound=Document)
_TRIPLES, _QUERIES = ("heads", "rels", "tails"), ("nodes", "rels")


class ScoreHeader(Document):
    """Which model scores triples, and how."""

    version: Positive | None = None
    variant: str | None = None
    memory_limit: Bytes | None = None
    deadline_seconds: Seconds | None = None
    explain: bool = False


class ScoreDocument(ScoreHeader):
    """Triples to score: numbers of entities and relations, one of each for a triple."""

    has_arrays: ClassVar[bool] = True
    heads: Integers
    rels: Integers
    tails: Integers


class ScoreAnswer(RunReport):
    """What ran, and a score for each triple."""

    scores: list[float]


class TopHeader(Document):
    """How many entities to give for each query, at which side of a triple.

    Triples of `known`, a graph or the id of one that is kept, are left out.
    """

    version: Positive | None = None
    k: Positive = 10
    side: Side = "tail"
    known: str | GraphHeader | None = None
    deadline_seconds: Seconds | None = None


class TopDocument(TopHeader):
    """Queries: entities at the other side of a triple, with a relation each."""

    has_arrays: ClassVar[bool] = True
    nodes: Integers
    rels: Integers
    known: str | GraphDocument | None = None


class TopAnswer(Document):
    """Entities for each query, the best first, with their scores; fewer where no more are left."""

    entities: list[list[int]]
    scores: list[list[float]]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes, service, limits = APIRouter(tags=["inference"]), work.service, work.service.limits

    def score(asked: ModelRequest) -> bytes | Pieces:
        header, (heads, rels, tails), _ = _read(asked, ScoreDocument, ScoreHeader, _TRIPLES, limits)
        found = score_triples(
            service.inference,
            service.models.get(asked.model, header.version),
            (heads, rels, tails),
            variant=header.variant,
            memory_limit=header.memory_limit,
            explain=header.explain,
            deadline=asked.deadline(header.deadline_seconds),
        )
        assert isinstance(found.out, Tensor)
        scores = found.out.flatten()
        if asked.answer is Media.SAFETENSORS:
            return Pieces(found.report.model_dump_json(), {"scores": scores})
        check_limit("numbers in JSON", scores.numel(), limits.json_elements)
        return as_json(found.report.model_dump(mode="json") | {"scores": scores.tolist()})

    def top(asked: ModelRequest) -> bytes | Pieces:
        header, (nodes, rels), arrays = _read(asked, TopDocument, TopHeader, _QUERIES, limits)
        known = _known(header, arrays, limits)
        found = top_entities(
            limits,
            service.models.get(asked.model, header.version),
            nodes,
            rels,
            k=header.k,
            side=header.side,
            known=service.graphs.get(known) if isinstance(known, str) else known,
            deadline=asked.deadline(header.deadline_seconds),
        )
        if asked.answer is Media.SAFETENSORS:
            return Pieces("{}", {"entities": found.entities, "scores": found.scores})
        check_limit("numbers in JSON", 2 * found.entities.numel(), limits.json_elements)
        counts = (found.entities >= 0).sum(1).tolist()
        columns = (found.entities.tolist(), found.scores.tolist())
        entities, scores = (
            [row[:count] for row, count in zip(rows, counts, strict=True)] for rows in columns
        )
        return as_json({"entities": entities, "scores": scores})

    add_computation(
        routes,
        work,
        "score",
        score,
        takes_in=ScoreDocument,
        gives_out=ScoreAnswer,
        description="Scores triples of a knowledge graph.",
    )
    add_computation(
        routes,
        work,
        "top-k",
        top,
        takes_in=TopDocument,
        gives_out=TopAnswer,
        description="The entities that score best in a triple.",
    )
    return routes


def _read(
    asked: ModelRequest,
    document: type[H],
    header: type[H],
    names: tuple[str, ...],
    limits: ServiceLimits,
) -> tuple[H, list[Tensor], Tensor | dict[str, Tensor] | None]:
    """The document, its ids, and the tensors of the triples that are known."""
    ids: list[Tensor] = []
    if asked.media is Media.JSON:
        found = parse(document, bytes(asked.body))
        for name in names:
            array: JsonArray = getattr(found, name)
            check_limit(name, array.count, limits.edges)
            ids.append(torch.from_numpy(array.integers(name)))
        return found, ids, None
    message = unpack(asked.body)
    message.check_groups(*names, *(("known",) if header is TopHeader else ()))
    for name in names:
        given = message.group(name)
        if not isinstance(given, Tensor):
            raise MalformedError(f"the tensor {name} is missing: give integers, one for each")
        check_limit(name, given.numel(), limits.edges)
        ids.append(given)
    return parse(header, message.document), ids, message.group("known")


def _known(
    header: TopHeader, arrays: Tensor | dict[str, Tensor] | None, limits: ServiceLimits
) -> HeteroGraph | str | None:
    if header.known is not None:
        return graph_in(header.known, limits, arrays, "known")
    if arrays is not None:
        raise MalformedError(
            "there are tensors of known triples, and the document has no known: give their "
            "graph's num_nodes and num_etypes there"
        )
    return None

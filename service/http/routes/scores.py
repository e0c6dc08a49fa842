"""Routes of models that score triples: scores, and the entities that score best."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeVar

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
from hetune.service.http.parameters import MODEL_REFERENCE
from hetune.service.http.routes.computations import ModelRequest, as_json, computing
from hetune.service.http.routes.requests import contained_graph, graph_in
from hetune.service.http.schema import gives, takes
from hetune.variants.errors import MalformedError
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
    side: Literal["head", "tail"] = "tail"
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
        header, given, _ = _read(asked, ScoreDocument, ScoreHeader, _TRIPLES, limits)
        found = score_triples(
            service.inference,
            service.models.get(asked.model, header.version),
            (given[0], given[1], given[2]),
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
        known: HeteroGraph | str | None = None
        if asked.media is Media.JSON and header.known is not None:
            known = graph_in(header.known, limits)
        elif header.known is not None:
            known = contained_graph(header.known, arrays, limits)
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

    for path, compute, takes_in, gives_out, says in (
        ("score", score, ScoreDocument, ScoreAnswer, "Scores triples of a knowledge graph."),
        ("top-k", top, TopDocument, TopAnswer, "The entities that score best in a triple."),
    ):
        routes.post(
            f"/v1/models/{{name}}/{path}",
            name=path,
            description=says,
            openapi_extra=takes(takes_in, safetensors=True) | {"parameters": [MODEL_REFERENCE]},
            responses=gives(gives_out),
        )(computing(work, compute))
    return routes


def _read(
    asked: ModelRequest,
    document: type[H],
    header: type[H],
    names: tuple[str, ...],
    limits: ServiceLimits,
) -> tuple[H, list[Tensor], Tensor | dict[str, Tensor] | None]:
    """The document, its ids, and the tensors of the triples that are known."""
    if asked.media is Media.JSON:
        found = parse(document, bytes(asked.body))
        arrays: list[JsonArray] = [getattr(found, name) for name in names]
        for name, array in zip(names, arrays, strict=True):
            check_limit(name, array.count, limits.edges)
        ids = [torch.from_numpy(a.integers(n)) for n, a in zip(names, arrays, strict=True)]
        return found, ids, None
    message = unpack(asked.body)
    header_found = parse(header, message.document)
    used = (*names, "known") if "known" in header.model_fields else names
    for name in message.tensors:
        if name not in names and not (name.startswith("known/") and "known" in used):
            raise MalformedError(f"there is no use for the tensor {name!r}: give {', '.join(used)}")
    for name in names:
        if name not in message.tensors:
            raise MalformedError(f"the tensor {name} is missing: give integers, one for each")
        check_limit(name, message.tensors[name].numel(), limits.edges)
    known = message.group("known")
    if known is not None and getattr(header_found, "known", None) is None:
        raise MalformedError(
            "there are tensors of known triples, and the document has no known: give their "
            "graph's num_nodes and num_etypes there"
        )
    return header_found, [message.tensors[name] for name in names], known

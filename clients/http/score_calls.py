"""The service's operations on models that score triples, as calls."""

from __future__ import annotations

import httpx
from torch import Tensor

from hetune.clients.http.call import ServiceCall, path_segment
from hetune.clients.http.inputs import GraphLike, Ids, graph_of
from hetune.clients.http.wire import ids_body, tensors_of
from hetune.service.core.formats.message import MEDIA_TYPE
from hetune.variants.frontend.kge.batch import Side
from hetune.variants.runtime.ranking import TopEntities


def score(
    model: str,
    heads: Ids,
    rels: Ids,
    tails: Ids,
    *,
    version: int | None = None,
    variant: str | None = None,
    memory_limit: int | None = None,
    deadline_seconds: float | None = None,
) -> ServiceCall[Tensor]:
    """The scores of triples, float32 [B], by a model that scores them.

    Args:
        model: Its name, or ``name@alias``.
        heads: Numbers of entities, integers [B].
        rels: Numbers of relations, integers [B].
        tails: Numbers of entities, integers [B].
        version: As of `infer`.
        variant: Id to run; the selector's choice by default.
        memory_limit: As of `infer`.
        deadline_seconds: Likewise.

    Raises:
        NotFoundError: There is no such model.
        InputError: It scores no triples, or there is no entity or relation of some number.
        HetuneError: As of `infer`.
    """
    fields = {
        "version": version,
        "variant": variant,
        "memory_limit": memory_limit,
        "deadline_seconds": deadline_seconds,
    }
    ids = {"heads": heads, "rels": rels, "tails": tails}
    path = f"/v1/models/{path_segment(model)}/score"
    return ServiceCall("POST", path, _scores, ids_body(ids, fields), accept=MEDIA_TYPE)


def top_k(
    model: str,
    nodes: Ids,
    rels: Ids,
    *,
    k: int = 10,
    side: Side = "tail",
    known: GraphLike | str | None = None,
    version: int | None = None,
    deadline_seconds: float | None = None,
) -> ServiceCall[TopEntities]:
    """The entities that score best as tails, or as heads: what `hetune.kge.top_k` gives.

    Args:
        model: Its name, or ``name@alias``.
        nodes: Numbers of the entities at the other side, integers [B].
        rels: Numbers of relations, integers [B].
        k: How many for each.
        side: "head" or "tail".
        known: The id of a graph that the service keeps, or a graph: triples that are left out.
        version: As of `infer`.
        deadline_seconds: Likewise.

    Raises:
        NotFoundError: There is no such model or graph.
        InputError: The model scores no triples, or arguments or the graph do not fit it.
        TooLargeError: Scores of all entities, or the answer, are over a limit.
        HetuneError: As of `infer`.
    """
    fields = {"version": version, "k": k, "side": side, "deadline_seconds": deadline_seconds}
    graph = known if known is None or isinstance(known, str) else graph_of(known)
    body = ids_body({"nodes": nodes, "rels": rels}, fields, graph)
    path = f"/v1/models/{path_segment(model)}/top-k"
    return ServiceCall("POST", path, _top_entities, body, accept=MEDIA_TYPE)


def _scores(response: httpx.Response) -> Tensor:
    return tensors_of(response)["scores"]


def _top_entities(response: httpx.Response) -> TopEntities:
    tensors = tensors_of(response)
    return TopEntities(tensors["entities"], tensors["scores"])

"""What goes over the wire, for clients of every kind: requests out, answers and errors in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np
import torch
from torch import Tensor

from hetune.service.core.answers import Answer, Report, Rows
from hetune.service.core.documents import parse
from hetune.service.core.graph_document import arrays_of, header_of
from hetune.service.core.message import MEDIA_TYPE, Message, grouped, pack, unpack
from hetune.variants import errors
from hetune.variants.errors import HetuneError, MalformedError, ServiceError, UnreachableError
from hetune.variants.graph.hetero import HeteroGraph

HEADERS = {"Content-Type": MEDIA_TYPE}
BINARY = {"Content-Type": MEDIA_TYPE, "Accept": MEDIA_TYPE}
Array = Tensor | np.ndarray | Sequence[int]
Given = Array | Mapping[str, Array]
_URN = "urn:hetune:error:"
_FAILED = 400


def graph_body(graph: HeteroGraph) -> bytes:
    """The body that uploads a graph."""
    return pack(header_of(graph).model_dump_json(), arrays_of(graph))


def request_body(
    graph: HeteroGraph | str,
    demands: Mapping[str, Any],
    features: Mapping[str, Tensor] | Tensor | None = None,
    nodes: Given | None = None,
) -> bytes:
    """The body that asks for a run, or for a choice.

    Args:
        graph: A graph, which travels along, or the id of one that the service keeps.
        demands: Fields of the document; those that are None are left out.
        features: For a run.
        nodes: Whose rows to get.
    """
    document = {name: value for name, value in demands.items() if value is not None}
    tensors = grouped("x", features) | grouped("nodes", _ids(nodes))
    if isinstance(graph, HeteroGraph):
        document["graph"] = header_of(graph).model_dump(mode="json")
        tensors |= grouped("graph", arrays_of(graph))
    else:
        document["graph"] = graph
    return pack(json.dumps(document), tensors)


def answer_of(response: httpx.Response) -> Answer:
    """A run's answer.

    Raises:
        UnreachableError: It is none.
    """
    try:
        message = unpack(response.content)
        report = parse(Report, message.document)
    except MalformedError as error:
        raise _foreign(response, str(error)) from None
    numbers = {int(name.split("/", 2)[1]) for name in message.tensors}
    return Answer(report, {number: _rows(message, number) for number in sorted(numbers)})


def check(response: httpx.Response) -> httpx.Response:
    """Raises the error that the service answered with, if it did.

    Raises:
        HetuneError: Of the class that was raised in the service.
        UnreachableError: What answered is no service.
    """
    if response.status_code < _FAILED:
        return response
    try:
        problem = response.json()
        kind, detail = str(problem["type"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        raise _foreign(response, "there are no problem details in it") from None
    found = getattr(errors, kind.removeprefix(_URN), None)
    if not (isinstance(found, type) and issubclass(found, HetuneError)):
        found = ServiceError
    raise found(f"{detail} (request {problem.get('request_id', 'without id')})")


def unreachable(base_url: httpx.URL, error: httpx.HTTPError) -> UnreachableError:
    """The error for a request without an answer."""
    reason = str(error) or type(error).__name__
    return UnreachableError(f"no answer from {base_url} ({reason}): is `hetune serve` running?")


def _foreign(response: httpx.Response, reason: str) -> UnreachableError:
    return UnreachableError(
        f"{response.url} answered with status {response.status_code}, and not as a hetune service "
        f"does ({reason}): check the URL"
    )


def _rows(message: Message, number: int) -> Rows:
    found = message.group(f"out/{number}")
    assert found is not None
    return found


def _ids(nodes: Given | None) -> Tensor | dict[str, Tensor] | None:
    if nodes is None:
        return None
    if isinstance(nodes, Mapping):
        return {name: _as_ids(ids) for name, ids in nodes.items()}
    return _as_ids(nodes)


def _as_ids(ids: Array) -> Tensor:
    found = torch.as_tensor(ids)
    return found if found.numel() else found.long()

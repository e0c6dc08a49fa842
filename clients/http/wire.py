"""What goes over the wire, for clients of every kind: bodies out, answers and errors in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeVar

import httpx
from torch import Tensor

from hetune.clients.http.inputs import Ids, NodeIds, ids_of, nodes_of
from hetune.service.core.formats.container import Content
from hetune.service.core.formats.documents import Document, parse
from hetune.service.core.formats.message import MEDIA_TYPE, Message, Pieces, grouped, unpack
from hetune.service.core.graphs.document import arrays_of, header_of
from hetune.service.core.graphs.rows import Rows
from hetune.service.core.inference.answers import Answer, RunReport
from hetune.variants import errors
from hetune.variants.errors import HetuneError, ServiceError, UnreachableError
from hetune.variants.graph.hetero import HeteroGraph

D = TypeVar("D", bound=Document)
_URN = "urn:hetune:error:"
_DONE = range(200, 300)
_FAILED = 400
_REQUEST_ID = "X-Request-ID"
BODY = "hetune.body"
MOST_KEPT = 1 << 28
"""Bytes of an answer whose memory a client keeps for the next one."""
_MOST_OUTPUTS = 1 << 20
"""Tensors of an answer: of each layer, by node type."""


def graph_body(graph: HeteroGraph) -> Pieces:
    """The body that uploads a graph."""
    return Pieces(header_of(graph).model_dump_json(), arrays_of(graph))


def edit_body(
    fields: Mapping[str, Any], add: Mapping[str, Tensor], remove: Mapping[str, Tensor]
) -> Pieces:
    """The body that asks for an edit of a graph.

    Raises:
        InputError: A tensor cannot be sent.
    """
    return Pieces(json.dumps(fields), grouped("add", add) | grouped("remove", remove))


def request_body(
    graph: HeteroGraph | str,
    fields: Mapping[str, Any],
    features: Mapping[str, Tensor] | Tensor | None = None,
    nodes: NodeIds | None = None,
    inputs: Mapping[str, Tensor] | None = None,
) -> Pieces:
    """The body that asks for a run, or for a choice.

    Args:
        graph: A graph, which travels along, or the id of one that the service keeps.
        fields: Fields of the document; those that are None are left out.
        features: For a run.
        nodes: Whose rows to get.
        inputs: Rows of the model's other inputs.

    Raises:
        InputError: A tensor cannot be sent.
    """
    tensors = grouped("x", features) | grouped("inputs", inputs)
    ids = nodes_of(nodes)
    if isinstance(ids, dict):
        tensors |= grouped("nodes", {name: t for name, t in ids.items() if t is not None})
        whole = {name: None for name, t in ids.items() if t is None}
        fields = {**fields, "nodes": whole or None}
    else:
        tensors |= grouped("nodes", ids)
    return _body(fields, tensors, "graph", graph)


def ids_body(
    ids: Mapping[str, Ids], fields: Mapping[str, Any], known: HeteroGraph | str | None = None
) -> Pieces:
    """The body that asks of triples.

    Args:
        ids: Numbers of entities and relations, by name.
        fields: Fields of the document; those that are None are left out.
        known: A graph, which travels along, or the id of one that the service keeps.

    Raises:
        InputError: They are no ids, or cannot be sent.
    """
    tensors = {name: ids_of(name, given) for name, given in ids.items()}
    return _body(fields, tensors, "known", known)


def tensors_of(response: httpx.Response) -> dict[str, Tensor]:
    """The tensors of an answer.

    Raises:
        ValueError: It is no container.
    """
    return unpack(_content_of(response)).tensors


def answer_of(response: httpx.Response) -> Answer:
    """A run's answer.

    Raises:
        ValueError: It is none.
    """
    message = unpack(_content_of(response), _MOST_OUTPUTS)
    report = parse(RunReport, message.document)
    numbers = {int(name.split("/", 2)[1]) for name in message.tensors}
    outputs = {number: _rows(message, number) for number in sorted(numbers)}
    return Answer(report, outputs, response.headers.get(_REQUEST_ID, ""))


def _content_of(response: httpx.Response) -> Content:
    kept: Content | None = response.extensions.get(BODY)
    return response.content if kept is None else kept


def has_tensors(response: httpx.Response, wanted: str) -> bool:
    """Whether an answer is a container, as wanted: its body is in `extensions[BODY]`, no `content`.

    Tensors can lie in it, for it may be written to; of `content` they would be copies.
    """
    is_container: bool = response.headers.get("Content-Type") == wanted == MEDIA_TYPE
    return is_container and is_done(response)


def is_done(response: httpx.Response) -> bool:
    """Whether an answer is no error, and leads nowhere else."""
    return response.status_code in _DONE


def rewind(file: BinaryIO) -> None:
    """Empties what an earlier try has written to; what was sent to a pipe stays."""
    if file.seekable():
        file.seek(0)
        file.truncate()


def check(response: httpx.Response) -> None:
    """Raises the error that the service answered with, if it did.

    Raises:
        HetuneError: Of the class that was raised in the service.
        UnreachableError: What answered is no service.
    """
    if is_done(response):
        return
    if response.status_code < _FAILED:
        where = response.headers.get("Location", "nowhere")
        raise no_service(response, f"it leads to {where}, and no request is sent again elsewhere")
    try:
        problem = response.json()
        kind, detail = str(problem["type"]), str(problem["detail"])
        request_id = problem.get("request_id", "without id")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise no_service(response, "there are no problem details in it") from None
    found = getattr(errors, kind.removeprefix(_URN), None)
    if not (isinstance(found, type) and issubclass(found, HetuneError)):
        found = ServiceError
    raise found(f"{detail} (request {request_id})")


def unreachable(error: httpx.HTTPError, url: httpx.URL, tries: int) -> UnreachableError:
    """The error for a request without an answer."""
    reason = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        reason += ": name the file of your CA in SSL_CERT_FILE"
    if tries > 1:
        reason = f"{reason}; tried {tries} times"
    return UnreachableError(f"no answer from {url} ({reason}): is `hetune serve` running?")


def no_service(response: httpx.Response, reason: str) -> UnreachableError:
    """The error for an answer that is none of a service's."""
    return UnreachableError(
        f"{response.url} answered with status {response.status_code}, and not as a hetune service "
        f"does ({reason}): check the URL"
    )


def reads(kind: type[D]) -> Callable[[httpx.Response], D]:
    """What reads an answer that is a document."""
    return lambda response: parse(kind, response.content)


def nothing(response: httpx.Response) -> None:
    """What is read of an answer whose status says all.

    Raises:
        ValueError: It has a body that is none of a service's.
    """
    if response.content:
        response.json()


def _body(
    fields: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    name: str,
    graph: HeteroGraph | str | None,
) -> Pieces:
    """A document of what is not None, with tensors; a graph by its name in both."""
    if isinstance(graph, HeteroGraph):
        tensors = {**tensors, **grouped(name, arrays_of(graph))}
        fields = {**fields, name: header_of(graph).model_dump(mode="json")}
    else:
        fields = {**fields, name: graph}
    document = {field: value for field, value in fields.items() if value is not None}
    return Pieces(json.dumps(document), tensors)


def _rows(message: Message, number: int) -> Rows:
    found = message.group(f"out/{number}")
    assert found is not None
    return found

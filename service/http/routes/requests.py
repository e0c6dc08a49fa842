"""What `infer` and `select` are asked, in JSON and in safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
import torch
from pydantic import ConfigDict, Field, WithJsonSchema
from torch import Tensor

from hetune.service.core.formats.container import Content
from hetune.service.core.formats.documents import (
    MOST_TYPED,
    Bytes,
    Document,
    Positive,
    Seconds,
    parse,
)
from hetune.service.core.formats.json_arrays import JsonArray
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.formats.message import unpack
from hetune.service.core.formats.number_fields import (
    MaybeTypedRows,
    Numbers,
    ShortIntegers,
    TypedIntegers,
    TypedRows,
)
from hetune.service.core.graphs.document import GraphDocument, GraphHeader, graph_of
from hetune.service.core.graphs.features import Features
from hetune.service.core.graphs.rows import Nodes
from hetune.service.core.inference.answers import Answer
from hetune.service.core.inference.subset import Subset
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.service import Service
from hetune.service.http.body import Media
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.graph.hetero import HeteroGraph

JsonRows: TypeAlias = JsonArray | dict[str, JsonArray]
_MOST_INPUTS = 64


class SelectHeader(Document):
    """What would be chosen for a model on a graph, in safetensors: arrays are tensors."""

    graph: str | GraphHeader
    version: Positive | None = None
    memory_limit: Bytes | None = None
    explain: bool = False


class _RunHeader(SelectHeader):
    outputs: ShortIntegers | None = None
    subset: Subset = "auto"
    variants: tuple[str | None, ...] | None = None
    deadline_seconds: Seconds | None = None


class InferHeader(_RunHeader):
    """A run of a model on a graph, in safetensors: arrays are tensors.

    Features are tensors, too, or the name of features that are kept with the graph; what else the
    model takes in are tensors `inputs/<name>`. `nodes` are tensors, but for node types all of whose
    rows are wanted.
    """

    most_fields: ClassVar[int | None] = MOST_TYPED
    features: str | None = None
    nodes: dict[str, None] | None = None


class FeaturesDocument(Document):
    """Features to keep: rows of numbers, of all nodes or by node type."""

    has_arrays: ClassVar[bool] = True
    most_fields: ClassVar[int | None] = MOST_TYPED
    x: TypedRows

    def rows(self, nodes: int) -> Features:
        """The rows as tensors.

        Args:
            nodes: How many a graph has.

        Raises:
            InputError: They are not as many, of different lengths, or do not fit float32.
        """
        parts = self.x.values() if isinstance(self.x, dict) else (self.x,)
        if (count := sum(part.rows for part in parts)) != nodes:
            raise InputError(f"x has {count} rows: give {nodes}, one for each node of the graph")
        if isinstance(self.x, dict):
            return {name: _matrix(_name(name), rows, None) for name, rows in self.x.items()}
        return _matrix("x", self.x, None)


class SelectDocument(SelectHeader):
    """What would be chosen for a model on a graph."""

    has_arrays: ClassVar[bool] = True
    graph: str | GraphDocument


class InferDocument(_RunHeader):
    """A run of a model on a graph.

    `x` are rows of numbers, of all nodes or by node type; or `features` is the name of features
    that are kept with the graph. `inputs` are what else the model takes in, by name: a number or a
    row for each node or edge. Of a node type of `nodes` null stands for all.
    """

    has_arrays: ClassVar[bool] = True
    most_fields: ClassVar[int | None] = MOST_TYPED
    graph: str | GraphDocument
    model_config = ConfigDict(json_schema_extra={"not": {"required": ["x", "features"]}})
    x: MaybeTypedRows = None
    features: Annotated[str | None, WithJsonSchema({"type": "string"})] = None
    inputs: Annotated[dict[str, Numbers], Field(max_length=_MOST_INPUTS)] = Field(
        default_factory=dict
    )
    nodes: TypedIntegers = None


class _Deadline(Document, extra="ignore"):
    has_arrays: ClassVar[bool] = True
    most_fields: ClassVar[int | None] = MOST_TYPED
    deadline_seconds: Seconds | None = None


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request with its tensors.

    Attributes:
        header: The rest, without lists of what is a tensor here.
        graph: A graph, or an id.
        features: Rows of all nodes, or by node type, which may not be read yet; or the name of
            those that the graph has; None where the model has its own.
        inputs: Rows of the model's other inputs, by name.
        nodes: Whose rows to answer with.
    """

    header: _RunHeader
    graph: HeteroGraph | str
    features: Features | JsonRows | str | None
    inputs: Mapping[str, Tensor]
    nodes: Nodes | None

    def rows(self, description: ModelDescription) -> Features | str | None:
        """The features, read.

        Args:
            description: Of the model, which says how many numbers are in a row.

        Raises:
            InputError: They are rows of different lengths, or of another one, or do not fit
                float32.
        """
        given, width = self.features, description.in_channels
        if given is None or isinstance(given, str | Tensor):
            return given
        if isinstance(given, JsonArray):
            return _matrix("x", given, width)
        widths = description.widths_by_type
        return {
            name: rows
            if isinstance(rows, Tensor)
            else _matrix(_name(name), rows, widths.get(name, width))
            for name, rows in given.items()
        }

    def run(self, service: Service, model: str, arrived: float) -> Answer:
        """Runs a model.

        Args:
            service: Where the model and features by name are.
            model: The model's name.
            arrived: When the request came, by `time.monotonic()`.

        Raises:
            HetuneError: As `Inference.run` does, or looking up or reading the features.
        """
        header, seconds = self.header, self.header.deadline_seconds
        found = service.models.get(model, header.version)
        rows = self.rows(found.description)
        return service.inference.run(
            found,
            self.graph,
            None if rows is None else service.features.resolve(self.graph, rows),
            inputs=self.inputs,
            nodes=self.nodes,
            subset=header.subset,
            outputs=header.outputs,
            variants=header.variants,
            memory_limit=header.memory_limit,
            explain=header.explain,
            deadline=None if seconds is None else arrived + seconds,
        )


def read_deadline(media: Media, body: Content) -> float | None:
    """Seconds that a request to run has, if it says so; the rest of it is left to its turn.

    Raises:
        MalformedError: It cannot be read so far.
    """
    text = bytes(body) if media is Media.JSON else unpack(body).document
    return parse(_Deadline, text).deadline_seconds


def read_infer(media: Media, body: Content, limits: ServiceLimits) -> InferRequest:
    """Reads a request to run.

    Raises:
        MalformedError: It does not have the documented form.
        TooLargeError: Its graph is over a limit.
        GraphError: Its graph is none.
    """
    if media is Media.JSON:
        document = parse(InferDocument, bytes(body))
        _check_one(document.features, document.x)
        given = document.features if document.x is None else document.x
        dropped: dict[str, object] = {
            "graph": "",
            "features": None,
            "x": None,
            "nodes": None,
            "inputs": {},
        }
        return InferRequest(
            document.model_copy(update=dropped),
            graph_in(document.graph, limits),
            given,
            {name: torch.from_numpy(_floats(name, rows)) for name, rows in document.inputs.items()},
            _nodes(document.nodes),
        )
    message = unpack(body)
    header = parse(InferHeader, message.document)
    graph = graph_in(header.graph, limits, message.group("graph"))
    message.check_groups("x", "inputs", "nodes", "graph")
    x = message.group("x")
    _check_one(header.features, x)
    features = header.features if x is None else x
    inputs = message.group("inputs")
    if isinstance(inputs, Tensor):
        raise MalformedError("the inputs have no names: give inputs/<name>")
    nodes = _with_whole(message.group("nodes"), header.nodes)
    return InferRequest(header, graph, features, inputs or {}, nodes)


def read_select(
    media: Media, body: Content, limits: ServiceLimits
) -> tuple[SelectHeader, HeteroGraph | str]:
    """Reads a request to choose.

    Raises:
        MalformedError: It does not have the documented form.
        TooLargeError: Its graph is over a limit.
        GraphError: Its graph is none.
    """
    if media is Media.JSON:
        document = parse(SelectDocument, bytes(body))
        return document, graph_in(document.graph, limits)
    message = unpack(body)
    header = parse(SelectHeader, message.document)
    return header, graph_in(header.graph, limits, message.group("graph"))


def _check_one(features: object, x: object) -> None:
    if features is not None and x is not None:
        raise MalformedError("there are both x and features: give one")


def graph_in(
    graph: str | GraphHeader,
    limits: ServiceLimits,
    arrays: Tensor | dict[str, Tensor] | None = None,
    group: str = "graph",
) -> HeteroGraph | str:
    """The graph of a document, or of a header and tensors; or the id of one that is kept.

    Args:
        graph: What the request has.
        limits: What is accepted.
        arrays: Tensors beside it.
        group: What their names begin with.

    Raises:
        MalformedError: Tensors are missing, or there are some beside an id.
        TooLargeError: It is over a limit.
        GraphError: It is none.
    """
    if isinstance(graph, str):
        if arrays is not None:
            raise MalformedError("there are tensors of a graph beside a graph's id: give one")
        return graph
    if isinstance(graph, GraphDocument):
        return graph_of(graph, graph.arrays(limits), limits)
    if not isinstance(arrays, dict):
        raise MalformedError(f"the graph's tensors are missing: give {group}/src, {group}/dst, ...")
    return graph_of(graph, arrays, limits)


def _name(ntype: str) -> str:
    return f"x of {ntype[:64]!r}"


def _floats(name: str, rows: JsonArray) -> np.ndarray:
    what = f"the input {name[:64]!r}"
    return rows.matrix(what) if rows.is_nested else rows.floats(what, np.float32)


def _matrix(what: str, rows: JsonArray, width: int | None) -> Tensor:
    if width is not None and rows.rows and rows.width != width:
        raise InputError(f"{what} has rows of {rows.width} numbers: give {width} in each")
    return torch.from_numpy(rows.matrix(what))


def _nodes(given: JsonArray | dict[str, JsonArray | None] | None) -> Nodes | None:
    if isinstance(given, dict):
        return {name: None if ids is None else _ids(ids) for name, ids in given.items()}
    return None if given is None else _ids(given)


def _with_whole(
    ids: Tensor | dict[str, Tensor] | None, whole: dict[str, None] | None
) -> Nodes | None:
    """Ids that are given, and the node types all of whose rows are wanted."""
    if whole is None:
        return ids
    if isinstance(ids, Tensor):
        raise MalformedError("there are nodes with and without types: give one form")
    given = ids or {}
    for name in whole:
        if name in given:
            raise MalformedError(
                f"there are ids of {name!r}, and all of its nodes are asked for: give one"
            )
    return {**given, **whole}


def _ids(given: JsonArray) -> Tensor:
    return torch.from_numpy(given.integers("nodes")).long()

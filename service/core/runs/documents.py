"""Runs as documents."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from hetune.service.core.formats.documents import Document, Positive


class RunState(StrEnum):
    """How far a run is."""

    waiting = "waiting"
    running = "running"
    done = "done"
    failed = "failed"


Name = Annotated[str, Field(min_length=1, max_length=200)]


class RunRequest(Document):
    """What to run.

    Attributes:
        model: A model's name, or ``name@alias``.
        version: Of a model that is named without an alias; the latest if None.
        graph: Id of a graph, or the name of one in the folder of large graphs.
        features: Name of features that are kept with it.
    """

    model: Name
    version: Positive | None = None
    graph: Name
    features: Name


class RunDocument(Document):
    """A run.

    Attributes:
        id: The same for the same model, graph and features.
        edges: Edges of all layers.
        edges_done: Those whose rows are computed.
        nodes: Rows of the result.
        width: Of the result.
        bytes: That its files take, at most.
        error: Why it failed.
    """

    id: str
    model: str
    version: int
    graph: str
    features: str
    state: RunState
    edges: int
    edges_done: int
    nodes: int
    width: int
    bytes: int
    error: str
    created: datetime
    finished: datetime | None


class RunList(Document):
    """Runs, the latest first."""

    runs: tuple[RunDocument, ...]

"""Runs as documents."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from hetune.service.core.formats.documents import Document, Positive
from hetune.service.core.graphs.graph_files import FEATURES_PATTERN
from hetune.service.core.models.aliases import ALIAS_PATTERN, SEPARATOR
from hetune.service.core.models.models import NAME_PATTERN


class RunState(StrEnum):
    """How far a run is."""

    waiting = "waiting"
    running = "running"
    done = "done"
    failed = "failed"


_Name = Annotated[str, Field(pattern=f"^{FEATURES_PATTERN}$")]
_Model = Annotated[str, Field(pattern=f"^{NAME_PATTERN}({SEPARATOR}{ALIAS_PATTERN})?$")]


class RunRequest(Document):
    """What to run.

    Attributes:
        model: A model's name, or ``name@alias``.
        version: Of a model that is named without an alias; the latest if None.
        graph: Id of a graph, or the name of one in the folder of large graphs.
        features: Name of features that are kept with it.
    """

    model: _Model
    version: Positive | None = None
    graph: _Name
    features: _Name


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

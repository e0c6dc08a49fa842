"""Runs part by part as calls like those of `calls`. No IO."""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO

import httpx
import numpy as np

from hetune.clients.http.call import ServiceCall, path_segment
from hetune.clients.http.wire import nothing, reads
from hetune.service.core.formats.documents import parse_value
from hetune.service.core.runs.documents import RunDocument, RunList, RunRequest

_RUNS = "/v1/runs"


def submit(
    model: str, graph: str, features: str, *, version: int | None = None
) -> ServiceCall[RunDocument]:
    """Asks for a model to be run on a graph part by part; requests go on being served meanwhile.

    The same model, graph and features give the same run; one that has failed is gone on with.

    Args:
        model: A model's name, or ``name@alias``.
        graph: Id of a graph that the service keeps, or the name of a large one.
        features: Name of features that are kept with it.
        version: Of a model that is named without an alias; the latest if None.

    Raises:
        NotFoundError: There is no such model, graph, or features.
        InputError: They do not fit, or the model does not run in parts.
        TooLargeError: There are too many runs, or they take too much on disk.
        BusyError: Too many wait.
    """
    named = {"model": model, "version": version, "graph": graph, "features": features}
    asked = parse_value(RunRequest, named)
    return ServiceCall("POST", _RUNS, reads(RunDocument), asked.model_dump_json().encode())


def list() -> ServiceCall[RunList]:
    """Runs, the latest first."""
    return ServiceCall("GET", _RUNS, reads(RunList))


def get(id: str) -> ServiceCall[RunDocument]:
    """A run, and how far it is.

    Raises:
        NotFoundError: There is none of that id.
    """
    return ServiceCall("GET", _path(id), reads(RunDocument))


def delete(id: str) -> ServiceCall[None]:
    """Ends a run, and deletes its rows.

    Raises:
        NotFoundError: There is none of that id.
    """
    return ServiceCall("DELETE", _path(id), nothing)


def rows(id: str) -> ServiceCall[np.ndarray]:
    """The rows of a run that is done, float32 [N, width], in memory; see `save_rows`.

    Raises:
        NotFoundError: There is none of that id.
        ConflictError: It is not done.
    """
    return ServiceCall("GET", f"{_path(id)}/rows", _rows)


def save_rows(id: str, file: BinaryIO) -> ServiceCall[None]:
    """Writes the rows of a run that is done to a file, which is an `.npy` file then.

    Args:
        id: Of the run.
        file: One that is open for writing, and loses what it holds.

    Raises:
        NotFoundError: There is none of that id.
        ConflictError: It is not done.
        OSError: The file cannot be written.
    """
    return ServiceCall("GET", f"{_path(id)}/rows", lambda _: None, into=file)


def _rows(response: httpx.Response) -> np.ndarray:
    found: np.ndarray = np.load(BytesIO(response.content), allow_pickle=False)
    return found


def _path(id: str) -> str:
    return f"{_RUNS}/{path_segment(id)}"

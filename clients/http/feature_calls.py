"""Features that a service keeps with its graphs, as calls like those of `calls`. No IO."""

from __future__ import annotations

from hetune.clients.http.call import Progress, ServiceCall, path_segment
from hetune.clients.http.inputs import Features, features_of
from hetune.clients.http.wire import nothing, reads
from hetune.service.core.formats.documents import parse_value
from hetune.service.core.formats.message import Pieces, grouped
from hetune.service.core.graphs.features import StoredFeatures


def put_features(
    graph: str, name: str, features: Features, *, progress: Progress | None = None
) -> ServiceCall[StoredFeatures]:
    """Gives the service features to keep with a graph, in place of those of that name.

    `infer` takes the name then, and sends no rows. They go with the graph; a graph that an edit
    makes has none yet.

    Args:
        graph: The id of one that the service keeps.
        name: Letters, digits, dots, dashes and underscores, first a letter or digit.
        features: Rows of all nodes in the graph's order, float32 [N, width]; or those of each node
            type. Tensors or NumPy arrays.
        progress: Called with the bytes that are sent and those that are to be sent; from the
            begin again where sending is tried again.

    Raises:
        NotFoundError: There is no such graph.
        InputError: They do not fit it.
        TooLargeError: They are over a limit of the service.
    """
    body = Pieces("{}", grouped("x", features_of(features, graph)))
    return ServiceCall("PUT", _path(graph, name), reads(StoredFeatures), body, progress=progress)


def features(graph: str) -> ServiceCall[tuple[StoredFeatures, ...]]:
    """The features that the service keeps with a graph, by name.

    Raises:
        NotFoundError: There is no such graph.
    """
    return ServiceCall(
        "GET",
        _path(graph),
        lambda response: tuple(
            parse_value(StoredFeatures, each) for each in response.json()["features"]
        ),
    )


def delete_features(graph: str, name: str) -> ServiceCall[None]:
    """Deletes features.

    Raises:
        NotFoundError: There is no such graph, or it has none of that name.
    """
    return ServiceCall("DELETE", _path(graph, name), nothing)


def _path(graph: str, *names: str) -> str:
    parts = (path_segment(name) for name in (graph, "features", *names))
    return "/".join(("/v1/graphs", *parts))

"""The service's operations as calls: what each sends, and how its answer is read. No IO.

Every client has a method for each, which sends the call and gives its result; what is said here
of results and errors is said of those methods.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx
from torch import nn

from hetune.clients.http.call import Progress, ServiceCall, path_segment
from hetune.clients.http.inputs import (
    Array,
    EdgesByType,
    Features,
    GraphLike,
    NodeIds,
    edges_of,
    features_of,
    graph_of,
    inputs_of,
)
from hetune.clients.http.wire import (
    answer_of,
    edit_body,
    graph_body,
    nothing,
    reads,
    request_body,
)
from hetune.service.core.formats.documents import parse
from hetune.service.core.formats.message import MEDIA_TYPE, Pieces
from hetune.service.core.graphs.graphs import GraphStatistics
from hetune.service.core.inference.answers import Answer, RunReport
from hetune.service.core.inference.subset import Subset
from hetune.service.core.models.describe_traced import describe_traced
from hetune.service.core.models.description import Jumping, ModelDescription
from hetune.service.core.models.stack import describe
from hetune.service.core.models.triple_scores import describe_scores
from hetune.variants.errors import InputError
from hetune.variants.graph.edit import Parallel
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.vocabulary import VocabularyLike
from hetune.variants.kernel.precision import Precision
from hetune.variants.runtime.score_model import ScoreModel

# Graphs.


def upload_graph(graph: GraphLike, *, progress: Progress | None = None) -> ServiceCall[str]:
    """Gives the service a graph to keep, and returns its id, the fingerprint of its content.

    It is streamed: its arrays are not copied as a whole.

    Args:
        graph: A graph, one of PyG or DGL, a `pyarrow.Table` of its edges, or a dictionary of
            `edge_index`, which has as many nodes of each type as its edges name.
        progress: Called with the bytes that are sent and those that are to be sent; from the
            begin again where sending is tried again.

    Raises:
        GraphError: It is none.
        TooLargeError: It is over a limit of the service.
    """
    return ServiceCall("POST", "/v1/graphs", _id, graph_body(graph_of(graph)), progress=progress)


def edit_graph(
    id: str,
    *,
    add: EdgesByType | None = None,
    remove: EdgesByType | None = None,
    add_nodes: Mapping[str, int] | None = None,
    parallel: Parallel = "all",
) -> ServiceCall[str]:
    """Lets the service keep what an edit makes of a graph, which it keeps, too; gives the new id.

    The new graph is what `hetune.variants.graph.edited` makes, and has its fingerprint as its id.

    Args:
        id: The graph's.
        add: Edges that come: ids [2, n] by edge type, sources and destinations, from 0 in each
            node type. An edge type is its name, or (source type, relation, destination type).
        remove: Edges that go.
        add_nodes: How many nodes come, by node type; their ids follow those of the others.
        parallel: "all": edges go with all parallel ones; "each": as many as are named, the last
            ones first.

    Raises:
        NotFoundError: There is no graph of that id.
        GraphError: It has no such type, node or edge.
        TooLargeError: The new graph is over a limit of the service.
    """
    fields = {"add_nodes": dict(add_nodes or {}), "parallel": parallel}
    body = edit_body(fields, edges_of("add", add), edges_of("remove", remove))
    return ServiceCall("PATCH", f"/v1/graphs/{path_segment(id)}", _id, body)


def graphs() -> ServiceCall[tuple[str, ...]]:
    """Ids of the graphs that the service keeps, the one used last first."""
    return ServiceCall(
        "GET",
        "/v1/graphs",
        lambda response: tuple(entry["id"] for entry in response.json()["graphs"]),
    )


def graph(id: str) -> ServiceCall[GraphStatistics]:
    """Counts and degrees of a graph.

    Raises:
        NotFoundError: There is none of that id.
    """
    return ServiceCall("GET", f"/v1/graphs/{path_segment(id)}", reads(GraphStatistics))


def delete_graph(id: str) -> ServiceCall[None]:
    """Deletes a graph.

    Raises:
        NotFoundError: There is none of that id.
    """
    return ServiceCall("DELETE", f"/v1/graphs/{path_segment(id)}", nothing)


def pin_graph(id: str) -> ServiceCall[None]:
    """Keeps a graph whatever the service's quota, until it is unpinned or deleted.

    Raises:
        NotFoundError: There is none of that id.
    """
    return ServiceCall("PUT", f"/v1/graphs/{path_segment(id)}/pin", nothing)


def unpin_graph(id: str) -> ServiceCall[None]:
    """Lets a graph go again when graphs are over the service's quota.

    Raises:
        NotFoundError: There is none of that id.
    """
    return ServiceCall("DELETE", f"/v1/graphs/{path_segment(id)}/pin", nothing)


# Models.


def put_model(
    name: str,
    layers: Sequence[nn.Module] | nn.Module | ScoreModel,
    version: int = 1,
    *,
    example: Sequence[Any] | None = None,
    jumping: Jumping = "none",
    vocabulary: VocabularyLike | None = None,
    precision: Precision | None = None,
) -> ServiceCall[None]:
    """Gives the service a version of a model. Giving it an equal one again changes nothing.

    Args:
        name: Letters, digits, dots, dashes and underscores.
        layers: Of `hetune.nn`, or of PyG that `hetune.nn.from_pyg` takes; each followed by at most
            one of `torch.nn.LayerNorm` and `BatchNorm1d`, then at most one of `ReLU`, `ELU`,
            `GELU` and `Tanh`. `Dropout` does nothing at inference, and is left out. Or any module
            with message-passing layers, which is traced to programs, as in `eval()`, and confirmed
            on small random graphs. Or a model that scores triples.
        version: Its number.
        example: Arguments of a call of a module; needed where their names and widths do not follow
            from its forward and its first layer.
        jumping: "cat" or "max" for a model that gives out what all layers do, side by side or the
            largest of each column; by default it gives out what the last layer does.
        vocabulary: Names of the edge types and optionally of the node types that the weights are
            for, in their order: a `Vocabulary`, its file, a dictionary or a graph; by default
            those that a compiled layer has. Graphs with other names are refused then, those with
            the same in another order met in theirs.
        precision: "bf16" lets layers store tables that edges read as bfloat16; by default what
            all compiled layers may.

    Raises:
        ConflictError: The version is there and differs.
        InputError: It is no such model; says which layer or line is none.
    """
    if isinstance(layers, ScoreModel):
        description, weights = describe_scores(layers)
    elif isinstance(layers, nn.Module) and not isinstance(layers, nn.Sequential | nn.ModuleList):
        description, weights = describe_traced(layers, example, vocabulary, precision)
    elif isinstance(layers, Iterable):
        description, weights = describe([*layers], jumping, vocabulary, precision)
    else:
        raise InputError(
            f"a {type(layers).__name__} is no model: give layers, a module, or a ScoreModel, such "
            "as a score function's model(...)"
        )
    body = Pieces(description.model_dump_json(), weights)
    return ServiceCall("PUT", _version_path(name, version), nothing, body)


def models() -> ServiceCall[dict[str, tuple[int, ...]]]:
    """The versions of each model that the service keeps."""
    return ServiceCall(
        "GET",
        "/v1/models",
        lambda response: {
            model["name"]: tuple(model["versions"]) for model in response.json()["models"]
        },
    )


def model(name: str, version: int) -> ServiceCall[ModelDescription]:
    """A model's layers.

    Raises:
        NotFoundError: There is no such version.
    """
    return ServiceCall(
        "GET",
        _version_path(name, version),
        lambda response: parse(ModelDescription, json.dumps(response.json()["description"])),
    )


def delete_model(name: str, version: int) -> ServiceCall[None]:
    """Deletes a version of a model.

    Raises:
        NotFoundError: There is none.
    """
    return ServiceCall("DELETE", _version_path(name, version), nothing)


def aliases(name: str) -> ServiceCall[dict[str, int]]:
    """A model's aliases, and the versions that they name.

    Raises:
        NotFoundError: There is none of that name.
    """
    return ServiceCall(
        "GET", f"/v1/models/{path_segment(name)}", lambda response: dict(response.json()["aliases"])
    )


def set_alias(name: str, alias: str, version: int) -> ServiceCall[None]:
    """Lets an alias name a version of a model; ``name@alias`` then stands for that version.

    Args:
        name: Of the model.
        alias: Letters, digits, dots, dashes and underscores, first a letter.
        version: Its number.

    Raises:
        NotFoundError: There is no such version.
    """
    content = json.dumps({"version": version}).encode()
    return ServiceCall("PUT", _alias_path(name, alias), nothing, content)


def delete_alias(name: str, alias: str) -> ServiceCall[None]:
    """Deletes an alias; its version stays.

    Raises:
        NotFoundError: There is none.
    """
    return ServiceCall("DELETE", _alias_path(name, alias), nothing)


# Running.


def infer(
    model: str,
    graph: GraphLike | str,
    features: Features | str | None = None,
    *,
    inputs: Mapping[str, Array] | None = None,
    version: int | None = None,
    nodes: NodeIds | None = None,
    subset: Subset = "auto",
    outputs: Sequence[int] | None = None,
    variants: Sequence[str | None] | None = None,
    memory_limit: int | None = None,
    deadline_seconds: float | None = None,
    explain: bool = False,
) -> ServiceCall[Answer]:
    """Runs a model on a graph.

    Args:
        model: Its name, or ``name@alias``.
        graph: The id of one that the service keeps, which is the fastest; or a graph, one of PyG
            or DGL, or a dictionary of `edge_index`, which travels along.
        features: Rows of all nodes in the graph's order, float32 [N, in_channels]; or those of
            each node type. Tensors or NumPy arrays; by default `x` of PyG's graphs. Or the name of
            features that the service keeps with the graph, which spares sending them.
        inputs: What else the model takes in, by name: float32 rows of nodes, or of edges in the
            graph's order.
        version: Of the model; the latest by default.
        nodes: Ids whose rows to get, or for each node type ids from 0, None for all of a type; all
            by default. Rows of types that are not named are not given.
        subset: How to compute rows of some nodes: "full" cuts them out of a run on the whole graph,
            "reach" runs each layer on what they depend on alone, "auto" does what is predicted to
            be faster. `report.subset` tells.
        outputs: Which layers' outputs to get, by number; the last one's by default.
        variants: Ids to run, None for the selector's choice; one for each layer.
        memory_limit: Most bytes that a layer's temporaries, scratch and result may take.
        deadline_seconds: After so many the service gives the request up, before it begins or
            between layers; it is not sent again.
        explain: Add why variants were chosen.

    Returns:
        `outputs` by the layer's number, `out` for the last; `report` of what ran; `request_id` as
        the service's log has it.

    Raises:
        NotFoundError: There is no such model or graph, or the graph has no such features.
        GraphError: The graph is none.
        InputError: Graph, features, nodes, outputs or variants do not fit.
        MemoryLimitError: No variant fits the limit.
        DeadlineError: It took longer than it was given.
        BusyError: Too many requests wait.
    """
    if isinstance(variants, str):
        raise InputError(f"variants are {variants!r}: give a list, with an id for each layer")
    name = features if isinstance(features, str) else None
    rows = None if isinstance(features, str) else features_of(features, graph)
    fields = {
        "features": name,
        "version": version,
        "outputs": None if outputs is None else list(outputs),
        "subset": None if subset == "auto" else subset,
        "variants": None if variants is None else list(variants),
        "memory_limit": memory_limit,
        "deadline_seconds": deadline_seconds,
        "explain": explain,
    }
    body = request_body(_graph(graph, rows), fields, rows, nodes, inputs_of(inputs))
    return ServiceCall(
        "POST", f"/v1/models/{path_segment(model)}/infer", answer_of, body, accept=MEDIA_TYPE
    )


def select(
    model: str,
    graph: GraphLike | str,
    *,
    version: int | None = None,
    memory_limit: int | None = None,
    explain: bool = False,
) -> ServiceCall[RunReport]:
    """What would be chosen, and why; nothing is run.

    Takes and raises what `infer` does.
    """
    fields = {"version": version, "memory_limit": memory_limit, "explain": explain}
    return ServiceCall(
        "POST",
        f"/v1/models/{path_segment(model)}/select",
        reads(RunReport),
        request_body(_graph(graph), fields),
    )


def ready() -> ServiceCall[None]:
    """Asks whether requests can be served.

    Raises:
        FolderError: They cannot.
    """
    return ServiceCall("GET", "/v1/health/ready", nothing)


def _graph(given: GraphLike | str, features: Features | None = None) -> HeteroGraph | str:
    return given if isinstance(given, str) else graph_of(given, features)


def _id(response: httpx.Response) -> str:
    return str(response.json()["id"])


def _alias_path(name: str, alias: str) -> str:
    return f"/v1/models/{path_segment(name)}/aliases/{path_segment(alias)}"


def _version_path(name: str, version: int) -> str:
    return f"/v1/models/{path_segment(name)}/versions/{version}"

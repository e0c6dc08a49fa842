"""The client: graphs, models and inference of a service, as if they were here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx
from torch import Tensor, nn

from hetune.clients.http.profiling import CostModelsClient, JobsClient
from hetune.clients.http.wire import (
    BINARY,
    HEADERS,
    Given,
    answer_of,
    check,
    graph_body,
    request_body,
    unreachable,
)
from hetune.service.core.answers import Answer, Report
from hetune.service.core.description import ModelDescription
from hetune.service.core.documents import parse
from hetune.service.core.graphs import GraphStatistics
from hetune.service.core.message import pack
from hetune.service.core.stack import describe
from hetune.variants.graph.hetero import HeteroGraph

KEY_VARIABLE = "HETUNE_API_KEY"


class Client:
    """A service's client. Tensors travel as they are: results equal those in-process, bit by bit.

    Errors are those that the service raised: a `NotFoundError` there is a `NotFoundError` here.
    Every method also raises `UnreachableError` where no service answers.

    Args:
        url: Of the service, such as ``http://127.0.0.1:8000``.
        key: Its key; `HETUNE_API_KEY` by default, or none.
        timeout: Seconds that a request may take; None for as long as it takes.
        transport: What sends requests, in place of the network.

    Attributes:
        jobs: Profiling jobs.
        cost_models: Cost models.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float | None = 600.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        key = key or os.environ.get(KEY_VARIABLE)
        self._http = httpx.Client(
            base_url=url,
            timeout=timeout,
            transport=transport,
            headers={"Authorization": f"Bearer {key}"} if key else None,
            trust_env=False,  # a proxy is no place for a local service's requests
        )
        self.jobs = JobsClient(self._http)
        self.cost_models = CostModelsClient(self._http)

    # Graphs.

    def upload_graph(self, graph: HeteroGraph) -> str:
        """Gives the service a graph to keep, and returns its id, the graph's fingerprint.

        Raises:
            TooLargeError: It is over a limit of the service.
        """
        response = self._send("POST", "/v1/graphs", graph_body(graph))
        return str(response.json()["id"])

    def graphs(self) -> tuple[str, ...]:
        """Ids of the graphs that the service keeps, the one used last first."""
        return tuple(entry["id"] for entry in self._send("GET", "/v1/graphs").json()["graphs"])

    def graph(self, id: str) -> GraphStatistics:
        """Counts and degrees of a graph.

        Raises:
            NotFoundError: There is none of that id.
        """
        return parse(GraphStatistics, self._send("GET", f"/v1/graphs/{_part(id)}").content)

    def delete_graph(self, id: str) -> None:
        """Deletes a graph.

        Raises:
            NotFoundError: There is none of that id.
        """
        self._send("DELETE", f"/v1/graphs/{_part(id)}")

    # Models.

    def put_model(
        self,
        name: str,
        layers: Sequence[nn.Module],
        version: int = 1,
    ) -> None:
        """Gives the service a version of a model. Giving it an equal one again changes nothing.

        Args:
            name: Letters, digits, dots, dashes and underscores.
            layers: Of `hetune.nn`, each followed by at most one of `torch.nn.ReLU`, `ELU`,
                `GELU` and `Tanh`.
            version: Its number.

        Raises:
            ConflictError: The version is there and differs.
            InputError: It is no such model.
        """
        description, weights = describe(layers)
        body = pack(description.model_dump_json(), weights)
        self._send("PUT", f"/v1/models/{_part(name)}/versions/{version}", body)

    def models(self) -> dict[str, tuple[int, ...]]:
        """The versions of each model that the service keeps."""
        found = self._send("GET", "/v1/models").json()["models"]
        return {model["name"]: tuple(model["versions"]) for model in found}

    def model(self, name: str, version: int) -> ModelDescription:
        """A model's layers.

        Raises:
            NotFoundError: There is no such version.
        """
        found = self._send("GET", f"/v1/models/{_part(name)}/versions/{version}").json()
        return parse(ModelDescription, json.dumps(found["description"]))

    def delete_model(self, name: str, version: int) -> None:
        """Deletes a version of a model.

        Raises:
            NotFoundError: There is none.
        """
        self._send("DELETE", f"/v1/models/{_part(name)}/versions/{version}")

    # Running.

    def infer(
        self,
        model: str,
        graph: HeteroGraph | str,
        features: Tensor | Mapping[str, Tensor],
        *,
        version: int | None = None,
        nodes: Given | None = None,
        outputs: Sequence[int] | None = None,
        variants: Sequence[str | None] | None = None,
        memory_limit: int | None = None,
        explain: bool = False,
    ) -> Answer:
        """Runs a model on a graph.

        Args:
            model: Its name.
            graph: A graph, or the id of one that the service keeps, which is faster.
            features: Rows of all nodes in the graph's order, float32 [N, in_channels]; or those
                of each node type.
            version: Of the model; the latest by default.
            nodes: Ids whose rows to get, or for each node type ids from 0; all by default.
            outputs: Which layers' outputs to get, by number; the last one's by default.
            variants: Ids to run, None for the selector's choice; one for each layer.
            memory_limit: Most bytes that a layer may hold beside its inputs.
            explain: Add why variants were chosen.

        Returns:
            `outputs` by the layer's number, `out` for the last; `report` of what ran.

        Raises:
            NotFoundError: There is no such model or graph.
            InputError: Graph, features, nodes or outputs do not fit.
            MemoryLimitError: No variant fits the limit.
            BusyError: Too many requests wait.
        """
        demands = {
            "version": version,
            "outputs": None if outputs is None else list(outputs),
            "variants": None if variants is None else list(variants),
            "memory_limit": memory_limit,
            "explain": explain,
        }
        body = request_body(graph, demands, features, nodes)
        return answer_of(self._send("POST", f"/v1/models/{_part(model)}/infer", body, BINARY))

    def select(
        self,
        model: str,
        graph: HeteroGraph | str,
        *,
        version: int | None = None,
        memory_limit: int | None = None,
        explain: bool = False,
    ) -> Report:
        """What would be chosen, and why; nothing is run.

        Takes and raises what `infer` does.
        """
        demands = {"version": version, "memory_limit": memory_limit, "explain": explain}
        body = request_body(graph, demands)
        return parse(Report, self._send("POST", f"/v1/models/{_part(model)}/select", body).content)

    # The connection.

    def ready(self) -> bool:
        """Whether a service answers and can serve requests."""
        try:
            return self._http.get("/v1/health/ready").is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = HEADERS,
    ) -> httpx.Response:
        try:
            sent = self._http.request(
                method, path, content=body, headers=headers if body is not None else None
            )
        except httpx.HTTPError as error:
            raise unreachable(self._http.base_url, error) from error
        return check(sent)


def _part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")

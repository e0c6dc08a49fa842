"""The load of `batching.py`: two services, of which one joins requests, asked in turns."""

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from _serve import hetune_serve
from _service_load import Report, Shot, shoot

from hetune.clients import Client
from hetune.clients.http import calls
from hetune.variants.graph.hetero import HeteroGraph

_TYPE = "application/x-safetensors"
_PERCENT = 0.99


def load(
    graph: HeteroGraph, layers: Sequence[torch.nn.Module], width: int, options: Any
) -> list[dict[str, Any]]:
    """A cell for each number of clients, who ask again as soon as they are answered.

    Args:
        graph: What the model runs on.
        layers: The model's.
        width: Of the features.
        options: `clients`, `seconds` of a turn, `turns` that count, `requests`, `threads`.
    """
    if not options.clients:
        return []
    x = torch.randn(graph.num_nodes, width)
    with ExitStack() as stack:
        shots = {
            name: stack.enter_context(_service(graph, layers, x, most, options.threads))
            for name, most in (("apart", 1), ("together", max(options.requests)))
        }
        return [_cell(shots, clients, options) for clients in options.clients]


@contextmanager
def _service(
    graph: HeteroGraph, layers: Sequence[torch.nn.Module], x: torch.Tensor, most: int, threads: int
) -> Iterator[tuple[str, str]]:
    """Its route's URL, and the file of a request's body."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, body = folder / "hetune.toml", folder / "body"
        config.write_text(f"batch_requests = {most}\n", encoding="utf-8")
        with (
            hetune_serve(
                folder, "--no-worker", "--config", str(config), threads=threads
            ) as serving,
            Client(serving.url) as client,
        ):
            client.put_model("m", layers)
            id = client.upload_graph(graph)
            client.infer("m", id, x)
            call = calls.infer("m", id, x)
            assert call.body is not None
            body.write_bytes(b"".join(call.body))
            yield serving.url + call.path, str(body)


def _cell(shots: dict[str, tuple[str, str]], clients: int, options: Any) -> dict[str, Any]:
    headers = {"Accept": _TYPE, "Content-Type": _TYPE}
    reports: dict[str, list[Report]] = {name: [] for name in shots}
    for turn in range(1 + options.turns):  # the first one prepares what is joined
        for name, (url, body) in shots.items():
            report = shoot(Shot(url, body, headers, options.seconds, clients))
            if report.busy_times or report.others:
                raise RuntimeError(f"{clients} clients were refused: {report.others}")
            if turn:
                reports[name].append(report)
    return {"clients": clients, **{name: _summary(found) for name, found in reports.items()}}


def _summary(reports: Sequence[Report]) -> dict[str, float]:
    times = sorted(time for report in reports for time in report.times)
    return {
        "requests_per_second": statistics.median(len(r.times) / r.seconds for r in reports),
        "p50_ms": 1e3 * statistics.median(times),
        "p99_ms": 1e3 * times[int(_PERCENT * (len(times) - 1))],
    }

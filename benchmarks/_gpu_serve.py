"""The service on a GPU: answers against float64, what a request costs, and a card that is full."""

import copy
import gc
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from _gpu_graphs import graph_named
from _gpu_units import Unit
from torch import Tensor, nn

from hetune.costmodel.selection.selector import Selector
from hetune.nn import RGAT, RGCN
from hetune.variants.errors import DeviceMemoryError, TooLargeError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.testing.conformance import TOLERANCE, interpreted, relative_error
from hetune.variants.testing.layers import randomized

_LEFT = 64 << 20
"""Bytes that a card which is full has left."""


class Serving:
    """Units of the service, called in-process.

    Args:
        device: What layers run on; on the CPU they are interpreted.
        rounds: Requests that are timed.
    """

    def __init__(self, device: str, rounds: int) -> None:
        self.device, self.rounds = device, rounds

    def units(self, graphs: Sequence[str], width: int) -> list[Unit]:
        """One for each graph, and on a GPU one that fills it."""
        found = [Unit(f"serve/{g}", lambda g=g: self.serves(g, width)) for g in graphs]
        if self.device != "cpu":
            found.append(Unit("serve/full", lambda: self.full(width)))
        return found

    def serves(self, name: str, width: int) -> dict[str, Any]:
        """Rows of all nodes and of some, both ways, and the seconds of requests and layers."""
        try:
            import hetune.service.core.service  # noqa: F401
        except ModuleNotFoundError as error:
            return {"skipped": f"the service needs {error.name}"}
        graph = graph_named(name, "cpu")
        x, layers = problem(graph, width)
        expected = answer(x, layers, graph, self.device)
        nodes = torch.arange(0, graph.num_nodes, max(graph.num_nodes // 7, 1))
        with tempfile.TemporaryDirectory() as folder:
            service = self._service(folder, layers)
            id = service.graphs.add(graph)
            ask = service.inference.run
            answers = {
                "whole": (ask("m", id, x), expected),
                "full": (ask("m", id, x, nodes=nodes, subset="full"), expected[nodes]),
                "reach": (ask("m", id, x, nodes=nodes, subset="reach"), expected[nodes]),
            }
            errors = {
                how: relative_error(answer.out, want) for how, (answer, want) in answers.items()
            }
            if not max(errors.values()) <= len(layers) * TOLERANCE:
                raise AssertionError(f"errors {errors}")
            requests, in_layers = [], []
            for _ in range(self.rounds):
                start = time.perf_counter()
                report = ask("m", id, x).report
                requests.append(time.perf_counter() - start)
                in_layers.append(sum(layer.measured_seconds or 0.0 for layer in report.layers))
            usage = service.engine.usage()
        return {
            "errors": errors,
            "request_ms": round(statistics.median(requests) * 1e3, 4),
            "layers_ms": round(statistics.median(in_layers) * 1e3, 4),
            "feature_bytes": x.nbytes,
            "held_bytes": None if usage is None else usage.held,
        }

    def full(self, width: int) -> dict[str, Any]:
        """A card that others have filled is an answer, and the next request is served."""
        graph = graph_named("mag", "cpu")
        x, layers = problem(graph, width)
        with tempfile.TemporaryDirectory() as folder:
            service = self._service(folder, layers)
            id = service.graphs.add(graph)
            gc.collect()
            torch.cuda.empty_cache()  # of which torch would serve it
            count = torch.cuda.mem_get_info()[0] - _LEFT
            taken = torch.empty(count, dtype=torch.uint8, device="cuda")
            with _raising(DeviceMemoryError):
                service.inference.run("m", id, x)
            del taken
            torch.cuda.empty_cache()
            service.check_ready()
            rows = service.inference.run("m", id, x).out.shape[0]
        with tempfile.TemporaryDirectory() as folder:
            service = self._service(folder, layers, most_bytes=1 << 20)
            with _raising(TooLargeError):
                service.inference.run("m", graph, x)
        return {"rows": rows}

    def _service(self, folder: str, layers: list[nn.Module], most_bytes: int | None = None) -> Any:
        from hetune.service.core.models.engine import Engine
        from hetune.service.core.models.stack import describe
        from hetune.service.core.service import Service

        is_gpu = self.device != "cpu"
        engine = Engine.on(self.device, most_bytes=most_bytes) if is_gpu else Engine("triton")
        selector = Selector(device=engine.target)
        root = Path(folder)
        service = Service.open(root, engine=engine, selector=selector, store=root / "store.db")
        service.models.add("m", 1, *describe(layers))
        return service


def problem(graph: HeteroGraph, width: int) -> tuple[Tensor, list[nn.Module]]:
    """Features, and two layers with an activation between them, on the CPU."""
    x = torch.randn(graph.num_nodes, width, generator=torch.Generator().manual_seed(0))
    first = randomized(RGCN(width, width, graph.num_etypes)).eval()
    last = randomized(RGAT(width, width, graph.num_etypes)).eval()
    return x, [first, nn.ReLU(), last]


def answer(x: Tensor, layers: list[nn.Module], graph: HeteroGraph, device: str) -> Tensor:
    """What the layers give in float64, computed on a device."""
    first, _, last = (copy.deepcopy(layer).to(device) for layer in layers)
    there = graph.to(device)
    with torch.no_grad():
        found = interpreted(last, interpreted(first, x.to(device), there).relu(), there)
    return found.cpu()


@contextmanager
def _raising(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")

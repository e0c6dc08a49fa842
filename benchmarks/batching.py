"""What joining requests saves: two services, one of which joins requests, are asked in turns.

    python benchmarks/batching.py [--edges 100 1000 5000] [--clients 1 8 32] [--width 64]

Two layers of RGCN, and RGAT followed by HGT, on graphs of two node types and three relations, of
half as many nodes as edges. Clients wait for their answers and ask again.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from _machine import set_threads, write_record
from _serve import hetune_serve
from _service_load import Report, Shot, shoot
from rich.console import Console
from rich.table import Table

from hetune import nn
from hetune.clients import Client
from hetune.clients.http import calls
from hetune.variants.graph.hetero import HeteroGraph

_RESULTS = Path(__file__).parent / "results"
_RELATIONS = ((0, 1), (1, 0), (0, 0))
MODELS = ("rgcn, rgcn", "rgat, hgt")
_TYPE = "application/x-safetensors"
_TOGETHER = 16
_PERCENT = 0.99


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all sizes, print the table, write the JSON."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--edges", type=int, nargs="+", default=(100, 1000, 5000))
    line.add_argument("--width", type=int, default=64)
    line.add_argument("--threads", type=int, default=torch.get_num_threads())
    line.add_argument("--clients", type=int, nargs="+", default=(1, 8, 32))
    line.add_argument("--seconds", type=float, default=2.0, help="of a turn")
    line.add_argument("--turns", type=int, default=3, help="of each service")
    line.add_argument("--out", type=Path, default=_RESULTS / "batching.json")
    options = line.parse_args(arguments)
    set_threads(options.threads)
    cells = [
        {"edges": graph.num_edges, "model": model, **cell}
        for graph in map(drawn, options.edges)
        for model in MODELS
        for cell in load(graph, layers(model, graph, options.width), options)
    ]
    write_record(options.out, options.threads, width=options.width, http=cells)
    table = Table(
        "edges", "model", "clients", "requests/s apart", "together", "p99, ms", "together"
    )
    for cell in cells:
        both = cell["apart"], cell["together"]
        rates = (f"{one['requests_per_second']:.0f}" for one in both)
        late = (f"{one['p99_ms']:.1f}" for one in both)
        table.add_row(str(cell["edges"]), cell["model"], str(cell["clients"]), *rates, *late)
    Console().print(table)
    return 0


def drawn(edges: int) -> HeteroGraph:
    """A graph of about so many edges, their ends drawn evenly."""
    draw = torch.Generator().manual_seed(0)
    half, each = max(edges // 4, 1), max(edges // len(_RELATIONS), 1)
    ends = [
        torch.stack([torch.randint(half, (each,), generator=draw) + half * t for t in pair])
        for pair in _RELATIONS
    ]
    return HeteroGraph(
        *torch.cat(ends, 1),
        torch.arange(len(_RELATIONS)).repeat_interleave(each),
        torch.arange(2).repeat_interleave(half),
        num_nodes=2 * half,
        num_etypes=len(_RELATIONS),
    )


def layers(model: str, graph: HeteroGraph, width: int) -> list[torch.nn.Module]:
    """The layers of one of the models."""
    torch.manual_seed(0)
    if model == MODELS[0]:
        return [nn.RGCN(width, width, 3), torch.nn.ReLU(), nn.RGCN(width, width, 3)]
    hgt = nn.HGT(width, width, graph.metadata(), heads=2)
    return [nn.RGAT(width, width, 3), torch.nn.ReLU(), hgt]


def load(
    graph: HeteroGraph, layers: Sequence[torch.nn.Module], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """A cell for each number of clients."""
    x = torch.randn(graph.num_nodes, options.width)
    with ExitStack() as stack:
        shots = {
            name: stack.enter_context(_service(graph, layers, x, most, options.threads))
            for name, most in (("apart", 1), ("together", _TOGETHER))
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
        started = hetune_serve(folder, "--no-worker", "--config", str(config), threads=threads)
        with started as serving, Client(serving.url) as client:
            client.put_model("m", layers)
            id = client.upload_graph(graph)
            client.infer("m", id, x)
            call = calls.infer("m", id, x)
            assert call.body is not None
            body.write_bytes(b"".join(call.body))
            yield serving.url + call.path, str(body)


def _cell(
    shots: dict[str, tuple[str, str]], clients: int, options: argparse.Namespace
) -> dict[str, Any]:
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


if __name__ == "__main__":
    raise SystemExit(main())

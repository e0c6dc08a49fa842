"""What joining requests saves: k requests on copies of a small graph, one by one or by one run.

    python benchmarks/batching.py [--edges 100 1000 5000] [--requests 2 4 8 16] [--width 64]

Two layers of RGCN, and RGAT followed by HGT, on graphs of two node types and three relations, of
half as many nodes as edges. Requests are asked of the service without HTTP, with all that it does
for each: it looks up model and graph, chooses variants, checks features, and cuts rows out.
"prepare" is the first joined run: joining, indexing, and trying whether it gives the same bits.

Then two services, one of which joins requests, are asked over HTTP by 1, 8 and 32 clients that wait
for their answers, in turns.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from _batching_load import load
from _machine import commit, fingerprint, set_threads
from _measure import as_json
from rich.console import Console
from rich.table import Table

from hetune import nn
from hetune.profiling.measure.rounds import interleave
from hetune.service.core.inference import batching
from hetune.service.core.inference.answers import Answer
from hetune.service.core.inference.run_request import Asked
from hetune.service.core.models.stack import describe
from hetune.service.core.service import Service
from hetune.variants.graph.hetero import HeteroGraph

RESULTS = Path(__file__).parent / "results" / "batching.json"
RELATIONS = ((0, 1), (1, 0), (0, 0))
MODELS = ("rgcn, rgcn", "rgat, hgt")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all sizes, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, nargs="+", default=(100, 1000, 5000))
    parser.add_argument("--requests", type=int, nargs="+", default=(2, 4, 8, 16))
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--clients", type=int, nargs="*", default=(1, 8, 32), help="over HTTP")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn over HTTP")
    parser.add_argument("--turns", type=int, default=3, help="of each service")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    set_threads(options.threads)
    cells = [
        measure(graph, model, requests, options)
        for graph in map(drawn, options.edges)
        for model in MODELS
        for requests in options.requests
    ]
    loads = [
        {"edges": graph.num_edges, "model": model, **cell}
        for graph in map(drawn, options.edges)
        for model in MODELS
        for cell in load(graph, layers(model, graph, options.width), options.width, options)
    ]
    report = {
        "width": options.width,
        "machine": fingerprint(options.threads),
        "commit": commit(),
        "cells": cells,
        "http": loads,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    console = Console()
    console.print(_table(cells))
    console.print(_http_table(loads))
    console.print(f"wrote {options.out}")
    return 0


def drawn(edges: int) -> HeteroGraph:
    """A graph of about so many edges, their ends drawn evenly."""
    draw = torch.Generator().manual_seed(0)
    half, each = max(edges // 4, 1), max(edges // len(RELATIONS), 1)
    ends = [
        torch.stack([torch.randint(half, (each,), generator=draw) + half * t for t in pair])
        for pair in RELATIONS
    ]
    return HeteroGraph(
        *torch.cat(ends, 1),
        torch.arange(len(RELATIONS)).repeat_interleave(each),
        torch.arange(2).repeat_interleave(half),
        num_nodes=2 * half,
        num_etypes=len(RELATIONS),
    )


def layers(model: str, graph: HeteroGraph, width: int) -> list[torch.nn.Module]:
    """The layers of one of the models."""
    torch.manual_seed(0)
    if model == MODELS[0]:
        return [nn.RGCN(width, width, 3), torch.nn.ReLU(), nn.RGCN(width, width, 3)]
    return [
        nn.RGAT(width, width, 3),
        torch.nn.ReLU(),
        nn.HGT(width, width, graph.metadata(), heads=2),
    ]


def measure(graph: HeteroGraph, model: str, requests: int, options: Any) -> dict[str, Any]:
    """The cell of one number of requests."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service.open(
            Path(folder), batch_requests=requests, store=Path(folder) / "store.db"
        )
        service.batching.joined.after, service.batching.joined.gain = 1, 0.0
        service.models.add("m", 1, *describe(layers(model, graph, options.width)))
        id = service.graphs.add(graph)
        xs = [torch.randn(graph.num_nodes, options.width) for _ in range(requests)]

        def apart() -> list[Answer]:
            return [service.inference.run("m", id, x) for x in xs]

        def together() -> list[Answer]:
            return answers(service, [Asked(id, x) for x in xs])

        apart()  # compiles what is missing
        start = time.perf_counter()
        found = together()
        prepare = time.perf_counter() - start
        batch = found[0].report.batch
        times = interleave({"apart": apart, "together": together}, options.rounds)
        service.close()
    return {
        "edges": graph.num_edges,
        "nodes": graph.num_nodes,
        "model": model,
        "requests": requests,
        "joined": 1 if batch is None else batch.requests,
        "variants": [layer.variant for layer in found[0].report.layers],
        "prepare_ms": round(prepare * 1e3, 3),
        **{name: as_json(timing) for name, timing in times.items()},
        "ratio": times["apart"].median / times["together"].median,
    }


def answers(service: Service, asked: Sequence[Asked]) -> list[Answer]:
    """Those to requests that wait at the same time."""
    with ExitStack() as stack:
        waiting = [
            stack.enter_context(service.batching.waiting("m", lambda one=one: one, 0))
            for one in asked
        ]
        return [service.batching.answer(one) for one in waiting]


def _table(cells: Sequence[dict[str, Any]]) -> Table:
    table = Table(
        "edges", "model", "requests", "joined", "prepare, ms", "apart, us", "together, us"
    )
    table.add_column("ratio")
    for cell in cells:
        each = [1e3 * cell[name]["median_ms"] / cell["requests"] for name in ("apart", "together")]
        table.add_row(
            f"{cell['edges']:,}",
            cell["model"],
            str(cell["requests"]),
            str(cell["joined"]),
            f"{cell['prepare_ms']:.1f}",
            *(f"{us:.0f}" for us in each),
            f"{cell['ratio']:.2f}",
        )
    table.caption = f"times for each request; graphs of at most {batching.MOST_SIZE:,} are joined"
    return table


def _http_table(cells: Sequence[dict[str, Any]]) -> Table:
    names = (
        "edges",
        "model",
        "clients",
        "requests/s apart",
        "together",
        "p99, ms apart",
        "together",
    )
    table = Table(*names)
    for cell in cells:
        both = cell["apart"], cell["together"]
        table.add_row(
            f"{cell['edges']:,}",
            cell["model"],
            str(cell["clients"]),
            *(f"{one['requests_per_second']:.0f}" for one in both),
            *(f"{one['p99_ms']:.1f}" for one in both),
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())

"""`hetune run` and `hetune bench`: layers on graphs, measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from safetensors.torch import save
from torch import Tensor

import hetune
from hetune.clients.cli import console
from hetune.clients.cli.compare import Comparison
from hetune.clients.cli.device import RunDevice
from hetune.clients.cli.files import check_writable, write_atomically
from hetune.clients.cli.layer_run import LocalRun, RunOutcome, Say, perform
from hetune.clients.cli.options import (
    Every,
    GraphName,
    GraphNames,
    MemoryLimit,
    Processor,
    Rounds,
    Stored,
    Threads,
    Top,
    size_of,
    use_threads,
    with_options,
)
from hetune.clients.cli.partitioned_run import PartitionedRun
from hetune.clients.cli.sources import GraphSource, LayerSource
from hetune.clients.cli.termination import interrupted_by_sigterm
from hetune.variants.errors import InputError
from hetune.variants.kernel.precision import check_precision
from hetune.variants.plan.choices import VANILLA


@with_options
def run(
    graph: GraphName,
    source: GraphSource,
    layer: LayerSource,
    variant: Annotated[
        str | None, typer.Option(help="Run this variant; the selector's choice by default.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the output to this file: safetensors, as `out`; with --memory .npy, Arrow "
            "or Parquet."
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            help="Features, .safetensors, .npz or .npy: one array [N, width], or one per node "
            "type. Drawn by default."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="The hetune.nn module's state dict, .safetensors or .npz. Drawn by default."
        ),
    ] = None,
    memory_limit: MemoryLimit = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Run in that much memory, part by part and once, from file to file: 4GB."
        ),
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="With --memory: parts are tasks of a Ray cluster.")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster; by default as Ray's settings say, or a new one."),
    ] = None,
    top: Top = 6,
    every: Every = False,
    rounds: Rounds = 5,
    threads: Threads = None,
    device: Processor = "cpu",
    precision: Stored = "float32",
) -> None:
    """Run a layer on a graph: load, index, choose, run, and time variants beside each other."""
    use_threads(threads)
    if out is not None:
        check_writable(out)
    if (ray and memory is None) or (address is not None and not ray):
        raise InputError("--ray needs --memory, and --address needs --ray")
    if (limit := size_of(memory, "--memory")) is not None:
        if device != "cpu" or precision != "float32" or memory_limit is not None:
            raise InputError("--memory: leave --device, --precision and --memory-limit out")
        chosen = replace(source, name=graph), replace(layer, weights=weights)
        parts = PartitionedRun(*chosen, features, out, limit, variant, ray, address)
        with interrupted_by_sigterm():
            parts.perform(_say(console.out().print))
        return
    request = LocalRun(
        replace(source, name=graph),
        replace(layer, weights=weights),
        RunDevice.named(device, check_precision(precision)),
        variant=variant,
        features=features,
        memory_limit=size_of(memory_limit, "--memory-limit"),
        top=None if every else top,
        rounds=rounds,
        seed=source.seed,
        precision=check_precision(precision),
    )
    terminal = console.beside(out)
    outcome = perform(request, _say(terminal.print))
    terminal.print(_table(outcome.comparison, rounds))
    for line in _verdict(outcome.comparison):
        terminal.print(line, markup=False, soft_wrap=True)
    if out is not None:
        _write(out, outcome, request)
        terminal.print(
            f"wrote {list(outcome.output.shape)} float32 to {out}", markup=False, soft_wrap=True
        )


@with_options
def bench(
    graphs: GraphNames,
    source: GraphSource,
    layer: LayerSource,
    memory_limit: MemoryLimit = None,
    top: Top = 6,
    every: Every = False,
    rounds: Rounds = 5,
    threads: Threads = None,
    device: Processor = "cpu",
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Write all times to this file, too.")
    ] = None,
    precision: Stored = "float32",
) -> None:
    """Compare variants on several graphs: the best of each, and what the choice loses."""
    use_threads(threads)
    if as_json is not None:
        check_writable(as_json)
    limit = size_of(memory_limit, "--memory-limit")
    run_device = RunDevice.named(device, check_precision(precision))
    rows = console.table(
        *("graph", "edges", "best variant", "ms", "chosen variant", "ms", "regret", "vanilla ms"),
        left=("graph", "best variant", "chosen variant"),
    )
    records = []
    sources = [replace(source, name=name) for name in graphs]
    for each in sources:
        each.check()
    for each in sources:
        request = LocalRun(
            each,
            layer,
            run_device,
            memory_limit=limit,
            top=None if every else top,
            rounds=rounds,
            seed=source.seed,
            precision=check_precision(precision),
        )
        outcome = perform(request, _say(console.err().print))
        _add_row(rows, each.name, outcome)
        records.append(_record(each.name, outcome))
    console.beside(as_json).print(rows)
    if as_json is not None:
        header = {
            "layer": layer.kind,
            "width": layer.width,
            "heads": layer.heads,
            "device": run_device.target,
            "threads": torch.get_num_threads(),
            "hetune": hetune.__version__,
        }
        text = json.dumps({**header, "graphs": records}, indent=1) + "\n"
        write_atomically(as_json, text.encode())


def _say(write: Any) -> Say:
    return lambda text: write(text, markup=False, soft_wrap=True)


def _table(comparison: Comparison, rounds: int) -> Any:
    rows = console.table(
        *("", "variant", "predicted", "measured", "iqr", "peak MB"),
        left=("variant",),
        title=f"ms: median and interquartile range of {rounds} interleaved runs",
        caption=console.PEAK,
    )
    for row in comparison.rows:
        is_chosen = row.candidate.id == comparison.chosen
        rows.add_row(
            console.CHOSEN if is_chosen else "",
            row.candidate.id,
            f"{row.candidate.seconds * 1e3:.3f}",
            f"{row.timing.median * 1e3:.3f}",
            f"{row.timing.iqr * 1e3:.3f}",
            f"{row.candidate.peak_bytes / 1e6:.1f}",
            style="bold green" if is_chosen else None,
        )
    return rows


def _verdict(comparison: Comparison) -> list[str]:
    lines = [
        f"outputs agree: they differ by at most {comparison.difference:.1e} of the largest value"
    ]
    if comparison.chosen == comparison.best.candidate.id:
        lines.append("the chosen variant is the fastest of these")
    else:
        lines.append(f"the chosen variant takes {comparison.regret:.2f}x the fastest one's time")
    if comparison.left_out:
        count = console.counted(comparison.left_out, "variant")
        lines.append(f"{count} not timed: too little memory is free")
    return lines


def _add_row(rows: Any, name: str, outcome: RunOutcome) -> None:
    comparison = outcome.comparison
    vanilla = [row for row in comparison.rows if row.candidate.plan == VANILLA]
    rows.add_row(
        name,
        f"{outcome.graph.num_edges:,}",
        comparison.best.candidate.id,
        f"{comparison.best.timing.median * 1e3:.3f}",
        comparison.chosen,
        f"{comparison.chosen_row.timing.median * 1e3:.3f}",
        f"{comparison.regret:.2f}",
        f"{vanilla[0].timing.median * 1e3:.3f}" if vanilla else "",
    )


def _record(name: str, outcome: RunOutcome) -> dict[str, Any]:
    comparison = outcome.comparison
    return {
        "graph": name,
        "fingerprint": outcome.graph.fingerprint,
        "nodes": outcome.graph.num_nodes,
        "edges": outcome.graph.num_edges,
        "etypes": outcome.graph.num_etypes,
        "index_ms": round(sum(outcome.index_seconds.values()) * 1e3, 4),
        "best": comparison.best.candidate.id,
        "chosen": comparison.chosen,
        "regret": round(comparison.regret, 4),
        "largest_difference": comparison.difference,
        "variants": [
            {
                "id": row.candidate.id,
                "predicted_ms": round(row.candidate.seconds * 1e3, 4),
                "median_ms": round(row.timing.median * 1e3, 4),
                "iqr_ms": round(row.timing.iqr * 1e3, 4),
                "times_ms": [round(seconds * 1e3, 4) for seconds in row.timing.seconds],
                "peak_bytes": row.candidate.peak_bytes,
            }
            for row in comparison.rows
        ],
    }


def _write(path: Path, outcome: RunOutcome, request: LocalRun) -> None:
    tensors: dict[str, Tensor] = {"out": outcome.output.cpu().contiguous()}
    metadata = {
        "graph": request.graph.name,
        "graph_fingerprint": outcome.graph.fingerprint,
        "layer": request.layer.kind,
        "width": str(request.layer.width),
        "heads": str(request.layer.heads),
        "device": request.device.target,
        "variant": outcome.comparison.chosen,
        "seed": str(request.seed),
        "hetune": hetune.__version__,
    }
    write_atomically(path, save(tensors, metadata))

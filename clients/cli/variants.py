"""`hetune variants` and `hetune explain`: what there is, and what would be chosen."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import hetune
from hetune.clients.cli import console
from hetune.clients.cli.device import RunDevice
from hetune.clients.cli.layer_run import LocalRun, prepare
from hetune.clients.cli.options import (
    DeviceName,
    GraphName,
    Heads,
    Layer,
    MemoryLimit,
    PlannedDevice,
    Stored,
    Threads,
    Width,
    size_of,
    use_threads,
    with_options,
)
from hetune.clients.cli.sources import GraphSource, LayerSource
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.errors import InputError, VariantError
from hetune.variants.frontend.presets import preset_programs
from hetune.variants.kernel.precision import check_precision
from hetune.variants.passes.pipeline import Pass
from hetune.variants.plan.choices import PlanChoices, schedule_id
from hetune.variants.plan.variants import Variant, device_of


def variants(
    layer: Layer,
    width: Width = 64,
    heads: Heads = 1,
    show: Annotated[
        str | None, typer.Option(help="Print this variant's program and launches.")
    ] = None,
    source: Annotated[
        bool, typer.Option("--source", help="With --show: print the generated code, too.")
    ] = False,
    device: PlannedDevice = DeviceName.cpu,
    precision: Stored = "float32",
) -> None:
    """List the promoted variants of a layer with default options, or show one of them."""
    if source and show is None:
        raise InputError("--source needs --show ID: it prints the code of one variant")
    program = preset_programs(layer.value, width, heads)[0]
    found = Compiler.of(device.value).schedule(program, check_precision(precision))
    if show is None:
        _list(found)
        return
    by_id = {variant.id: variant for variant in found}
    if show not in by_id:
        asked = f"--layer {layer.value}{'' if device == 'cpu' else f' --device {device.value}'}"
        asked += "" if precision == "float32" else f" --precision {precision}"
        raise VariantError(f"no variant {show!r}: `hetune variants {asked}` lists them")
    _show(by_id[show], source)


@with_options
def explain(
    graph: GraphName,
    source: GraphSource,
    layer: LayerSource,
    memory_limit: MemoryLimit = None,
    features: Annotated[
        Path | None, typer.Option(help="Features, as `hetune run` takes them; they are checked.")
    ] = None,
    threads: Threads = None,
    device: PlannedDevice = DeviceName.cpu,
    precision: Stored = "float32",
) -> None:
    """Say which variant would run on a graph, and why; no kernel is compiled."""
    use_threads(threads)
    request = LocalRun(
        replace(source, name=graph),
        layer,
        RunDevice.planned(device.value),
        features=features,
        memory_limit=size_of(memory_limit, "--memory-limit"),
        seed=source.seed,
        cuda_graph=None,
        precision=check_precision(precision),
    )
    out = console.out()
    ready = prepare(request, lambda text: out.print(text, markup=False, soft_wrap=True))
    explained = hetune.Selector.load(device=device.value).explain(
        ready.layer.module,
        ready.graph,
        memory_limit=request.memory_limit,
        precision=request.precision,
    )
    out.print(_launches(explained))
    choice = explained.choice
    replays = ("as one CUDA graph",) * any(c.replay_seconds for c in choice.candidates)
    rows = console.table(
        *("", "variant", "predicted ms", *replays, "peak MB", "note"),
        left=("variant", "note"),
        caption=console.PEAK,
    )
    for candidate in choice.candidates:
        is_chosen = candidate.id == choice.id
        note = ""
        if choice.memory_limit is not None and candidate.peak_bytes > choice.memory_limit:
            note = "over the memory limit"
        rows.add_row(
            console.CHOSEN if is_chosen else "",
            candidate.id,
            f"{candidate.seconds * 1e3:.3f}",
            *(f"{each * 1e3:.3f}" for each in (candidate.replay_seconds,) if each),
            f"{candidate.peak_bytes / 1e6:.1f}",
            note,
            style="bold green" if is_chosen else None,
        )
    out.print(rows)


def _launches(explained: hetune.Explanation) -> Table:
    rows = console.table(
        "predicted ms", "between", "launch", "what mattered", left=("launch", "what mattered")
    )
    for launch in explained.launches:
        rows.add_row(
            f"{launch.seconds * 1e3:.3f}",
            f"{launch.low * 1e3:.3f}-{launch.high * 1e3:.3f}",
            launch.what,
            ", ".join(f"{name} x{factor:.2f}" for name, factor in launch.features),
        )
    return rows


def _list(found: tuple[Variant, ...]) -> None:
    schedules = "blocks" if device_of(found) == "cpu" else "schedules"
    rows = console.table(
        *("plan", "launches", "kernels", schedules, "passes"), left=("plan", schedules, "passes")
    )
    plans: dict[PlanChoices, list[Variant]] = {}
    for variant in found:
        plans.setdefault(variant.choices.plan, []).append(variant)
    for plan, members in plans.items():
        launches = members[0].plan.launches
        rows.add_row(
            plan.id,
            str(len(launches)),
            str(sum(len(launch.kernels) for launch in launches)),
            " ".join(schedule_id(variant.choices.schedule) for variant in members),
            ", ".join(pass_text(step) for step in plan.program.passes) or "none",
        )
    out = console.out()
    out.print(rows)
    out.print(
        f"{console.counted(len(found), 'variant')}; an id is the plan, a slash and the "
        f"{schedules.removesuffix('s')}: "
        f"{found[0].id}"
    )


def _show(variant: Variant, source: bool) -> None:
    """Plain lines, for they are read by parsers and compilers as well."""
    typer.echo(Compiler.of(device_of((variant,))).show(variant, source=source))


def pass_text(step: Pass) -> str:
    """A pass as its name and the options that are not defaults, such as "compact(s)"."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(step).__name__).lower()
    values = (
        getattr(step, f.name)
        for f in fields(step)  # type: ignore[arg-type]
        if getattr(step, f.name) != f.default
    )
    options = [
        " ".join(map(pass_text, value)) if isinstance(value, tuple) else str(value)
        for value in values
    ]
    return f"{name}({', '.join(options)})" if options else name

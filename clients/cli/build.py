"""`hetune build`: compiling ahead of time."""

from __future__ import annotations

from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.options import layers_of, numbers_of
from hetune.costmodel.selection.selector import Selector
from hetune.variants.errors import InputError
from hetune.variants.frontend.presets import LAYERS, WIDTHS, preset_programs
from hetune.variants.registry import Registry, default_registry
from hetune.variants.runtime import build as ahead
from hetune.variants.runtime.build import LayersBuild


def build(
    layers: Annotated[str, typer.Option(help="Which layers, with commas.")] = ",".join(LAYERS),
    widths: Annotated[str, typer.Option(help="Which widths, with commas.")] = ",".join(
        map(str, WIDTHS)
    ),
    heads: Annotated[str, typer.Option(help="Which numbers of heads, with commas.")] = "1",
    jobs: Annotated[
        int | None, typer.Option(help="Compilers at once; one per processor by default.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu: this one; or a GPU, which need not be here: cuda:sm_90.")
    ] = "cpu",
    precision: Annotated[
        str, typer.Option(help="Of products on a GPU: ieee, tf32x3, tf32 or bf16.")
    ] = "ieee",
) -> None:
    """Compile every promoted variant of layers with default options, ahead of time.

    What reads graphs and chooses variants is compiled along.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: take 1 or more")
    if device == "cpu" and precision != "ieee":
        raise InputError(
            f"--precision {precision} is for GPUs: name one with --device, such as cuda:sm_90"
        )
    programs = [
        program
        for layer in layers_of(layers)
        for width in numbers_of(widths, "--widths")
        for count in numbers_of(heads, "--heads")
        for program in preset_programs(layer, width, count)
    ]
    with console.progress_bar("compiling") as update:
        built = ahead.build(
            programs,
            jobs=jobs,
            progress=lambda done, total, name: update(done, total),
            device=device,
            precision=precision,
        )
    if device == "cpu":
        Selector.load().warm_up()
    _print(built, default_registry() if device == "cpu" else Registry())
    if built.report.failed:
        raise typer.Exit(1)


def _print(built: LayersBuild, registry: Registry) -> None:
    report, out = built.report, console.out()
    variants = console.counted(built.variants, "variant")
    kernels = console.counted(built.kernels, "different kernel")
    out.print(
        f"{variants} of {kernels}: {report.built:,} compiled, {report.reused:,} reused, "
        f"{len(report.failed):,} failed, in {console.seconds(report.seconds)}"
    )
    out.print(f"{console.size(report.bytes)} in {registry.root}", markup=False, soft_wrap=True)
    console.flush()
    for name, message in report.failed.items():
        console.err().print(f"error: {name}: {message}", markup=False, soft_wrap=True)

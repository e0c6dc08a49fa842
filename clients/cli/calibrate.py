"""`hetune calibrate`: adapting the cost models to this machine."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.options import DeviceName
from hetune.costmodel.features.devices import default_rates
from hetune.costmodel.registry.calibration import ROOFLINE
from hetune.profiling.calibrate.calibration import CalibrationResult, Progress
from hetune.profiling.calibrate.calibration import calibrate as measure
from hetune.variants.kernel.device import Device

_RATES: dict[Device, tuple[tuple[str, str, str, float, str], ...]] = {
    "cpu": (
        ("matrix products", "GFLOP/s", "matrix_flops", 1e9, ".1f"),
        ("elementwise operations", "GFLOP/s", "vector_flops", 1e9, ".1f"),
        ("exponentials", "G/s", "special", 1e9, ".2f"),
        ("rows from a core's own cache", "GB/s", "own_rate", 1e9, ".1f"),
        ("rows from the shared cache", "GB/s", "shared_rate", 1e9, ".1f"),
        ("rows from memory", "GB/s", "memory_rate", 1e9, ".1f"),
        ("a core's own cache", "MiB", "own_bytes", 2**20, ".2f"),
        ("the shared cache", "MiB", "shared_bytes", 2**20, ".1f"),
        ("a line of another core's cache", "ns", "exchange_seconds", 1e-9, ".1f"),
        ("starting a launch", "µs", "launch_seconds", 1e-6, ".1f"),
    ),
    "cuda": (
        ("matrix products", "TFLOP/s", "matrix_flops", 1e12, ".1f"),
        ("elementwise operations", "TFLOP/s", "vector_flops", 1e12, ".1f"),
        ("exponentials", "T/s", "special", 1e12, ".2f"),
        ("rows from the L2 cache", "GB/s", "cache_rate", 1e9, ".0f"),
        ("rows from memory", "GB/s", "memory_rate", 1e9, ".0f"),
        ("the L2 cache", "MiB", "cache_bytes", 2**20, ".1f"),
        ("starting a kernel", "µs", "launch_seconds", 1e-6, ".1f"),
        ("programs that keep it busy", "", "programs", 1, ".0f"),
    ),
}
"""What a rate is, its unit, its name in the model, that unit in the model's, and its digits."""


def calibrate(
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure rates only: no correction of the cost model.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the calibration as JSON instead of tables.")
    ] = False,
    device: Annotated[
        DeviceName, typer.Option(help="What to measure: cpu, or cuda for this machine's GPU.")
    ] = DeviceName.cpu,
) -> None:
    """Measure this machine's rates and correct the cost model for it, in under a minute."""
    with _bars() as progress:
        found = measure(quick=quick, progress=progress, device=device.value)
    path = found.calibration.save()
    if as_json:
        typer.echo(json.dumps({**json.loads(found.calibration.as_json()), "path": str(path)}))
    else:
        _print(found, path)


def _print(found: CalibrationResult, path: Path) -> None:
    out, calibration = console.out(), found.calibration
    device = calibration.device
    default, of = default_rates(device), "of a core" if device == "cpu" else "of the GPU"
    rows = console.table(of, "default", "measured", "unit", title="rates", left=(of, "unit"))
    for name, unit, rate, scale, digits in _RATES[device]:
        both = (f"{getattr(rates, rate) / scale:{digits}}" for rates in (default, found.measured))
        rows.add_row(name, *both, unit)
    out.print(rows)
    if calibration.offsets:
        factors = console.table("kernels", "times predicted", title="correction", left=("kernels",))
        for family, offset in calibration.offsets.items():
            factors.add_row(family, f"{math.exp(offset):.2f}")
        out.print(factors)
    for line in _remarks(found):
        out.print(line, markup=False, soft_wrap=True)
    out.print(f"saved in {path}", markup=False, soft_wrap=True)


def _remarks(found: CalibrationResult) -> Iterator[str]:
    calibration = found.calibration
    who = "the roofline model" if calibration.model_id == ROOFLINE else "the cost model"
    before, after = calibration.error_before, calibration.error_after
    if found.at_home:
        yield "the cost model was trained on this machine: it is used as it is"
    elif before is None or after is None:
        yield f"{who} was not compared with measured launches"
    else:
        yield (
            f"half of the measured launches take what {who} predicts to within a factor of "
            f"{math.exp(after):.2f}; before, {math.exp(before):.2f}"
        )
    if calibration.machine != found.measured:
        yield "the cost model keeps the rates with which it predicts better"


@contextmanager
def _bars() -> Iterator[Progress]:
    """A progress bar for one thing after the other."""
    with ExitStack() as stack:
        current: list[tuple[str, Callable[[int, int], None]]] = []

        def progress(what: str, done: int, total: int) -> None:
            if not current or current[0][0] != what:
                stack.close()
                current[:] = [(what, stack.enter_context(console.progress_bar(what)))]
            current[0][1](done, total)

        yield progress

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
from hetune.costmodel.calibration import ROOFLINE
from hetune.profiling.calibrate.calibration import Found, Progress
from hetune.profiling.calibrate.calibration import calibrate as measure
from hetune.variants.runtime.roofline import MachineModel

_RATES: tuple[tuple[str, str, Callable[[MachineModel], float], str], ...] = (
    ("matrix products", "GFLOP/s", lambda m: m.matrix_flops / 1e9, ".1f"),
    ("elementwise operations", "GFLOP/s", lambda m: m.vector_flops / 1e9, ".1f"),
    ("exponentials", "G/s", lambda m: m.special / 1e9, ".2f"),
    ("rows from a core's own cache", "GB/s", lambda m: m.own_rate / 1e9, ".1f"),
    ("rows from the shared cache", "GB/s", lambda m: m.shared_rate / 1e9, ".1f"),
    ("rows from memory", "GB/s", lambda m: m.memory_rate / 1e9, ".1f"),
    ("a core's own cache", "MiB", lambda m: m.own_bytes / 2**20, ".2f"),
    ("the shared cache", "MiB", lambda m: m.shared_bytes / 2**20, ".1f"),
    ("starting a launch", "µs", lambda m: m.launch_seconds * 1e6, ".1f"),
)


def calibrate(
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure rates only: no correction of the cost model.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the calibration as JSON instead of tables.")
    ] = False,
) -> None:
    """Measure this machine's rates and correct the cost model for it, in under a minute."""
    with _bars() as progress:
        found = measure(quick=quick, progress=progress)
    path = found.calibration.save()
    if as_json:
        typer.echo(json.dumps({**json.loads(found.calibration.as_json()), "path": str(path)}))
    else:
        _print(found, path)


def _print(found: Found, path: Path) -> None:
    out, calibration = console.out(), found.calibration
    default = MachineModel()
    rows = console.table(
        "of a core", "default", "measured", "unit", title="rates", left=("of a core", "unit")
    )
    for name, unit, value, digits in _RATES:
        rows.add_row(name, f"{value(default):{digits}}", f"{value(found.measured):{digits}}", unit)
    out.print(rows)
    if calibration.offsets:
        factors = console.table("kernels", "times predicted", title="correction", left=("kernels",))
        for family, offset in calibration.offsets.items():
            factors.add_row(family, f"{math.exp(offset):.2f}")
        out.print(factors)
    for line in _remarks(found):
        out.print(line, markup=False, soft_wrap=True)
    out.print(f"saved in {path}", markup=False, soft_wrap=True)


def _remarks(found: Found) -> Iterator[str]:
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
        yield "it predicts better with the rates that it was trained with: these are kept"


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

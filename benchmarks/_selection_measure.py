"""Measuring problems into a store, as long as there is time; what is there is not done again."""

import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import track

from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.campaign.run import run_units
from hetune.profiling.measure.limits import Limits
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit


def measure_all(
    wanted: Mapping[ProblemSpec, Sequence[Unit]],
    store: Store,
    campaign: str,
    limits: Limits,
    seconds: float,
    seed: int,
    console: Console,
) -> None:
    """Measures problem after problem, in order, until the time is up."""
    done = store.done(this_machine().digest)
    left = {
        spec: units for spec, units in wanted.items() if any(unit.key not in done for unit in units)
    }
    count = sum(map(len, wanted.values()))
    console.print(f"{count:,} units, {len(left):,} problems left of them")
    end = time.monotonic() + seconds
    with Supervisor(limits, seed=seed) as supervisor:
        for spec, units in track(left.items(), console=console, description="problems"):
            if time.monotonic() > end:
                console.print("time is up: run this again to go on")
                break
            endings = run_units(units, campaign, store, supervisor=supervisor)
            lost = {str(k): n for k, n in endings.items() if k != "ok"}
            if lost:
                console.print(f"{spec}: {lost}")

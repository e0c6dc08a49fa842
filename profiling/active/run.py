"""A campaign of which only the most telling units are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features.devices import Rates, default_rates
from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.active.launch_sums import LaunchSums
from hetune.profiling.active.planner import Planner, batch
from hetune.profiling.campaign.run import CampaignProgress, Records, run_units
from hetune.profiling.corpus import build
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.process.supervisor import Supervisor
from hetune.profiling.store.problems import problems as problems_of
from hetune.profiling.store.store import Store
from hetune.profiling.units import GraphRecipe, ProblemSpec, Unit
from hetune.variants.errors import CampaignError


def run_active(
    units: Iterable[Unit],
    name: str,
    store: Store,
    most: int,
    *,
    records: Records | None = None,
    machine: Rates | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    progress: Callable[[CampaignProgress], None] = lambda progress: None,
) -> int:
    """Measures some units of a campaign, batch by batch: those that would teach models most.

    What the store knows of this machine counts from the start, of other campaigns too, so that a
    run which was interrupted goes on; what it knows of single kernels does where there are units of
    these. With `most` of the units measured there is nothing to do.

    Args:
        units: What may be measured, for one device. The graphs are made once before the start, one
            at a time.
        name: The campaign, for the records.
        store: What models learn from.
        most: How many of the units shall be measured in the end, those done before included.
        records: What is done, and where records go; the store by default.
        machine: Rates for the roofline model; the default ones if None.
        limits: Rounds, seconds and bytes.
        seed: Of what is drawn, of the inputs and the orders.
        progress: Called at the start and after each problem of a batch, with `most` as the total.

    Returns:
        How many units were measured now.

    Raises:
        CampaignError: There are units for several devices, whose times are not compared.
        GraphError: A graph cannot be made.
        StoreError, WorkerError: As `run_units`.
    """
    records = store if records is None else records
    digest = this_machine().digest
    wanted = {unit.key: unit for unit in units}
    devices = {unit.problem.device for unit in wanted.values()} or {"cpu"}
    if len(devices) > 1:
        raise CampaignError(
            f"units for {', '.join(sorted(devices))}: choose among those for one device at a time"
        )
    [device] = devices
    programs = {unit.problem.program for unit in wanted.values()}
    machine = machine or default_rates(device)
    graphs = _by_graph(wanted.values())
    offered = [units_of(problem) for problems in graphs.values() for problem in problems]
    known = wanted.keys() & records.done(digest)
    start, before = time.monotonic(), len(known)
    total = max(before, min(most, len(wanted)))
    progress(CampaignProgress(before, total, None, None))
    if before == total:
        return 0
    with measuring_lock():  # what this computes would be in the times of whoever measures
        views = [view for item in graphs.items() for view in _views(*item, machine)]
    planner = Planner(views, machine, seed=seed)
    done, shown, measured = before, before, 0

    def tell(now: CampaignProgress) -> None:
        nonlocal shown
        there = done + now.done
        if there > shown:
            shown = there
            pace = (time.monotonic() - start) / (there - before)
            progress(CampaignProgress(there, total, pace * (total - there), now.problem))

    with Supervisor(limits, seed=seed) as supervisor:
        while done < total:
            count = batch(done, total)
            there = _marked(offered, known)
            left = _marked(offered, wanted.keys() - known)
            measured_so_far = problems_of(store, digest, device=device, programs=programs)
            with measuring_lock():
                chosen = planner.next(measured_so_far, there, left, count)
            # In the order of views, so that a graph is made once in a batch.
            next_units = [offered[view][place] for view, place in sorted(chosen)]
            endings = run_units(next_units, name, records, progress=tell, supervisor=supervisor)
            measured += endings.total()
            known = wanted.keys() & records.done(digest)
            done = min(len(known), total)
            tell(CampaignProgress(0, total, None, next_units[-1].problem))  # others measure, too
    return measured


def _by_graph(units: Iterable[Unit]) -> dict[GraphRecipe, list[ProblemSpec]]:
    found: dict[GraphRecipe, list[ProblemSpec]] = {}
    for problem in dict.fromkeys(unit.problem for unit in units):
        found.setdefault(problem.graph, []).append(problem)
    return found


def _views(
    recipe: GraphRecipe, problems: Sequence[ProblemSpec], machine: Rates
) -> list[LaunchSums]:
    graph = build(recipe)
    return [LaunchSums.of(problem, graph, machine) for problem in problems]


def _marked(offered: Sequence[Sequence[Unit]], keys: Set[str]) -> list[NDArray[np.bool_]]:
    return [np.array([unit.key in keys for unit in units], np.bool_) for units in offered]

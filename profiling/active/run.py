"""A campaign of which only the most telling units are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.fingerprint import this_machine
from hetune.profiling.active.plan import Planner
from hetune.profiling.active.view import View
from hetune.profiling.corpus import build
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.runner import Progress, run_units
from hetune.profiling.store.problems import problems as problems_of
from hetune.profiling.store.store import Store
from hetune.profiling.supervisor import Supervisor
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.roofline import MachineModel

_FIRST = 128
"""Units that are measured before models are first asked."""
_GROWTH = 0.25
"""A batch is this share of what has been measured: models that know more are asked more seldom."""


def run_active(
    problems: Sequence[ProblemSpec],
    name: str,
    store: Store,
    *,
    units: int,
    machine: MachineModel | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> int:
    """Measures units of problems, batch by batch: those that would teach models most.

    What the store knows of this machine counts from the start, so that a run which was interrupted
    goes on.

    Args:
        problems: What there is to measure; each of their graphs is made once, before the start.
        name: The campaign, for the records.
        store: Where records go.
        units: How many of the problems' units shall be measured in the end, those done before
            included.
        machine: Rates for the roofline model; the default ones if None.
        limits: Rounds, seconds and bytes.
        seed: Of what is drawn, of the inputs and the orders.
        progress: Called with how far this is, after each problem.

    Returns:
        How many units were measured now.

    Raises:
        InputError: A problem has no such layer, or a width does not divide into its heads.
        GraphError: A graph cannot be made.
        StoreError: The store fails; what was stored before stays.
    """
    machine, digest = machine or MachineModel(), this_machine().digest
    planner = Planner(_views(problems, machine), machine, seed=seed)
    offered = [units_of(problem) for problem in problems]
    everything = [unit for members in offered for unit in members]
    target = min(units, len(everything))
    measured = 0
    with Supervisor(limits, seed=seed) as supervisor:
        while True:
            left = _left(offered, store.done(digest))
            done = len(everything) - sum(int(free.sum()) for free in left)
            count = min(target - done, max(_FIRST, round(_GROWTH * done)))
            if count <= 0:
                return measured
            known = problems_of(store, digest)
            batch = [offered[v][place] for v, place in planner.next(known, left, count)]
            run_units(
                _by_graph(batch),
                name,
                store,
                progress=lambda now, done=done: progress(  # type: ignore[misc]
                    Progress(done + now.done, target, None, now.problem)
                ),
                supervisor=supervisor,
            )
            measured += len(batch)


def _views(problems: Sequence[ProblemSpec], machine: MachineModel) -> list[View]:
    """A view of each problem; one graph is held at a time."""
    found: dict[ProblemSpec, View] = {}
    made: tuple[object, HeteroGraph] | None = None
    for problem in sorted(problems, key=lambda p: (p.graph.name, p.graph.options)):
        if made is None or made[0] != problem.graph:
            made = problem.graph, build(problem.graph)
        found[problem] = View.of(problem, made[1], machine)
    return [found[problem] for problem in problems]


def _left(offered: Sequence[Sequence[Unit]], done: set[str]) -> list[NDArray[np.bool_]]:
    return [np.array([unit.key not in done for unit in units], np.bool_) for units in offered]


def _by_graph(units: Sequence[Unit]) -> list[Unit]:
    """Units of one graph together, so that each graph is made once in a batch."""
    return sorted(units, key=lambda unit: (unit.problem.graph.name, unit.problem.graph.options))

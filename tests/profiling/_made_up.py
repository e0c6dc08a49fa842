"""Made-up machines, measurements and jobs; and the units of jobs, as the database has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, select

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.corpus import recipe
from hetune.profiling.jobs.database import one_job
from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import Lease, MeasureTask
from hetune.profiling.measure.problem import units_of
from hetune.profiling.measure.record import Stamp
from hetune.profiling.records import PROTOCOLS, LaunchRecord, Measurement, Status
from hetune.profiling.store import job_tables
from hetune.profiling.units import GraphRecipe, ProblemSpec, Unit
from hetune.variants.frontend.layers import rgat_program, rgcn_program
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.program.labeled import LabeledProgram

MACHINE = Fingerprint(
    cpu="A processor",
    cpu_identity="1/2/3",
    cpu_flags="0123456789abcdef",
    instructions=("avx2", "fma"),
    caches=(("L1d", 32768), ("L2", 1 << 20)),
    cores=2,
    cpus=4,
    cpu_quota=1.5,
    memory_gib=15.6,
    memory_limit_gib=8.0,
    system="Linux 6.1.0",
    compiler="g++ (GCC) 12.2.0",
    compiler_flags=("-O3", "-march=native"),
    gpu=None,
    gpu_driver=None,
    python="3.11.0",
    hetune="0.1.0",
    torch="2.9.0",
    numpy="2.0.0",
)
PROGRAM = LabeledProgram.of(rgat_program(32, 32, 2, attention="per_head"), "attentive")
OTHER_PROGRAM = LabeledProgram.of(rgcn_program(32, 64), "mean")
OTHER_MACHINE = replace(MACHINE, cpu="Another processor")


def measurement(number: int = 0, **changes: Any) -> Measurement:
    """A measurement that ended well, as far as its fields tell; equal for equal arguments.

    Args:
        number: Which unit: other numbers give other units and other times.
        **changes: Fields with other values. A status other than ok clears what only good
            measurements have, unless it is given; a device brings its protocol, likewise.
    """
    if changes.get("status", Status.OK) is not Status.OK:
        changes = {"samples": (), "launches": (), "error": "it failed", **changes}
    seconds = 0.001 * (1 + number / 7)
    launch = LaunchRecord(
        kernel=f"{number:016x}",
        family="product",
        columns=(float(number), 1e9 / 3, 0.0),
        samples=tuple(seconds * share for share in (0.5, 0.55, 0.51)),
    )
    found = Measurement(
        unit=f"{number:064x}",
        campaign="smoke",
        machine=MACHINE.digest,
        graph="hub",
        graph_fingerprint="f" * 64,
        family="hubs",
        graph_features=(12.0, 0.1 + 0.2, -1e-300),
        program=PROGRAM,
        threads=2,
        variant=f"hybrid/b{number}",
        plan=f"{number:032x}",
        status=Status.OK,
        error="",
        samples=tuple(seconds * share for share in (1.0, 1.1, 1.02)),
        launches=(launch, replace(launch, family="traversal")),
        prepare_seconds=0.02,
        preparation=(5.0, 20.0, 0.0, 7.0, 0.0, 2.0),
        relative_error=3e-7,
        peak_bytes=123_456,
        drift=0.01,
        protocol=PROTOCOLS[changes.get("device", "cpu")],
        code_version="0.1.0 (0123abc)",
        measured_at=datetime(2026, 1, 2, 3, 4, 5, 678901, UTC) + timedelta(seconds=number),
    )
    return replace(found, **changes)


def some_units(problems: int, variants: int = 2, start: int = 0) -> tuple[Unit, ...]:
    """Made-up units: equal for equal arguments."""
    found = []
    for number in range(start, start + problems):
        graph = GraphRecipe(f"g{number}", "hubs", "typed", (("nodes", 30), ("seed", number)))
        problem = ProblemSpec(graph, PROGRAM, 4)
        found += [Unit(problem, f"v{n}", f"plan{n}") for n in range(variants)]
    return tuple(found)


def tiny_units(problems: int = 1) -> list[Unit]:
    """Two variants on each of some tiny graphs, which hetune has."""
    found: list[Unit] = []
    for seed in range(problems):
        graph = recipe(f"g{seed}", "typed", options={"nodes": 30, "edges": 90, "seed": seed})
        found += units_of(ProblemSpec(graph, labeled_preset("rgcn", 4, 4, 1), 1))[:2]
    return found


def measurements_of(
    units: Iterable[Unit], asked: Lease | Stamp, **changes: Any
) -> list[Measurement]:
    """Made-up measurements of units, of the campaign and the machine that are asked for."""
    facts = {"machine": asked.machine, "campaign": asked.campaign, **changes}
    return [
        measurement(unit=unit.key, variant=unit.variant, plan=unit.plan, **facts) for unit in units
    ]


def measured(lease: Lease, **changes: Any) -> list[Measurement]:
    """Made-up measurements of all that was leased."""
    assert isinstance(lease.work, MeasureTask)
    return measurements_of(lease.work.units, lease, **changes)


def tasks_of_job(queue: JobQueue, job: int) -> list[Row[Any]]:
    """The rows of a job's tasks, in the order in which they are measured."""
    table = job_tables.tasks
    wanted = select(table).where(table.c.job == job).order_by(table.c.id)
    with queue._database.store.reading() as connection:
        return list(connection.execute(wanted))


def lease_of(leases: Leases, task: int) -> Lease:
    """The last lease of a task, as its worker has it."""
    table = job_tables.tasks
    with leases._database.store.reading() as connection:
        row = connection.execute(select(table).where(table.c.id == task)).one()
        return leases._lease(connection, row, one_job(connection, row.job))

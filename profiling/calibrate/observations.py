"""The launches that are measured to correct a cost model: few, small, different from each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.version import code_version
from hetune.profiling.calibrate.correction import Observed
from hetune.profiling.corpus.options import Scalar
from hetune.profiling.corpus.recipes import build, recipe
from hetune.profiling.measure.bench import Bench, bench_of
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import measure_problem, promoted_for
from hetune.profiling.measure.record import Stamp
from hetune.profiling.units import GraphRecipe, ProblemSpec
from hetune.variants.frontend.presets import LAYERS, labeled_preset
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.device import Device
from hetune.variants.passes.choices import Placement
from hetune.variants.plan.variants import Variant
from hetune.variants.program.labeled import LabeledProgram

_LIMITS = Limits(repeats=0, most_rounds=7, problem_seconds=2.0, unit_seconds=2.0)


def graphs() -> tuple[GraphRecipe, ...]:
    """Graphs whose rows fit a core's cache, the shared one, or neither; and one with hubs."""
    power: dict[str, Scalar] = {"src_law": "power", "dst_law": "power", "popularity": 2.0}
    options: dict[str, dict[str, Scalar]] = {
        "own": {"nodes": 2_000, "edges": 15_000, "etypes": 20, "skew": 1.0},
        "shared": {"nodes": 25_000, "edges": 150_000, "etypes": 60, "skew": 0.8, **power},
        "hubs": {"nodes": 12_000, "edges": 120_000, "etypes": 300, "dst_hub": 0.2, **power},
        "memory": {"nodes": 300_000, "edges": 500_000, "etypes": 8, **power},
    }
    return tuple(
        recipe(name, "typed", "calibration", {"ntypes": 3, **chosen})
        for name, chosen in options.items()
    )


def calibration_programs() -> tuple[LabeledProgram, ...]:
    """The layers that ship, at the widths that tell most of a machine."""
    return tuple(
        labeled_preset(name, width, width)
        for name, preset in LAYERS.items()
        for width in preset.calibration_widths
    )


def observe(
    *,
    seconds: float = 15.0,
    threads: int | None = None,
    recipes: Sequence[GraphRecipe] | None = None,
    programs: Sequence[LabeledProgram] | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    device: Device = "cpu",
    bench: Bench | None = None,
) -> tuple[Observed, ...]:
    """Measures a few variants of each program on a few graphs.

    Args:
        seconds: After these no further problem is begun; compiling does not count.
        threads: How many run a variant on a CPU; torch's number if None.
        recipes: The graphs; `graphs()` if None.
        programs: What runs; the layers of `hetune.variants.frontend.presets` if None.
        progress: Called with what is at work, how much of it is done, and how much there is.
        device: What the variants are made for.
        bench: Where and how they run; by default that of the device.

    Returns:
        The launches of each problem that was measured.

    Raises:
        CompileError: There is no compiler, or no Triton.
        VariantError: The variants are for a GPU, and there is none.
    """
    threads = 1 if device == "cuda" else threads or torch.get_num_threads()
    chosen = calibration_programs() if programs is None else programs
    units = _units(graphs() if recipes is None else recipes, chosen, threads, device)
    bench = bench or bench_of(device)
    bench.compile(
        [variant for _, variants in units for variant in variants],
        lambda done, total, name: progress("compiling", done, total),
    )
    stamp = Stamp("calibration", this_machine().digest, code_version())
    made: dict[GraphRecipe, HeteroGraph] = {}
    found = []
    end = time.perf_counter() + seconds
    for position, (problem, variants) in enumerate(units):
        if time.perf_counter() > end:
            break
        graph = problem.graph
        if graph not in made:
            made[graph] = build(graph)
        measured = measure_problem(
            problem, made[graph], variants, stamp, limits=_LIMITS, bench=bench
        )
        observed = Observed.of(measured)
        if observed is not None:
            found.append(observed)
        progress("measuring", position + 1, len(units))
    return tuple(found)


def _units(
    recipes: Sequence[GraphRecipe],
    programs: Sequence[LabeledProgram],
    threads: int,
    device: Device,
) -> list[tuple[ProblemSpec, tuple[Variant, ...]]]:
    """Every program on every graph, in an order whose beginning has all of both."""
    units = []
    for shift in range(len(recipes)):
        for position, program in enumerate(programs):
            graph = recipes[(position + shift) % len(recipes)]
            problem = ProblemSpec(graph, program, threads, device)
            units.append((problem, _one_per_placement(problem)))
    return units


def _one_per_placement(problem: ProblemSpec) -> tuple[Variant, ...]:
    """One variant for each place where messages are computed, and the one that is not rewritten."""
    first: dict[tuple[Placement, ...], Variant] = {}
    for variant in promoted_for(problem):
        places = tuple(site.choices.messages for site in variant.choices.plan.program.sites)
        if variant.has_default_schedule and Placement.EDGE not in places:
            first.setdefault(places, variant)
    return tuple(first.values())

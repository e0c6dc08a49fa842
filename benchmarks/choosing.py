"""What choosing costs, beside one run of what was chosen.

    python benchmarks/choosing.py

On real graphs, RGCN, RGAT and HGT at two widths, chosen for by the model that chooses on this
machine anyway, or by `--bundle`. Each time anew: a copy of the graph is indexed as the chosen
variant needs it; then features are extracted and all candidates are scored ("new"), chosen once
more ("known"), and the chosen variant runs. On a second copy, indexed alike, both parts are timed
apart: "features", "scoring", and scoring once more with code and trees in the caches ("warm").
On a third, nothing is indexed yet ("from_nothing"): most of that is indexing, which the first run
would do in its place. Where a run is short, a compiled layer runs the default variant before it
asks: "paid" is asking over the time of those runs.
"""

import argparse
import functools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _command_line import command_line, names
from _machine import set_threads, write_record
from _measure import geometric_mean, seconds_of
from _selection_graphs import LAYERS, pairs, present, specs
from rich.console import Console
from rich.progress import track

from hetune.costmodel.features.graph import graph_features
from hetune.costmodel.selection.selector import Selector
from hetune.profiling.corpus import build
from hetune.profiling.measure.inputs import random_inputs
from hetune.profiling.units import ProblemSpec
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.plan.sides import default_variant
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.runtime.calls import Calls, Policy
from hetune.variants.runtime.cost_estimates import CostEstimates
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.runtime.scored import domain_of
from hetune.variants.runtime.table import CandidateTable

_RUNS = 3
_CALLS = GraphSlot[None, Calls]()
_IN_RUNS = ("new", "features", "scoring", "known", "from_nothing")
_IN_MS = ("new", "features", "scoring", "warm")
_TIMES = ("run", "new", "features", "scoring", "warm", "known", "from_nothing", "default")
GOALS = {"new": 1.0, "warm_ms": 2.0}
"""Runs that choosing on a new graph takes at most (geometric mean), and milliseconds of scoring."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    options = parser().parse_args(arguments)
    set_threads(options.threads)
    console = Console()
    graphs = present(options.graphs, console)
    wanted = specs(graphs, options.layers, options.pairs, options.threads)
    selector = Selector.load(options.bundle)
    found = [
        measure(selector, spec, options.repeats)
        for spec in track(wanted, console=console, description="choosing")
    ]
    if not found:
        return 0
    total = summary(found)
    for name, each in total.items():
        console.print(f"{name}: {each}")
    for name, goal in GOALS.items():
        reached = total[name]["max" if name.endswith("_ms") else "geometric_mean"]
        console.print(f"{name}: {reached:.3g} (goal: at most {goal:g})")
    write_record(options.out, options.threads, summary=total, inputs=found)
    console.print(f"wrote {options.out}")
    return 0


def measure(selector: Selector, spec: ProblemSpec, repeats: int) -> dict[str, Any]:
    """An input's record: medians in milliseconds, as a compiled layer selects."""
    graph = build(spec.graph)
    program = spec.program.program
    variants, policy = variants_of(program, "cpu"), Policy(selector, expected_runs=math.inf)
    threads = kernel_threads()

    def choose(on: HeteroGraph) -> Variant:
        calls = on.state.of(_CALLS, None, Calls)
        return calls.next(variants, on, policy, lambda variant: variant)[0].variant

    def score(on: HeteroGraph) -> CostEstimates:
        domain = domain_of(variants, on)
        return selector.estimate(CandidateTable.of(variants, domain.side), domain, threads)

    chosen = choose(graph)  # also warms up
    inputs = random_inputs(program, Domain(graph), 0)
    first = default_variant(variants, Domain(graph).side)
    times: dict[str, list[float]] = {name: [] for name in _TIMES}

    def prepared(variant: Variant, on: HeteroGraph) -> functools.partial[object]:
        """A run of a variant, whose indexes are there then, and nothing else is."""
        executable = Executable(variant.plan, Domain(on), CppBackend(), variant.schedules)
        weights = weights_of(variant.plan, inputs.weights, graph)
        run = functools.partial(executable.run, inputs.features, weights)
        run()
        return run

    for _ in range(repeats):
        other, copy, second, bare = (graph.unindexed() for _ in range(4))
        for name, variant, on in (("default", first, other), ("run", chosen, copy)):
            run = prepared(variant, on)
            times[name] += [seconds_of(run) for _ in range(_RUNS)]
        prepared(chosen, second)
        for name, work in (
            ("new", functools.partial(choose, copy)),
            ("known", functools.partial(choose, copy)),
            ("features", functools.partial(graph_features, second)),
            ("scoring", functools.partial(score, second)),
            ("warm", functools.partial(score, second)),
            ("from_nothing", functools.partial(choose, bare)),
        ):
            times[name].append(seconds_of(work))
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    calls = _calls_until_asked(variants, graph, Policy(selector))
    return {
        "graph": spec.graph.name,
        "layer": spec.program.label,
        "variant": chosen.id,
        "calls": calls,
        "d_in": spec.program.d_in,
        "d_out": spec.program.d_out,
        **{f"{name}_ms": round(seconds * 1e3, 4) for name, seconds in medians.items()},
        **{f"{name}_runs": round(medians[name] / medians["run"], 4) for name in _IN_RUNS},
        "paid": round(medians["new"] / (medians["default"] * calls), 4),
    }


def _calls_until_asked(variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy) -> int:
    calls = Calls()
    while not calls.asked:
        calls.next(variants, graph, policy, lambda variant: variant)
    return calls.count


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means in runs, medians in milliseconds, the most, and how often a run is exceeded.

    Args:
        found: Records of `measure`.
    """
    result: dict[str, Any] = {}
    columns = {name: [each[f"{name}_runs"] for each in found] for name in _IN_RUNS}
    for name, ratios in {**columns, "paid": [each["paid"] for each in found]}.items():
        result[name] = {
            "geometric_mean": round(geometric_mean(ratios), 4),
            "max": round(max(ratios), 4),
            "share_over_1": round(sum(r > 1 for r in ratios) / len(ratios), 4),
        }
    for name in _IN_MS:
        ms = [each[f"{name}_ms"] for each in found]
        result[f"{name}_ms"] = {"median": round(statistics.median(ms), 4), "max": round(max(ms), 4)}
    return result


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = command_line(__doc__, "choosing")
    line.add_argument("--bundle", type=Path, default=None, help="what chooses here, by default")
    line.add_argument("--graphs", type=names, default=[], help="all by default")
    line.add_argument("--layers", type=names, default=list(LAYERS))
    line.add_argument("--pairs", type=pairs, default=[(32, 32), (64, 64)], help="e.g. 64x64,32x128")
    line.add_argument("--repeats", type=int, default=5)
    return line


if __name__ == "__main__":
    raise SystemExit(main())

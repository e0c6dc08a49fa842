"""What choosing costs, beside one run of what was chosen.

    python benchmarks/choosing.py

On real graphs, RGCN, RGAT and HGT at two widths, chosen for by the model that chooses on this
machine anyway, or by `--bundle`. Each time anew: a copy of the graph is indexed as the chosen
variant needs it; then features are extracted and all candidates are scored ("new"), chosen once
more ("known"), and the chosen variant runs. On a second copy, indexed alike, both parts are timed
apart: extracting features, then scoring ("features", "scoring"), and scoring once more, when code
and trees are in the caches ("warm"). On a third, of which nothing is indexed yet, choosing is timed
with all that it needs ("from nothing"): most of that is indexing, which the first run would do in
its place.

Where a run is short, a compiled layer runs the usual variant before it asks. How many calls it
makes until then is counted, and asking is compared with the time of all those runs ("paid").
"""

import argparse
import functools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from _graphs import names
from _machine import commit, fingerprint, set_threads
from _measure import geometric_mean
from _selection_graphs import LAYERS, pairs, present, specs
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from hetune.costmodel.features.graph import graph_features
from hetune.costmodel.selector import Selector
from hetune.profiling.corpus import build
from hetune.profiling.measure.inputs import random_inputs
from hetune.profiling.units import ProblemSpec
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.frontend.presets import preset_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.plan.sides import usual
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.runtime.calls import Calls, Policy
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.given import weights_of
from hetune.variants.runtime.pricing import Prices
from hetune.variants.runtime.scored import domain_of
from hetune.variants.runtime.table import CandidateTable

_RESULTS = Path(__file__).resolve().parent / "results"
_RUNS = 3
_CALLS = GraphSlot[None, Calls]()
_RUNS_GOAL = 1.0
"""Runs that choosing on a new graph is to cost less than."""
_SCORING_GOAL, _SCORING_TARGET = 2.0, 0.5
"""Milliseconds that scoring all candidates of a layer is to take less than, once warm."""
_TIMES = ("run", "new", "features", "scoring", "warm", "known", "from_nothing", "usual")
_SHOWN = ("new", "features", "scoring", "known", "from_nothing")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    options = parser().parse_args(arguments)
    set_threads(options.threads)
    console = Console()
    graphs = [g for g in present(options.graphs, console) if not g.last or options.large]
    wanted = specs(graphs, options.layers, options.pairs, options.threads)
    selector = Selector.load(options.bundle)
    found = [
        measure(selector, spec, options.repeats)
        for spec in track(wanted, console=console, description="choosing")
    ]
    if not found:
        return 0
    console.print(table(found))
    reached = goals(found)
    for name, goal in reached.items():
        met = "met" if goal["met"] else "missed"
        console.print(f"{name}: {goal['reached']} (goal: less than {goal['goal']:g}, {met})")
    record = {
        "machine": fingerprint(options.threads),
        "commit": commit(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "summary": summary(found),
        "goals": reached,
        "inputs": as_json(found),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console.print(f"wrote {options.out}")
    return 0


@dataclass(frozen=True, slots=True)
class Overhead:
    """Medians of one input, in seconds.

    Attributes:
        graph: Name of the graph.
        layer: The layer.
        d_in: Width of the rows that come in.
        d_out: Width of the rows that go out.
        variant: What was chosen.
        run: One run of it.
        new: Features and selection on a graph that is indexed for the chosen variant.
        features: Of that, extracting the graph's features.
        scoring: Of that, pricing all candidates with the features known.
        warm: The same once more, right after.
        known: Selection on a graph that was chosen for before.
        from_nothing: Features and selection on a graph of which nothing is indexed.
        usual: One run of the variant that runs until the model is asked.
        calls: The call that asks, the first one being 1.
    """

    graph: str
    layer: str
    d_in: int
    d_out: int
    variant: str
    run: float
    new: float
    features: float
    scoring: float
    warm: float
    known: float
    from_nothing: float
    usual: float
    calls: int

    @property
    def paid(self) -> float:
        """Asking, over the time of the runs until then."""
        return self.new / (self.usual * self.calls)


def measure(selector: Selector, spec: ProblemSpec, repeats: int) -> Overhead:
    """Times selection for one input, as a compiled layer selects."""
    graph = build(spec.graph)
    program = preset_program(spec.layer, spec.d_in, spec.d_out, spec.heads)
    variants, policy = variants_of(program), Policy(selector, expected_runs=math.inf)
    threads = kernel_threads()

    def choose(on: HeteroGraph) -> Variant:
        return (
            on.state.of(_CALLS, None, Calls)
            .next(variants, on, policy, lambda variant: variant)[0]
            .variant
        )

    def score(on: HeteroGraph) -> Prices:
        domain = domain_of(variants, on)
        return selector.price(CandidateTable.of(variants, domain.side), domain, threads)

    chosen = choose(graph)  # also warms up
    inputs = random_inputs(program, Domain(graph), 0)
    weights = weights_of(chosen.plan, inputs.weights, graph)
    first = usual(variants, Domain(graph).side)
    given = weights_of(first.plan, inputs.weights, graph)
    times: dict[str, list[float]] = {name: [] for name in _TIMES}

    def run(executable: Executable) -> float:
        using = weights if executable.plan is chosen.plan else given
        return _timed(lambda: executable.run(inputs.features, using))

    def bound(variant: Variant, on: HeteroGraph) -> Executable:
        return Executable(variant.plan, Domain(on), CppBackend(), variant.schedules)

    for _ in range(repeats):
        other, copy, second, bare = (graph.unindexed() for _ in range(4))
        # What is chosen is bound last, so that its indexes are there and nothing else is.
        for name, executable in (
            ("usual", bound(first, other)),
            ("run", bound(chosen, copy)),
        ):
            run(executable)
            times[name] += [run(executable) for _ in range(_RUNS)]
        times["new"].append(_timed(functools.partial(choose, copy)))
        times["known"].append(_timed(functools.partial(choose, copy)))
        run(bound(chosen, second))
        times["features"].append(_timed(functools.partial(graph_features, second)))
        times["scoring"].append(_timed(functools.partial(score, second)))
        times["warm"].append(_timed(functools.partial(score, second)))
        times["from_nothing"].append(_timed(functools.partial(choose, bare)))
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    calls = _calls_until_asked(variants, graph, Policy(selector))
    return Overhead(
        spec.graph.name, spec.layer, spec.d_in, spec.d_out, chosen.id, **medians, calls=calls
    )


def _calls_until_asked(variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy) -> int:
    use = Calls()
    while not use.asked:
        use.next(variants, graph, policy, lambda variant: variant)
    return use.count


def as_json(found: Iterable[Overhead]) -> list[dict[str, Any]]:
    """Milliseconds, and multiples of a run."""
    rows = []
    for each in found:
        row = asdict(each)
        for name in _TIMES:
            seconds = row.pop(name)
            row[f"{name}_ms"] = round(seconds * 1e3, 4)
            row[f"{name}_runs"] = round(seconds / each.run, 4)
        row["paid"] = round(each.paid, 4)
        rows.append(row)
    return rows


def table(found: list[Overhead]) -> Table:
    """Selection in runs of the chosen layer, graph by graph, in lines of 100 characters at most."""
    shown = Table(title="selection, in runs of the chosen layer", box=SIMPLE_HEAD, padding=0)
    shown.add_column("graph", no_wrap=True)
    shown.add_column("layer", no_wrap=True)
    for column in (
        "run ms",
        "new\ngraph",
        "features",
        "scoring",
        "warm\nms",
        "known\ngraph",
        "from\nnothing",
        "asked\nat\ncall",
        "paid",
    ):
        shown.add_column(column, justify="right", no_wrap=True)
    for each in found:
        shown.add_row(
            each.graph,
            f"{each.layer} {each.d_in}x{each.d_out}",
            f"{each.run * 1e3:.3f}",
            *_shown([getattr(each, field) / each.run for field in _SHOWN], each.warm),
            str(each.calls),
            f"{each.paid:.3f}",
        )
    shown.add_section()
    for name, of in (("geometric mean", geometric_mean), ("maximum", max)):
        ratios = [of([getattr(each, field) / each.run for each in found]) for field in _SHOWN]
        shown.add_row(
            name,
            *("", ""),
            *_shown(ratios, of([each.warm for each in found])),
            "",
            f"{of([each.paid for each in found]):.3f}",
        )
    return shown


def _shown(ratios: list[float], warm: float) -> list[str]:
    """The columns of `_SHOWN`, and beside that of scoring the milliseconds that have goals."""
    cells = [f"{ratio:.3f}" for ratio in ratios]
    cells.insert(_SHOWN.index("scoring") + 1, f"{warm * 1e3:.2f}")
    return cells


def summary(found: list[Overhead]) -> dict[str, Any]:
    """What is usual in runs and in milliseconds, the most, and how often it exceeds a goal."""
    result: dict[str, Any] = {}
    multiples = {name: [getattr(each, name) / each.run for each in found] for name in _SHOWN}
    for name, ratios in {**multiples, "paid": [each.paid for each in found]}.items():
        result[name] = {
            "geometric_mean": round(geometric_mean(ratios), 4),
            "max": round(max(ratios), 4),
            "share_over_1": round(sum(r > 1 for r in ratios) / len(ratios), 4),
        }
    for name in ("new", "features", "scoring", "warm"):
        milliseconds = [getattr(each, name) * 1e3 for each in found]
        result[f"{name}_ms"] = {
            "median": round(statistics.median(milliseconds), 4),
            "max": round(max(milliseconds), 4),
            **{
                f"share_over_{bound:g}": round(sum(m > bound for m in milliseconds) / len(found), 4)
                for bound in (_SCORING_GOAL, _SCORING_TARGET)
            },
        }
    return result


def goals(found: list[Overhead]) -> dict[str, dict[str, Any]]:
    """What choosing is to cost less than, and what it costs."""
    runs = geometric_mean([each.new / each.run for each in found])
    slowest = max(each.warm for each in found) * 1e3
    usual = statistics.median(each.warm for each in found) * 1e3
    new = "features and selection on a new graph that is indexed, in runs (geometric mean)"
    rows = (
        (new, _RUNS_GOAL, runs),
        ("scoring all candidates once warm, in ms (at worst)", _SCORING_GOAL, slowest),
        ("the same (median), target", _SCORING_TARGET, usual),
    )
    return {
        name: {"goal": goal, "reached": round(reached, 4), "met": reached < goal}
        for name, goal, reached in rows
    }


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    del result
    return seconds


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--bundle", type=Path, default=None, help="what chooses here, by default")
    line.add_argument("--graphs", type=names, default=[], help="all by default")
    line.add_argument("--large", action="store_true", help="the largest graph, too")
    line.add_argument("--layers", type=names, default=list(LAYERS))
    line.add_argument("--pairs", type=pairs, default=[(32, 32), (64, 64)], help="e.g. 64x64,32x128")
    line.add_argument("--threads", type=int, default=torch.get_num_threads())
    line.add_argument("--repeats", type=int, default=5)
    line.add_argument("--out", type=Path, default=_RESULTS / "choosing.json")
    return line


if __name__ == "__main__":
    raise SystemExit(main())

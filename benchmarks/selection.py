"""How well variants are chosen for real graphs by a model that has seen generated ones only.

    hetune profile default
    python benchmarks/selection.py measure
    python benchmarks/selection.py finals --finals finals-1.db finals-2.db finals-3.db
    python benchmarks/selection.py --finals finals-1.db finals-2.db finals-3.db

`measure` times all variants of RGCN, RGAT and HGT at widths {32, 64, 128, 256} squared on real
graphs, into the store, under the campaign "selection-test"; with `--layers "gcn,rgcn gradient"`
those of GCN, and of the stages of a gradient, on graphs that are not large. It may be stopped at
any time (by `timeout 2h`, say), and goes on where it was: pair of widths by pair, small graphs
first. Twelve large graphs get four pairs.

`finals` measures anew the variants that came within 40% of the fastest, for the fastest of
many noisy times is fast by luck as well: once for each file, in processes of their own
(`_selection_finals`).

Without either, a cost model is trained on all other problems of the store, real graphs' families
held out, and judged on the real graphs beside all baselines, by lower quartiles of the rounds.
`--save` keeps that model: so is the one made that comes with hetune. `--bundle FOLDER`
judges a model that is there already, with the rates that it was trained with: as it chooses where
nobody has calibrated it. What selection itself costs is measured by `choosing.py`.

Inputs that were measured while the machine was busy with something else are not judged
(`hetune.profiling.store.problems`), and named in the result. `--graphs`, `--layers` and `--pairs`
judge on some of them alone.
"""

import argparse
import functools
from collections.abc import Sequence, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _command_line import command_line, names
from _machine import set_threads, write_record
from _selection_finals import Key, finalists, key, settle
from _selection_graphs import LAYERS, PAIRS, REAL, pairs, present, programs, specs, split
from rich.console import Console

from hetune.clients.cli.models import show
from hetune.costmodel.evaluate.metrics import FIXED, ORACLE, ROOFLINE
from hetune.costmodel.evaluate.prediction_time import with_prediction_times
from hetune.costmodel.evaluate.report import MODEL, Report, judge
from hetune.costmodel.features.devices import Rates
from hetune.costmodel.fingerprint import Fingerprint
from hetune.costmodel.model.bundle import load, save
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.problems import Problem, count_graphs
from hetune.costmodel.registry.calibration import load_calibration
from hetune.profiling.campaign.run import CampaignProgress, run_units
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.records import PROTOCOLS, Measurement, Status
from hetune.profiling.store.problems import problems as problems_of
from hetune.profiling.store.store import Store
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.runtime.roofline import MachineModel

_CAMPAIGN = "selection-test"
_MODES = ("measure", "finals", "evaluate")
_MOST_ROUNDS = 25
"""Of the fastest variants: what is judged must be known better than what models learn from."""
_FINAL_ROUNDS = 45
"""Of finalists that are nearly as fast as the fastest: runs are cheap beside making the graph."""
GOALS = (
    ("regret, geometric mean", "regret", 1.03),
    ("regret, 95th percentile", "regret_p95", 1.15),
    ("slower than best fixed by more than noise, share", "clearly_worse", 0.10),
    ("slower than best fixed, at worst", "worst", 1.25),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or evaluate."""
    options = parser().parse_args(arguments)
    set_threads(options.threads)
    console = Console()
    with Store.open(options.store) as store:
        if options.mode == "measure":
            return _measure(store, options, console)
        if options.mode == "finals":
            return _measure_finals(store, options, console)
        return _evaluate(store, options, console)


def _measure(store: Store, options: argparse.Namespace, console: Console) -> int:
    units = [unit for spec in _specs(options, console) for unit in units_of(spec)]
    return _run(units, store, _MOST_ROUNDS, options)


def _measure_finals(store: Store, options: argparse.Namespace, console: Console) -> int:
    if not options.finals:
        raise SystemExit("finals are kept apart: say where, --finals FILE.db ...")
    _, judged = split(problems_of(store, options.machine))
    known = {(p.graph, p.family, p.program, p.threads): p for p in judged}
    units: list[Unit] = []
    for spec in _specs(options, console):
        name = spec.graph.name, spec.graph.family, spec.program, spec.threads
        chosen = finalists(known[name]) if name in known else frozenset()
        units += [unit for unit in units_of(spec) if unit.variant in chosen]
    for session, place in enumerate(options.finals):
        with Store.open(place) as finals:
            _run(units, finals, _FINAL_ROUNDS, options, session)
    return 0


def _run(
    units: Sequence[Unit], store: Store, rounds: int, options: argparse.Namespace, session: int = 0
) -> int:
    def show(now: CampaignProgress) -> None:
        print(f"{now.done:,} of {now.total:,} units: {now.problem or 'begun'}", flush=True)

    limits = Limits(most_rounds=rounds, problem_seconds=options.problem_seconds)
    seed = options.seed + session
    endings = run_units(units, _CAMPAIGN, store, limits=limits, seed=seed, progress=show)
    print(f"measured: {', '.join(f'{n} {ending}' for ending, n in endings.items()) or 'nothing'}")
    return 0


def _specs(options: argparse.Namespace, console: Console) -> tuple[ProblemSpec, ...]:
    graphs, widths = present(options.graphs, console), options.pairs or PAIRS
    return specs(graphs, options.layers, widths, options.threads)


def _is_asked_for(found: Problem | Measurement, options: argparse.Namespace) -> bool:
    return (
        found.threads == options.threads
        and (not options.graphs or found.graph in options.graphs)
        and found.program.label in options.layers
        and found.program.digest in _digests(found.program.label, tuple(options.pairs or PAIRS))
    )


@functools.cache
def _digests(layer: str, widths: tuple[tuple[int, int], ...]) -> Set[str]:
    return {each.program.digest for pair in widths for each in programs(layer, *pair)}


def _evaluate(store: Store, options: argparse.Namespace, console: Console) -> int:
    sessions = _sessions(options)
    training, judged = _problems(store, options, sessions)
    left_out = _inputs(store, options) - {key(problem) for problem in judged}
    if not judged or not training:
        console.print(
            f"{store.place} holds {len(training)} problems to train on and {len(judged)} of real "
            f"graphs: run `hetune profile default` and `{Path(__file__).name} measure` first"
        )
        return 0
    model, machine = _model(store, training, judged[0].machine, options)
    _refuse_seen(model, judged)
    about = {"split": f"trained on {_families(training)}; judged on {_families(judged)}"}
    report = judge(training, judged, lambda _: model, machine=machine, about=about)
    report = with_prediction_times(report, model, judged, machine)
    show(report)
    score = report.score()
    for name, field, goal in GOALS:
        verdict = "met" if _met(score, field, goal) else "missed"
        console.print(f"{name}: {getattr(score, field):.3f}; goal: at most {goal:g}: {verdict}")
    if left_out:
        console.print(f"left out, for the machine was unsteady: {named(left_out)}")
    record = {
        "training": _counts(training),
        "judged": _counts(judged) | {"left_out": named(left_out)},
        "model": {
            "target": model.manifest.target,
            "tie": model.tie,
            "metrics": dict(model.manifest.metrics),
        },
        **as_record(report),
    }
    write_record(options.out, options.threads, **record)
    console.print(f"wrote {options.out}")
    if options.save:
        save(model, options.save)
        console.print(f"saved the model that was judged in {options.save}")
        if model.manifest.machine == MachineModel():
            console.print("its rates are the default ones: HETUNE_MODELS names no calibration")
    return 0


def _problems(
    store: Store, options: argparse.Namespace, sessions: Sequence[Sequence[Problem]]
) -> tuple[list[Problem], list[Problem]]:
    training, judged = split(problems_of(store, options.machine))
    judged = [problem for problem in judged if _is_asked_for(problem, options)]
    return training, settle(judged, sessions)


def _sessions(options: argparse.Namespace) -> list[list[Problem]]:
    """What each session of finals measured, of what is asked for."""
    found = []
    for place in options.finals:
        with Store.open(place) as finals:
            measured = problems_of(finals, options.machine)
            found.append([problem for problem in measured if _is_asked_for(problem, options)])
    return found


def _inputs(store: Store, options: argparse.Namespace) -> Set[Key]:
    """All with several plans that were measured on real graphs, as they are measured now."""
    plans: dict[Key, set[str]] = {}
    for found in store.measurements(options.machine, status=Status.OK, device="cpu"):
        is_current = found.protocol == PROTOCOLS["cpu"]
        if is_current and found.family.startswith(REAL) and _is_asked_for(found, options):
            plans.setdefault(key(found), set()).add(found.plan)
    return {of for of, measured in plans.items() if len(measured) > 1}


def _model(
    store: Store, training: Sequence[Problem], measured_on: str, options: argparse.Namespace
) -> tuple[CostModel, Rates]:
    """What is judged, and the rates that it is asked with: those of an installation of it."""
    if options.bundle:
        model = load(options.bundle)
        return model, model.manifest.machine
    machine, trained_on = _rates(measured_on), _fingerprint(store, measured_on)
    return CostModel.fit(training, machine, trained_on, target=options.target), machine


def _fingerprint(store: Store, digest: str) -> Fingerprint:
    return next(m.fingerprints[-1] for m in store.machines() if m.digest == digest)


def _rates(digest: str) -> MachineModel:
    """The calibrated rates where these are known of the machine that was measured."""
    calibration = load_calibration()
    if calibration is None or calibration.fingerprint != digest:
        return MachineModel()
    measured = calibration.measured or calibration.machine
    assert isinstance(measured, MachineModel)
    return measured


def _refuse_seen(model: CostModel, judged: Sequence[Problem]) -> None:
    seen = {p.family for p in judged} & set(model.manifest.data.graph_families)
    if seen:
        raise SystemExit(f"the model was trained on what it is judged on: {', '.join(seen)}")


def as_record(report: Report) -> dict[str, Any]:
    """Scores, goals, and every input's pick beside the baselines', in milliseconds."""
    names = [name for name in (ORACLE, MODEL, FIXED, ROOFLINE) if name in report.names]
    score = report.score()
    return {
        "about": dict(report.about),
        "scores": {name: asdict(score) for name, score in report.scores.items()},
        "goals": {
            name: {"goal": goal, "reached": getattr(score, field), "met": _met(score, field, goal)}
            for name, field, goal in GOALS
        },
        "inputs": [
            {
                "input": f"{o.layer}/{o.graph}/{o.widths}",
                **{
                    name: f"{o.picks[name].variant} {o.picks[name].seconds * 1e3:.4g}"
                    for name in names
                },
            }
            for o in report.outcomes
        ],
    }


def _met(score: Any, field: str, goal: float) -> bool:
    return bool(getattr(score, field) <= goal)


def _counts(problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "families": sorted({p.family for p in problems}),
        "graphs": count_graphs(problems),
        "inputs": len(problems),
        "units": sum(len(p.candidates) for p in problems),
    }


def named(keys: Set[Key]) -> list[str]:
    """Inputs by name, as results have them."""
    return sorted(f"{layer}/{graph}/{d_in}x{d_out}" for graph, _, layer, _, d_in, d_out, *_ in keys)


def _families(problems: Sequence[Problem]) -> str:
    return ", ".join(sorted({p.family for p in problems}))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = command_line(__doc__, "selection")
    line.add_argument("mode", nargs="?", choices=_MODES, default="evaluate")
    line.add_argument("--store", default=None, help="HETUNE_STORE or the user's store by default")
    line.add_argument("--finals", nargs="+", default=[], help="a store for each session of finals")
    line.add_argument("--machine", default=None, help="digest, where the store knows several")
    line.add_argument("--graphs", type=names, default=[], help="all by default")
    line.add_argument("--layers", type=names, default=list(LAYERS))
    line.add_argument("--pairs", type=pairs, default=[], help="e.g. 64x64,32x128; all by default")
    line.add_argument("--problem-seconds", type=float, default=60.0)
    line.add_argument("--seed", type=int, default=0)
    line.add_argument("--target", default="auto")
    line.add_argument("--bundle", type=Path, default=None, help="judge this one; train nothing")
    line.add_argument("--save", type=Path, default=None, help="folder for the model that is judged")
    return line


if __name__ == "__main__":
    raise SystemExit(main())

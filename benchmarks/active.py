"""How many units must be measured: chosen by what models are unsure of, against chosen by chance.

    hetune profile default
    python benchmarks/active.py

A store of measured problems is revealed unit by unit, in both orders, and regret is taken on graph
families that are held out: real graphs where the store has them (`selection.py measure`), else a
third of the generated families, other ones for each seed. Models choose as hetune does, ties going
to the default variant; with `--untied` by their predictions alone.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _active_curve import STRATEGIES, Simulation, interval, levels_of, overall, plot
from _machine import commit, fingerprint, set_threads
from _measure import geometric_mean
from _selection_graphs import split
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hetune.costmodel.data import Problem
from hetune.costmodel.evaluate import noise
from hetune.profiling.store.problems import problems as problems_of
from hetune.profiling.store.store import Store
from hetune.variants.runtime.roofline import MachineModel

_RESULTS = Path(__file__).resolve().parent / "results"
GOAL = 0.5
"""Most units that the active choice may need, as a share of the uniform one's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print the table, write the JSON and the curve."""
    options = parser().parse_args(arguments)
    set_threads(options.threads)
    console = Console()
    with Store.open(options.store) as store:
        training, judged = split(problems_of(store, options.machine))
        place = store.place
    if len({p.family for p in training}) < 3:
        console.print(f"{place} holds too little: run `hetune profile default` first")
        return 0
    sizes: list[int] = []
    curves: dict[str, list[list[float]]] = {strategy: [] for strategy in STRATEGIES}
    floors = []
    with Progress(console=console) as bar:
        task = bar.add_task("curves", total=options.seeds * len(STRATEGIES))
        for seed in range(options.seeds):
            pool, held_out = _parts(training, judged if options.real else [], seed)
            simulation = Simulation(pool, held_out, MachineModel(), ties=options.ties)
            sizes = sizes or _sizes(options.first, simulation.units, options.points)
            floors.append(geometric_mean([noise.floor(p) for p in held_out]))
            for strategy in STRATEGIES:
                curves[strategy].append(simulation.curve(strategy, sizes, seed))
                bar.advance(task)
    means = {name: np.exp(np.log(np.array(c)).mean(axis=0)) for name, c in curves.items()}
    levels = levels_of(sizes, curves)
    ratio, (low, high) = overall(levels), interval(sizes, curves)
    console.print(_table(sizes, means))
    console.print(_levels(levels))
    console.print(
        f"units needed for the same regret: {ratio:.2f} of uniform sampling's (geometric mean over "
        f"{len(levels)} levels; {low:.2f} to {high:.2f} in 9 of 10 resamples of the seeds); goal: "
        f"at most {GOAL}"
    )
    record = {
        "machine": fingerprint(options.threads),
        "commit": commit(),
        "evaluated_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "held_out": "real graphs" if judged and options.real else "a third of generated families",
        "ties": options.ties,
        "seeds": options.seeds,
        "sizes": sizes,
        "noise_floor": round(geometric_mean(floors), 4),
        "curves": {name: [[round(r, 4) for r in c] for c in all_] for name, all_ in curves.items()},
        "levels": levels,
        "ratio": round(ratio, 3),
        "ratio_interval": [round(low, 3), round(high, 3)],
        "goal": GOAL,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    picture = plot(sizes, curves, geometric_mean(floors), options.out.with_suffix(".png"))
    console.print(f"wrote {options.out} and {picture}")
    return 0


def _parts(
    training: Sequence[Problem], judged: Sequence[Problem], seed: int
) -> tuple[list[Problem], list[Problem]]:
    """What may be revealed, and what regret is taken on."""
    if judged:
        return list(training), list(judged)
    families = sorted({p.family for p in training})
    drawn = np.random.default_rng(seed).permutation(len(families))[: max(1, len(families) // 3)]
    held_out = {families[i] for i in drawn}
    pool = [p for p in training if p.family not in held_out]
    return pool, [p for p in training if p.family in held_out]


def _sizes(first: int, units: int, points: int) -> list[int]:
    """Numbers of units from `first` to all but a fifth, evenly on a logarithmic scale."""
    grid = np.geomspace(min(first, units // 4), 0.8 * units, points)
    return [int(size) for size in np.unique(np.round(grid))]


def _table(sizes: Sequence[int], means: dict[str, np.ndarray]) -> Table:
    shown = Table(title="regret on held-out families, geometric mean over seeds")
    for column in ("units", *means):
        shown.add_column(column, justify="right")
    for i, size in enumerate(sizes):
        shown.add_row(f"{size:,}", *(f"{mean[i]:.4f}" for mean in means.values()))
    return shown


def _levels(levels: Sequence[dict[str, float | None]]) -> Table:
    shown = Table(title="units needed for the same regret (falling means)")
    for column in ("regret", "uniform", "active", "ratio"):
        shown.add_column(column, justify="right")
    for level in levels:
        shown.add_row(*("–" if value is None else f"{value:,g}" for value in level.values()))
    return shown


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--store", default=None, help="HETUNE_STORE or the user's store by default")
    line.add_argument("--machine", default=None, help="digest, where the store knows several")
    line.add_argument("--seeds", type=int, default=8)
    line.add_argument("--first", type=int, default=150, help="units at the first point")
    line.add_argument("--points", type=int, default=12)
    line.add_argument("--threads", type=int, default=2, help="to fit with")
    line.add_argument("--generated", dest="real", action="store_false",
                      help="hold out generated families even if there are real graphs")  # fmt: skip
    line.add_argument("--untied", dest="ties", action="store_false",
                      help="choose by predictions alone")  # fmt: skip
    line.add_argument("--out", type=Path, default=_RESULTS / "active.json")
    return line


if __name__ == "__main__":
    raise SystemExit(main())

"""A profiling campaign on a GPU, and how well a model of it chooses for graphs it has not seen.

Problems of the preset "gpu" are measured on drawn graphs, and on the benchmarks' own graphs, which
no model is trained on. Every problem's measurements lie in a file of their own: a machine with a
card need not have what trains models. `into_store` takes them where that is there.
"""

import gzip
import importlib.util
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _gpu_graphs import graph_named
from _gpu_units import Unit

from hetune.costmodel.fingerprint import Fingerprint, this_machine
from hetune.costmodel.version import code_version
from hetune.profiling.campaign.campaign import Campaign, units
from hetune.profiling.campaign.read import load
from hetune.profiling.corpus import build
from hetune.profiling.measure.bench import Bench, bench_of
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import measure_problem, units_of
from hetune.profiling.measure.record import Stamp
from hetune.profiling.measure.reference import Reference
from hetune.profiling.measure.stopwatch import WallStopwatch
from hetune.profiling.records import Measurement, Status
from hetune.profiling.units import GraphRecipe, ProblemSpec
from hetune.profiling.units import Unit as Measured
from hetune.profiling.wire import measurement_from_json, measurement_to_json
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.frontend.presets import preset_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.sides import run_on
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.registry.whole import write_whole
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.table import CandidateTable

NEEDED = ("xgboost", "sqlalchemy", "alembic")
"""What training needs beyond what measuring does."""
MACHINE = "machine.json"
HELD_OUT = "benchmark graphs"
"""Family of the graphs that no model is trained on."""
LAYERS = ("rgcn", "rgat", "hgt")


@dataclass(frozen=True)
class Profiling:
    """Makes the units.

    Attributes:
        folder: Where measurements go, a file for each problem.
        device: "cuda", or "cpu" under TRITON_INTERPRET=1.
        graphs: Names of those that are held out.
        width: Of the layers on them.
        preset: The campaign.
        keep: Which variants to measure, by id.
        limits: For problems on graphs that are held out.
    """

    folder: Path
    device: str
    graphs: Sequence[str]
    width: int = 64
    preset: str | Path = "gpu"
    keep: Callable[[str], bool] = lambda variant: True
    limits: Limits = field(default_factory=lambda: Limits(most_rounds=15, problem_seconds=20))

    def units(self) -> list[Unit]:
        """The campaign's problems, those on held-out graphs, and what a model makes of both."""
        campaign = load(self.preset, device="cuda")
        found = [
            Unit(
                _key("campaign", problem),
                lambda p=problem, m=members: self.measure(_key("campaign", p), p, m, campaign),
            )
            for problem, members in _by_problem(campaign).items()
        ]
        found += [
            Unit(key, lambda k=key, p=p: self.measure(k, p, units_of(p)))
            for key, p in self._held_out().items()
        ]
        return [*found, Unit("selection", self.selection)]

    def recount(self) -> int:
        """Counts anew what measured launches amount to, where what is counted has changed.

        Times stay as they are, and so does what does not count: hybrid plans that were measured by
        themselves on graphs of one side.

        Returns:
            How many files there were.

        Raises:
            ValueError: A graph is not the one that was measured.
        """
        drawn = _by_problem(load(self.preset, device="cuda"))
        known = {_key("campaign", problem): problem for problem in drawn} | self._held_out()
        there = {key: path for key in known if (path := self._path(key)).is_file()}
        for key, path in there.items():
            problem, found = known[key], read_measurements(path)
            graph = _graph(problem, self.device)
            if any(each.graph_fingerprint != graph.fingerprint for each in found):
                raise ValueError(f"{path}: another graph was measured; set HETUNE_DATA as then")
            variants, domain = _promoted(problem), Domain(graph)
            table = CandidateTable.of(variants, domain.side)
            columns, rows_on = table.columns(domain), table.rows_on(domain)
            ids = {each.variant for each in found}
            runs = run_on(variants, domain.side)
            pairs = zip(variants, runs, strict=True)
            apart = {v.id for v, run in pairs if run is not v and run.id in ids}
            write_measurements(
                path,
                [
                    _counted(m, columns[list(rows_on[table.place_of[m.variant]])])
                    if m.launches and m.variant not in apart
                    else m
                    for m in found
                ],
            )
        return len(there)

    def _held_out(self) -> dict[str, ProblemSpec]:
        problems = [
            _held_out(graph, layer, self.width) for graph in self.graphs for layer in LAYERS
        ]
        return {_key("held-out", problem): problem for problem in problems}

    def _path(self, key: str) -> Path:
        return self.folder / f"{key.replace('/', '~')}.jsonl.gz"

    def measure(
        self,
        key: str,
        problem: ProblemSpec,
        members: Sequence[Measured],
        campaign: Campaign | None = None,
    ) -> dict[str, Any]:
        """Measures a problem's variants, and keeps the measurements in a file."""
        graph = _graph(problem, self.device)
        wanted = {unit.variant for unit in members}
        variants = [v for v in _promoted(problem) if v.id in wanted and self.keep(v.id)]
        machine = this_machine()
        stamp = Stamp(campaign.name if campaign else key, machine.digest, code_version())
        found = measure_problem(
            problem,
            graph,
            variants,
            stamp,
            limits=campaign.limits if campaign else self.limits,
            bench=_bench(self.device),
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / MACHINE, json.dumps(machine.as_dict(), indent=1).encode(), 0o644)
        write_measurements(self._path(key), found)
        well = [each for each in found if each.status is Status.OK]
        best = min(well, key=lambda each: min(each.samples), default=None)
        losses = {each.variant: f"{each.status}: {each.error}" for each in found if each.error}
        return {
            "variants": len(found),
            "measured": len(well),
            "best": None if best is None else best.variant,
            "best_ms": None if best is None else round(min(best.samples) * 1e3, 4),
            "lost": losses,
        }

    def selection(self) -> dict[str, Any]:
        """Trains a model on the campaign, and judges its choices on the graphs held out."""
        absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if absent:
            why = f"{', '.join(absent)} not here: install hetune elsewhere, and judge there"
            return {"skipped": f"{why} (--judge {self.folder})"}
        return judged(self.folder)


def judged(folder: Path) -> dict[str, Any]:
    """What a model that is trained on a folder's campaign chooses for its held-out graphs.

    Raises:
        HetuneError: There is too little to train on.
    """
    from hetune.costmodel.calibration import load_calibration
    from hetune.costmodel.evaluate.report import judge
    from hetune.costmodel.model.cost_model import CostModel
    from hetune.profiling.store.problems import problems
    from hetune.profiling.store.store import Store
    from hetune.variants.runtime.gpu_roofline import GpuModel

    machine = _machine(folder)
    with (
        tempfile.TemporaryDirectory() as private,
        Store.open(Path(private) / "campaign.db") as store,
    ):
        into_store(folder, store)
        known = problems(store, machine.digest, device="cuda")
    training = [problem for problem in known if problem.family != HELD_OUT]
    seen = [problem for problem in known if problem.family == HELD_OUT]
    calibration = load_calibration(device="cuda")
    is_here = calibration is not None and calibration.fingerprint == machine.digest
    card = (calibration.measured or calibration.machine) if is_here else GpuModel()
    report = judge(
        training,
        seen,
        lambda members: CostModel.fit(members, card, machine),
        machine=card,
    )
    scores = {name: _score(score) for name, score in report.scores.items()}
    floor = round(report.noise_floor, 4)
    return {"trained_on": len(training), "judged_on": len(seen), "floor": floor, "scores": scores}


def into_store(folder: Path, store: Any) -> int:
    """Adds a folder's measurements to a store of profiling records; how many there are.

    Raises:
        HetuneError: The store cannot be written.
        ValueError: A file is damaged.
    """
    machine, count = _machine(folder), 0
    for path in sorted(folder.glob("*.jsonl.gz")):
        found = read_measurements(path)
        store.add(found, machine)
        count += len(found)
    return count


def read_measurements(path: Path) -> list[Measurement]:
    """What a file holds.

    Raises:
        ValueError: It is damaged.
    """
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return [measurement_from_json(json.loads(line)) for line in lines]


def write_measurements(path: Path, found: Sequence[Measurement]) -> None:
    """Writes a file, as a whole."""
    lines = "\n".join(json.dumps(measurement_to_json(each)) for each in found)
    write_whole(path, gzip.compress(lines.encode(), mtime=0), 0o644)


def selection_lines(held: Mapping[str, Any]) -> list[str]:
    """The regret of every chooser, as lines of text."""
    unit = held.get("selection", {})
    if "scores" not in unit:
        return []
    head = (
        f"selection on a GPU: trained on {unit['trained_on']} problems, judged on "
        f"{unit['judged_on']} of other graphs (floor {unit['floor']})"
    )
    return [
        head,
        *(
            f"  {name:<40}{score['regret']:>8.3f}{score['p95']:>8.3f}{score['worst']:>8.3f}"
            for name, score in sorted(unit["scores"].items(), key=lambda each: each[1]["regret"])
        ),
    ]


def _score(score: Any) -> dict[str, float]:
    return {
        "regret": round(score.regret, 4),
        "p95": round(score.regret_p95, 4),
        "worst": round(score.regret_max, 4),
    }


def _machine(folder: Path) -> Fingerprint:
    return Fingerprint.from_dict(json.loads((folder / MACHINE).read_text()))


def _counted(each: Measurement, columns: np.ndarray) -> Measurement:
    """A measurement with other numbers of what its launches amount to."""
    launches = zip(each.launches, columns.tolist(), strict=True)
    return replace(each, launches=tuple(replace(one, columns=tuple(row)) for one, row in launches))


def _by_problem(campaign: Campaign) -> dict[ProblemSpec, list[Measured]]:
    found: dict[ProblemSpec, list[Measured]] = {}
    for unit in units(campaign):
        found.setdefault(unit.problem, []).append(unit)
    return found


def _held_out(graph: str, layer: str, width: int) -> ProblemSpec:
    recipe = GraphRecipe(graph, HELD_OUT, "benchmark", (("name", graph),))
    return ProblemSpec(recipe, layer, width, width, 1, 1, device="cuda")


def _key(kind: str, problem: ProblemSpec) -> str:
    widths = f"{problem.d_in}x{problem.d_out}x{problem.heads}"
    return f"{kind}/{problem.graph.name}/{problem.layer}/{widths}"


def _graph(problem: ProblemSpec, device: str) -> HeteroGraph:
    if problem.graph.family == HELD_OUT:
        return graph_named(problem.graph.name, "cpu")
    return build(problem.graph)


@cache
def _promoted(problem: ProblemSpec) -> tuple[Variant, ...]:
    program = preset_program(problem.layer, problem.d_in, problem.d_out, problem.heads)
    return variants_of(program, "cuda")


@cache
def _bench(device: str) -> Bench:
    if device != "cpu":
        return bench_of("cuda")
    return Bench(TritonBackend(), WallStopwatch(), Reference(), device=torch.device("cpu"))

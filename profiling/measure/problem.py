"""All candidates of a problem, measured together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import nullcontext
from functools import lru_cache

import torch

from hetune.costmodel.features.graph import graph_features
from hetune.profiling.measure.bench import Bench, bench_of, torch_threads
from hetune.profiling.measure.candidate import CandidateRun
from hetune.profiling.measure.duplicates import Run, run_of
from hetune.profiling.measure.inputs import Inputs, random_inputs
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.oracle import Oracle
from hetune.profiling.measure.record import GraphFacts, Stamp, kernel_digest, record
from hetune.profiling.measure.rounds import WAITING, Rounds, take_rounds
from hetune.profiling.measure.stopwatch import TimedRun
from hetune.profiling.records import LaunchRecord, Measurement, Status
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.device import Device
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.plan_inputs import weights_of
from hetune.variants.runtime.table import CandidateTable

SETUP = WAITING
"""Stands for the steps in which no candidate runs, where the one that is at work is named."""

_NEAR = 1.2
"""Candidates at most this much slower than the fastest get more rounds."""

_HOPELESS = 5.0
"""Candidates more than this much slower than the fastest are given up where time is short."""


def promoted_for(problem: ProblemSpec) -> tuple[Variant, ...]:
    """The promoted variants of a problem's program, for its device, in a stable order."""
    return _promoted(problem.program.text, problem.device)


@lru_cache(maxsize=256)
def _promoted(text: str, device: Device) -> tuple[Variant, ...]:
    """By the text, whose hash is kept: campaigns ask for the same programs thousands of times."""
    return variants_of(LabeledProgram.parse(text).program, device)


def units_of(problem: ProblemSpec) -> tuple[Unit, ...]:
    """A unit for each promoted variant, in a stable order."""
    return tuple(Unit(problem, v.id, v.key) for v in promoted_for(problem))


def plan_ids(problem: ProblemSpec) -> Mapping[str, str]:
    """The id of the plan of each promoted variant, by the variant's id."""
    return _plan_ids(promoted_for(problem))


@lru_cache(maxsize=256)
def _plan_ids(variants: tuple[Variant, ...]) -> Mapping[str, str]:
    return {v.id: v.plan_id for v in variants}


def measure_problem(
    problem: ProblemSpec,
    graph: HeteroGraph,
    variants: Sequence[Variant],
    stamp: Stamp,
    *,
    limits: Limits | None = None,
    bench: Bench | None = None,
    seed: int = 0,
    beat: Callable[[str], None] = lambda variant: None,
) -> list[Measurement]:
    """Measures variants of a problem, interleaved.

    Kernels that are missing are compiled first, several at once. A variant whose output differs
    from the interpreter's, or that fails, is recorded as such. Of variants that run the same on
    the graph (`run_of`) the first is measured, for all of them.

    Args:
        problem: What to run.
        graph: What its recipe makes, on the CPU.
        variants: Promoted variants of the problem's program.
        stamp: For the records.
        limits: Rounds, seconds and bytes.
        bench: Where and how; by default that of the problem's device.
        seed: Of the inputs and the orders.
        beat: Called before each step with the id of the variant that it runs, or `SETUP`.

    Returns:
        A record for each variant, in their order.

    Raises:
        GraphError: The program needs a canonical graph, and was given another.
        VariantError, CompileError: The problem is one of GPUs, and there is none, or no Triton.
        CompileError, RegistryError: There is no compiler, or no place for what it makes.
        WorkerError: A variant has cost this process its GPU.
    """
    bench = bench or bench_of(problem.device)
    # Outputs of a GPU are compared with what all of the CPU's threads compute.
    threads = torch_threads(problem.threads) if problem.device == "cpu" else nullcontext()
    with threads, torch.no_grad():
        measuring = _Measuring(
            problem, graph, tuple(variants), limits or Limits(), bench, seed, beat
        )
        return measuring.run(stamp)


class _Measuring:
    def __init__(
        self,
        problem: ProblemSpec,
        graph: HeteroGraph,
        variants: tuple[Variant, ...],
        limits: Limits,
        bench: Bench,
        seed: int,
        beat: Callable[[str], None],
    ) -> None:
        beat(SETUP)
        self._problem, self._graph, self._variants = problem, graph, variants
        self._limits, self._bench, self._seed = limits, bench, seed
        self._program = problem.program.program
        # What is counted for records is the same wherever a problem runs.
        self._counted = Domain(graph)
        self._there = graph if bench.device is None else graph.to(bench.device)
        self._domain = Domain(self._there, bench.device)
        self._prepared: dict[int, float] = {}
        self._table = CandidateTable.of(promoted_for(problem), self._counted.side)
        self._columns = self._table.columns(self._counted)
        self._rows = self._table.rows_on(self._counted)
        self._preparation = self._table.preparation(self._counted)
        self._facts = graph_facts(graph)
        self._runs = [self._table.variants[self._table.place_of[v.id]] for v in variants]
        self._leads = self._first_runs()
        self._asked: dict[str, str] = {}
        for variant, lead in zip(variants, self._leads, strict=True):
            self._asked.setdefault(lead.id, variant.id)
        self._tell = beat

    def _beat(self, variant: str) -> None:
        """Names what was asked for, in place of what that runs."""
        self._tell(self._asked.get(variant, variant))

    def run(self, stamp: Stamp) -> list[Measurement]:
        needed = tuple(dict.fromkeys(self._runs))
        self._bench.compile(needed, lambda done, total, name: self._beat(SETUP))
        inputs = random_inputs(self._program, self._counted, self._seed)
        self._beat(SETUP)
        oracle = Oracle(self._program, self._graph, inputs, seed=self._seed)
        candidates = self._candidates(dict.fromkeys(self._leads), inputs)
        memory = self._limits.memory_bytes or self._bench.free_bytes()
        admitted = [c for c in candidates if self._admit(c, oracle, memory)]
        keep_affordable(admitted, self._limits)
        self._beat(SETUP)
        before = self._bench.clocks()
        taken = self._rounds([c for c in admitted if c.loss is None])
        self._beat(SETUP)
        after = self._bench.clocks()
        clocks = before + after if before and after else ()
        measured = {c.variant.id: c for c in candidates}
        return [
            self._record(variant, run, measured[lead.id], taken, clocks, stamp)
            for variant, run, lead in zip(self._variants, self._runs, self._leads, strict=True)
        ]

    def _first_runs(self) -> list[Variant]:
        """For each variant the one that is measured: the first that runs the same."""
        first: dict[Run, Variant] = {}
        found = []
        for variant in self._runs:
            counts = (columns for _, columns in self._counts(variant))
            run = run_of(variant.choices, self._problem.device, counts)
            found.append(first.setdefault(run, variant))
        return found

    def _counts(self, variant: Variant) -> list[tuple[int, tuple[float, ...]]]:
        """The rows and columns of the launches that it runs."""
        rows = self._rows[self._table.place_of[variant.id]]
        return [(row, tuple(self._columns[row].tolist())) for row in rows]

    def _candidates(self, variants: Iterable[Variant], inputs: Inputs) -> list[CandidateRun]:
        features = self._moved(inputs.features)
        weights: dict[int, dict[str, torch.Tensor]] = {}
        found = []
        for variant in variants:
            self._beat(SETUP)
            plan = variant.plan
            if id(plan) not in weights:
                made = weights_of(plan, inputs.weights, self._graph)
                weights[id(plan)] = self._moved(made)
            found.append(
                CandidateRun(
                    variant,
                    lambda variant=variant: self._bind(variant, self._domain),  # type: ignore[misc]
                    features,
                    weights[id(plan)],
                    self._limits,
                    self._bench,
                )
            )
        return found

    def _bind(self, variant: Variant, domain: Domain) -> Executable:
        return Executable(variant.plan, domain, self._bench.backend, variant.schedules)

    def _moved(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: tensor.to(self._there.device) for name, tensor in tensors.items()}

    def _admit(self, candidate: CandidateRun, oracle: Oracle, memory: int) -> bool:
        plan = id(candidate.variant.plan)
        self._beat(candidate.variant.id)
        if candidate.admit(oracle, memory) and plan not in self._prepared:
            self._beat(candidate.variant.id)
            try:
                self._prepared[plan] = self._prepare(candidate.variant)
            except Exception as error:  # whatever a variant raises is its result
                candidate.fail(error)
        return candidate.loss is None

    def _prepare(self, variant: Variant) -> float:
        graph = self._there.unindexed()
        domain = Domain(graph, self._bench.device)
        _, sample = self._bench.watch.time(lambda mark: self._bind(variant, domain))
        return sample.seconds

    def _rounds(self, candidates: list[CandidateRun]) -> Rounds[TimedRun]:
        limits, yardstick = self._limits, self._bench.yardstick
        if not candidates:
            return Rounds({}, {}, 0)
        by_name = {c.variant.id: c for c in candidates}
        spare = min(c.samples_left for c in candidates) - limits.rounds
        first = take_rounds(
            {name: c.sample for name, c in by_name.items()},
            limits.rounds,
            seed=self._seed,
            yardstick=yardstick,
            repeats=min(limits.repeats, spare),
            progress=self._beat,
        )
        medians = {
            name: statistics.median(sample.seconds for sample in samples)
            for name, samples in first.samples.items()
        }
        near = {n: s for n, s in medians.items() if s <= _NEAR * min(medians.values())}
        left = limits.problem_seconds - sum(limits.rounds * s for s in medians.values())
        more = min(limits.most_rounds - limits.rounds, int(left / max(sum(near.values()), 1e-9)))
        spare = min((by_name[name].samples_left for name in near), default=0)
        more = min(more, spare)
        if len(near) < 2 or more < 1:
            return first
        second = take_rounds(
            {name: by_name[name].sample_more for name in near},
            more,
            seed=self._seed + 1,
            yardstick=yardstick,
            repeats=min(limits.repeats - first.repeated, spare - more),
            progress=self._beat,
        )
        return _joined(first, second, dropped={name for name in near if by_name[name].loss})

    def _record(
        self,
        variant: Variant,
        run: Variant,
        measured: CandidateRun,
        taken: Rounds[TimedRun],
        clocks: tuple[float, ...],
        stamp: Stamp,
    ) -> Measurement:
        """Under the id of what was asked for, what that runs."""
        position, name = self._table.place_of[run.id], measured.variant.id
        samples = taken.samples.get(name, ())
        launches = tuple(
            LaunchRecord(
                kernel=kernel_digest(*self._table.launches[row]),
                family=self._table.families[row],
                columns=counts,
                samples=tuple(sample.launches[step] for sample in samples),
            )
            for step, (row, counts) in enumerate(self._counts(run))
        )
        return record(
            Unit(self._problem, variant.id, variant.key),
            stamp,
            self._facts,
            measured.loss,
            samples=tuple(sample.seconds for sample in samples),
            launches=launches,
            prepare_seconds=self._prepared.get(id(run.plan), 0.0),
            preparation=tuple(self._preparation[position].tolist()),
            relative_error=measured.relative_error,
            peak_bytes=measured.peak_bytes,
            drift=taken.drift.get(name, 0.0),
            clocks=clocks,
        )


def graph_facts(graph: HeteroGraph) -> GraphFacts:
    """What records say of a graph."""
    return GraphFacts(graph.fingerprint, tuple(graph_features(graph).tolist()))


def keep_affordable(candidates: Iterable[CandidateRun], limits: Limits) -> None:
    """Gives up the slowest candidates until the rounds fit into the problem's seconds.

    Only those that are more than five times slower than the fastest are given up.
    """
    slowest_first = sorted(candidates, key=lambda c: -c.run_seconds)
    total = limits.rounds * sum(c.run_seconds for c in slowest_first)
    for candidate in slowest_first:
        slower = candidate.run_seconds / max(slowest_first[-1].run_seconds, 1e-9)
        if total <= limits.problem_seconds or slower <= _HOPELESS:
            return
        total -= limits.rounds * candidate.run_seconds
        candidate.give_up(
            Status.TIMEOUT,
            f"a run takes {candidate.run_seconds:.2g} s, {slower:.1f} times the fastest one's: "
            f"{limits.rounds} rounds of all do not fit into {limits.problem_seconds:g} s",
        )


def _joined(
    first: Rounds[TimedRun], second: Rounds[TimedRun], dropped: Set[str]
) -> Rounds[TimedRun]:
    left = [name for name in first.samples if name not in dropped]
    return Rounds(
        {name: first.samples[name] + second.samples.get(name, ()) for name in left},
        {name: max(first.drift[name], second.drift.get(name, 0.0)) for name in left},
        first.repeated + second.repeated,
    )

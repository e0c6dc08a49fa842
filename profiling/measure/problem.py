"""All candidates of a problem, measured together."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager

import torch

from hetune.costmodel.features.graph import graph_features
from hetune.profiling.measure.candidate import Candidate, Sample, loss_of
from hetune.profiling.measure.inputs import Inputs, random_inputs
from hetune.profiling.measure.limits import Limits, usable_memory
from hetune.profiling.measure.oracle import Oracle
from hetune.profiling.measure.record import GraphFacts, Stamp, Times, kernel_digest, record
from hetune.profiling.measure.reference import Reference
from hetune.profiling.measure.rounds import Rounds, Yardstick, take_rounds
from hetune.profiling.records import LaunchRecord, Measurement, Status
from hetune.profiling.units import ProblemSpec, Unit
from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index_primitives import primitives
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.program.nodes import Program
from hetune.variants.runtime.build import layer_program, sources_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.given import weights_of
from hetune.variants.runtime.table import CandidateTable

SETUP = ""
"""Stands for the steps before candidates run, where the one that is at work is named."""

_NEAR = 1.2
"""Candidates at most this much slower than the fastest get more rounds."""

_HOPELESS = 5.0
"""Candidates more than this much slower than the fastest are given up where time is short."""


def program_of(problem: ProblemSpec) -> Program:
    """The program that a problem runs.

    Raises:
        InputError: There is no such layer, or a width does not divide into the heads.
    """
    return layer_program(problem.layer, problem.d_in, problem.d_out, problem.heads)


def units_of(problem: ProblemSpec) -> tuple[Unit, ...]:
    """A unit for each promoted variant, in a stable order.

    Raises:
        InputError: There is no such layer, or a width does not divide into the heads.
    """
    return tuple(Unit(problem, v.id, v.key) for v in variants_of(program_of(problem)))


def measure_problem(
    problem: ProblemSpec,
    graph: HeteroGraph,
    variants: Sequence[Variant],
    stamp: Stamp,
    *,
    limits: Limits | None = None,
    yardstick: Yardstick | None = None,
    backend: Backend | None = None,
    seed: int = 0,
    beat: Callable[[str], None] = lambda variant: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Measurement]:
    """Measures variants of a problem, interleaved.

    Kernels that are missing are compiled first, several at once. A variant whose output differs
    from the interpreter's, or that fails, is recorded as such.

    Args:
        problem: What to run.
        graph: What its recipe makes; canonical for HGT.
        variants: Promoted variants of the problem's program.
        stamp: For the records.
        limits: Rounds, seconds and bytes.
        yardstick: Tells drift of the machine; a new `Reference` if None.
        backend: C++ by default.
        seed: Of the inputs and the orders.
        beat: Called before each step with the id of the variant that it runs, or `SETUP`.
        clock: Seconds.

    Returns:
        A record for each variant, in their order.

    Raises:
        GraphError: HGT was given a graph that is not canonical.
    """
    with _threads(problem.threads), torch.no_grad():
        measuring = _Measuring(
            problem, graph, tuple(variants), limits or Limits(), backend or CppBackend(), seed, beat
        )
        return measuring.run(stamp, yardstick or Reference(), clock)


class _Measuring:
    def __init__(
        self,
        problem: ProblemSpec,
        graph: HeteroGraph,
        variants: tuple[Variant, ...],
        limits: Limits,
        backend: Backend,
        seed: int,
        beat: Callable[[str], None],
    ) -> None:
        beat(SETUP)
        self._problem, self._graph, self._variants = problem, graph, variants
        self._limits, self._backend, self._seed, self._beat = limits, backend, seed, beat
        self._program = program_of(problem)
        self._domain = Domain(graph)
        self._prepared: dict[int, float] = {}

    def run(
        self, stamp: Stamp, yardstick: Yardstick, clock: Callable[[], float]
    ) -> list[Measurement]:
        self._compile()
        inputs = random_inputs(self._program, self._domain, self._seed)
        self._beat(SETUP)
        oracle = Oracle(self._program, self._graph, inputs, seed=self._seed)
        candidates = self._candidates(inputs, clock)
        memory = self._limits.memory_bytes or usable_memory()
        admitted = [c for c in candidates if self._admit(c, oracle, memory, clock)]
        keep_affordable(admitted, self._limits)
        taken = self._rounds([c for c in admitted if c.loss is None], yardstick)
        self._beat(SETUP)
        return self._records(candidates, taken, stamp)

    def _compile(self) -> None:
        primitives()
        if isinstance(self._backend, CppBackend):
            # One that does not compile is the loss of those that need it.
            self._backend.registry.build(
                sources_of(self._variants, self._backend),
                progress=lambda done, total, name: self._beat(SETUP),
            )

    def _candidates(self, inputs: Inputs, clock: Callable[[], float]) -> list[Candidate]:
        weights: dict[int, dict[str, torch.Tensor]] = {}
        found = []
        for variant in self._variants:
            self._beat(SETUP)
            plan = variant.plan
            if id(plan) not in weights:
                weights[id(plan)] = weights_of(plan, inputs.weights, self._graph)
            found.append(
                Candidate(
                    variant,
                    lambda variant=variant: self._bind(variant, self._domain),  # type: ignore[misc]
                    inputs.features,
                    weights[id(plan)],
                    self._limits,
                    clock,
                )
            )
        return found

    def _bind(self, variant: Variant, domain: Domain) -> Executable:
        return Executable(variant.plan, domain, self._backend, variant.schedules)

    def _admit(
        self, candidate: Candidate, oracle: Oracle, memory: int, clock: Callable[[], float]
    ) -> bool:
        plan = id(candidate.variant.plan)
        self._beat(candidate.variant.id)
        if candidate.admit(oracle, memory) and plan not in self._prepared:
            self._beat(candidate.variant.id)
            try:
                self._prepared[plan] = self._prepare(candidate.variant, clock)
            except Exception as error:  # whatever a variant raises is its result
                candidate.loss = loss_of(error)
        return candidate.loss is None

    def _prepare(self, variant: Variant, clock: Callable[[], float]) -> float:
        graph = self._graph.unindexed()
        start = clock()
        self._bind(variant, Domain(graph))
        return clock() - start

    def _rounds(self, candidates: list[Candidate], yardstick: Yardstick) -> Rounds[Sample]:
        limits = self._limits
        samplers = {c.variant.id: c.sample for c in candidates}
        if not samplers:
            return Rounds({}, {}, 0)
        first = take_rounds(
            samplers,
            limits.rounds,
            seed=self._seed,
            yardstick=yardstick,
            repeats=limits.repeats,
            progress=self._beat,
        )
        medians = {
            name: statistics.median(sample.seconds for sample in samples)
            for name, samples in first.samples.items()
        }
        near = {n: s for n, s in medians.items() if s <= _NEAR * min(medians.values())}
        left = limits.problem_seconds - sum(limits.rounds * s for s in medians.values())
        more = min(limits.most_rounds - limits.rounds, int(left / max(sum(near.values()), 1e-9)))
        if len(near) < 2 or more < 1:
            return first
        second = take_rounds(
            {name: samplers[name] for name in near},
            more,
            seed=self._seed + 1,
            yardstick=yardstick,
            repeats=max(0, limits.repeats - first.repeated),
            progress=self._beat,
        )
        return _joined(first, second, dropped=near.keys() - second.samples.keys())

    def _records(
        self, candidates: list[Candidate], taken: Rounds[Sample], stamp: Stamp
    ) -> list[Measurement]:
        promoted = variants_of(self._program)
        table = CandidateTable.of(promoted)
        columns, preparation = table.columns(self._domain), table.preparation(self._domain)
        place = {variant.id: position for position, variant in enumerate(promoted)}
        facts = graph_facts(self._graph)
        found = []
        for candidate in candidates:
            variant = candidate.variant
            position = place[variant.id]
            samples = taken.samples.get(variant.id, ())
            launches = tuple(
                LaunchRecord(
                    kernel=kernel_digest(*table.launches[row]),
                    family=table.families[row],
                    columns=tuple(columns[row].tolist()),
                    samples=tuple(sample.launches[step] for sample in samples),
                )
                for step, row in enumerate(table.rows_of[position])
            )
            times = Times(
                samples=tuple(sample.seconds for sample in samples),
                launches=launches,
                prepare_seconds=self._prepared.get(id(variant.plan), 0.0),
                preparation=tuple(preparation[position].tolist()),
                relative_error=candidate.relative_error,
                peak_bytes=candidate.peak_bytes,
                drift=taken.drift.get(variant.id, 0.0),
            )
            unit = Unit(self._problem, variant.id, variant.key)
            found.append(record(unit, stamp, facts, times, candidate.loss))
        return found


def graph_facts(graph: HeteroGraph) -> GraphFacts:
    """What records say of a graph."""
    return GraphFacts(graph.fingerprint, tuple(graph_features(graph).tolist()))


def keep_affordable(candidates: Iterable[Candidate], limits: Limits) -> None:
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


def _joined(first: Rounds[Sample], second: Rounds[Sample], dropped: Set[str]) -> Rounds[Sample]:
    left = [name for name in first.samples if name not in dropped]
    return Rounds(
        {name: first.samples[name] + second.samples.get(name, ()) for name in left},
        {name: max(first.drift[name], second.drift.get(name, 0.0)) for name in left},
        first.repeated + second.repeated,
    )


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""From measurements to what cost models are fitted to: samples become one time each."""

from __future__ import annotations

import functools
import logging
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from hetune.costmodel.evaluate.report import MEASUREMENTS
from hetune.costmodel.features.graph import side
from hetune.costmodel.problems import CandidateSample, LaunchSample, Problem
from hetune.profiling.measure.duplicates import Run, run_of
from hetune.profiling.records import PROTOCOLS, Measurement, Status
from hetune.profiling.store.store import ALL, Store, named
from hetune.profiling.store.summary import TIME, quantile, standard_error
from hetune.variants.kernel.device import Device
from hetune.variants.plan.choices import Choices, Side
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.labeled import LabeledProgram

MOST_DRIFT = 0.5
"""Share by which the reference kernel's time moved: what is measured meanwhile tells nothing."""

_NAMED = 5
_AGAIN = (
    "to measure them again when it is idle, remove those of the campaign (`hetune store prune`) "
    "and profile anew"
)

_log = logging.getLogger(__name__)
_Groups = Mapping[tuple[object, ...], list[Measurement]]


@dataclass(frozen=True, slots=True)
class Selection:
    """What counts of a store's measurements.

    Attributes:
        problems: Sorted by graph, label and program.
        remarks: What does not count, or counts in spite of something, and why: a sentence each.
    """

    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]

    @property
    def reasons(self) -> str:
        """The remarks, each in parentheses, for a message that nothing is left."""
        return "".join(f" ({remark})" for remark in self.remarks)

    @property
    def about(self) -> dict[str, str]:
        """The remarks as a fact of a report; empty if there are none."""
        return {MEASUREMENTS: "; ".join(self.remarks)} if self.remarks else {}


def problems(
    store: Store,
    machine: str | None = None,
    *,
    device: Device = "cpu",
    programs: Collection[LabeledProgram] = (),
    share: float = TIME,
) -> tuple[Problem, ...]:
    """The problems of `select`, whose remarks go to the log."""
    found = select(store, machine, device=device, programs=programs, share=share)
    for remark in found.remarks:
        _log.warning("%s: %s", store.place, remark)
    return found.problems


def select(
    store: Store,
    machine: str | None = None,
    *,
    device: Device = "cpu",
    programs: Collection[LabeledProgram] = (),
    share: float = TIME,
    least_families: int = 1,
) -> Selection:
    """What a store knows of the inputs of the selector.

    Only measurements that ended well count, and only those of one device and one protocol: times
    of different ones are not compared. What models cannot learn from, a time of 0 seconds or a
    variant without launches, is left out. So are problems that were measured while the machine did
    something else (half of their variants with more than `MOST_DRIFT`), unless too little is left
    without them: less than half of the problems, or fewer graph families than are needed.
    Graphs are told apart by family and content, not by name. Where a variant was measured more than
    once on a problem (its code has changed in between), the newest time counts; so does the newest
    reading of a graph's features.

    Args:
        store: Where the measurements are.
        machine: As in `Store.measurements`; with `ALL`, each machine has problems of its own.
        device: What variants are for: ``"cpu"`` or ``"cuda"``.
        programs: Those that count though they have a single plan, as kernels alone have: these are
            no inputs of the selector.
        share: The quantile of its samples that is a time.
        least_families: How many graph families are needed.

    Raises:
        StoreError: As `Store.measurements`.
    """
    protocol = PROTOCOLS[device]
    remarks = []
    groups: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    others = 0
    counts = dict.fromkeys(programs, True)
    for found in store.measurements(machine, status=Status.OK, device=device):
        if found.program not in counts:
            plans = {choices.plan for choices in _choices(found.program, device).values()}
            counts[found.program] = len(plans) > 1
        if not counts[found.program]:
            continue
        if found.protocol == protocol:
            groups[_input(found)].append(found)
        else:
            others += 1
    if others:
        remarks.append(
            f"{others} measurements do not count, for they were taken by another protocol than "
            f"{protocol}: measure again"
        )
    if not groups:
        remarks += _other_machines(store, machine)
    counting, remark = _steady(groups, least_families)
    remarks += remark
    grouped = [_problem(members, share) for members in counting.values()]
    usable = [replace(p, candidates=tuple(filter(_is_usable, p.candidates))) for p in grouped]
    left_out = sum(len(p.candidates) for p in grouped) - sum(len(p.candidates) for p in usable)
    if left_out:
        remarks.append(
            f"{left_out} measurements hold a time of 0 seconds, or no launches, and do not count"
        )
    kept = sorted((p for p in usable if p.candidates), key=_order)
    return Selection(tuple(kept), tuple(remarks))


def _other_machines(store: Store, machine: str | None) -> list[str]:
    """What to name in place of a machine that a store does not know."""
    known = store.machines()
    if machine in (None, ALL) or not known or machine in {one.digest for one in known}:
        return []
    return [f"none are of the machine {machine!r}: name one of {named(known)}, or {ALL!r}"]


def _steady(groups: _Groups, least_families: int) -> tuple[_Groups, list[str]]:
    """Groups that were measured on a steady machine, or all; and what to say of the others."""
    calm = {
        of: members
        for of, members in groups.items()
        if statistics.median(member.drift for member in members) <= MOST_DRIFT
    }
    unsteady = groups.keys() - calm.keys()
    if not unsteady:
        return groups, []
    families = {members[0].family for members in calm.values()}
    enough = 2 * len(calm) >= len(groups) and len(families) >= least_families
    of = sorted({groups[key][0].family for key in unsteady})
    others = f", and {len(of) - _NAMED} more" if len(of) > _NAMED else ""
    what = (
        f"{len(unsteady)} of {len(groups)} problems (graph families {', '.join(of[:_NAMED])}"
        f"{others}) were measured while the machine was doing something else"
    )
    if enough:
        return calm, [f"{what} and do not count: {_AGAIN}"]
    return groups, [
        f"{what} and count all the same, for too little would be left without them: {_AGAIN}"
    ]


def _input(measurement: Measurement) -> tuple[object, ...]:
    return (
        measurement.machine,
        measurement.family,
        measurement.graph_fingerprint,
        measurement.program.digest,
        measurement.threads,
    )


def _problem(members: list[Measurement], share: float) -> Problem:
    members = sorted(members, key=lambda member: member.measured_at)  # some are imported later
    first, newest = members[0], members[-1]
    known = _choices(first.program, first.device)
    newest_of = {member.variant: member for member in members}
    as_run = _as_run(newest_of, known, side(newest.graph_features))
    candidates = {member.variant: _candidate(member, share) for member in _pooled(as_run, known)}
    return Problem(
        graph=first.graph,
        family=first.family,
        graph_features=newest.graph_features,
        program=first.program,
        threads=first.threads,
        machine=first.machine,
        candidates=tuple(candidates[variant] for variant in sorted(candidates)),
        device=first.device,
        graph_fingerprint=first.graph_fingerprint,
    )


@functools.lru_cache(maxsize=1024)
def _choices(program: LabeledProgram, device: Device) -> Mapping[str, Choices]:
    """What the promoted variants of a program are, by id."""
    return {variant.id: variant.choices for variant in variants_of(program.program, device)}


def _as_run(
    newest_of: Mapping[str, Measurement], known: Mapping[str, Choices], on: Side
) -> Iterator[Measurement]:
    """What variants run on a graph of a side, under their own ids.

    A hybrid plan that was measured where it now runs that of one side has that one's times.
    """
    for variant, measured in newest_of.items():
        runs = known[variant].on(on).id if variant in known else variant
        yield replace(newest_of.get(runs, measured), variant=variant)


def _pooled(members: Iterable[Measurement], known: Mapping[str, Choices]) -> list[Measurement]:
    """Measurements in which variants that are one have the samples of all of them."""
    by_run: dict[Run, list[Measurement]] = defaultdict(list)
    for member in members:
        counts = (launch.columns for launch in member.launches)
        variant = known.get(member.variant, member.variant)
        by_run[run_of(variant, member.device, counts)].append(member)
    return [member for same in by_run.values() for member in _sharing(same)]


def _sharing(same: list[Measurement]) -> Iterator[Measurement]:
    """Measurements of one run, each with all of their samples.

    Variants that were measured together have the same samples already, which count once.
    """
    distinct = {member.samples: member for member in same}.values()
    samples = tuple(sample for member in distinct for sample in member.samples)
    by_launch = [
        tuple(sample for launch in launches for sample in launch.samples)
        for launches in zip(*(member.launches for member in distinct), strict=True)
    ]
    for member in same:
        launches = zip(member.launches, by_launch, strict=True)
        shared = tuple(replace(launch, samples=taken) for launch, taken in launches)
        yield replace(member, samples=samples, launches=shared)


def _candidate(measurement: Measurement, share: float) -> CandidateSample:
    samples = measurement.samples
    return CandidateSample(
        measurement.variant,
        quantile(samples, share),
        quantile(samples, 0.75) - quantile(samples, 0.25),
        tuple(
            LaunchSample(launch.family, launch.columns, quantile(launch.samples, share))
            for launch in measurement.launches
        ),
        measurement.prepare_seconds,
        measurement.preparation,
        standard_error(samples, share),
    )


def _is_usable(candidate: CandidateSample) -> bool:
    """Whether models can learn from it: they take logarithms of times, and sum up launches."""
    times = [launch.seconds for launch in candidate.launches]
    return bool(times) and min(candidate.seconds, *times) > 0


def _order(problem: Problem) -> tuple[str | int, ...]:
    return (
        *(problem.machine, problem.family, problem.graph, problem.program.label),
        *(problem.program.digest, problem.threads, problem.graph_fingerprint),
    )

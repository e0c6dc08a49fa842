"""What a campaign asks for, and the problems that this comes to."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product, zip_longest

import numpy as np

from hetune.profiling.campaign.estimate import affordable_variants, least_variants
from hetune.profiling.campaign.workloads import Workload, gradient_stages
from hetune.profiling.corpus import size_of
from hetune.profiling.corpus.draw import generator
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import plan_ids, units_of
from hetune.profiling.units import GraphRecipe, ProblemSpec, Unit
from hetune.variants.errors import CampaignError
from hetune.variants.kernel.device import Device
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.program.nodes import Softmax, Space

_NONE_MATCHES = (
    "no variant of its programs has an id that matches {!r}: take another pattern, such as "
    "'hybrid*'; `hetune variants` shows ids"
)
_NONE_AFFORDED = (
    "all problems should take too long: give its sample more most_seconds, or its limits more "
    "unit_seconds; or take smaller graphs or widths"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Which combinations of program and threads each graph gets, if not all.

    Attributes:
        per_graph: How many. Programs of different labels take turns; those without types are of
            three kinds in place of labels: gradients of weights, attention, and sums. What stands
            twice in a list of the campaign is drawn twice as often.
        most_seconds: A problem that should take longer to measure gets some of its variants
            only, drawn by chance but all plans alike; it is not drawn at all if there is no time
            for half of the plans, each in one of its schedules. Of GPUs nothing is foretold.
        seed: Where chance starts.

    Raises:
        CampaignError: A number is too small.
    """

    per_graph: int
    most_seconds: float = math.inf
    seed: int = 0

    def __post_init__(self) -> None:
        if self.per_graph < 1 or not self.most_seconds > 0 or self.seed < 0:
            raise CampaignError(
                f"per_graph={self.per_graph}, most_seconds={self.most_seconds:g} and "
                f"seed={self.seed}: take 1 or more problems, more than 0 seconds, and a seed of 0 "
                "or more"
            )


@dataclass(frozen=True, slots=True)
class Campaign:
    """Graphs by programs by threads.

    Attributes:
        name: For the records.
        graphs: What to run on.
        programs: What to run. A name of one's own is the label of a program:
            ``LabeledProgram.of(program, "mine")``.
        threads: Numbers of threads.
        variants: A pattern, as of file names: only variants whose ids match are measured.
        sample: Draws some combinations for each graph; None for all.
        limits: What measuring may cost.
        device: What variants are for: "cpu", or "cuda" with one thread for all problems.
        gradients: Programs whose gradients are run, too, stage by stage.
    """

    name: str
    graphs: tuple[GraphRecipe, ...]
    programs: tuple[LabeledProgram, ...]
    threads: tuple[int, ...]
    variants: str = "*"
    sample: Sample | None = None
    limits: Limits = Limits()  # noqa: RUF009  frozen
    device: Device = "cpu"
    gradients: tuple[LabeledProgram, ...] = ()


def problems(campaign: Campaign) -> tuple[ProblemSpec, ...]:
    """All problems of a campaign, well mixed: equal campaigns give them in the same order.

    Every graph has its first problem before any has its second, so that a campaign which is
    interrupted has seen all kinds.

    Raises:
        CampaignError: Gradients are asked for of a program that has none.
        GraphError: The campaign draws samples by cost, and a file cannot be read.
    """
    rng = generator("campaign", campaign.sample.seed if campaign.sample else 0)
    order = rng.permutation(len(campaign.graphs))
    workloads = [Workload.of(program) for program in campaign.programs]
    workloads += [stage for program in campaign.gradients for stage in gradient_stages(program)]
    rows = [_of_graph(campaign, workloads, campaign.graphs[place], rng) for place in order]
    mixed = [problem for turn in zip_longest(*rows) for problem in turn if problem]
    return tuple(dict.fromkeys(mixed))


def units(campaign: Campaign) -> tuple[Unit, ...]:
    """The units of a campaign's problems, in order.

    Raises:
        CampaignError: There are none: no variant matches the pattern, or nothing can be afforded.
        GraphError: As for `problems`.
    """
    return tuple(each_unit(campaign))


def each_unit(campaign: Campaign) -> Iterator[Unit]:
    """Those of `units`, one after the other: a hundred thousand at once keep the collector busy.

    Raises:
        CampaignError: There are none: no variant matches the pattern, or nothing can be afforded.
        GraphError: As for `problems`.
    """
    sample, inputs, found = campaign.sample, problems(campaign), False
    rng = generator("variants", sample.seed if sample else 0)
    size_of_graph = functools.cache(size_of)  # which reads files
    for problem in inputs:
        members = [u for u in units_of(problem) if fnmatchcase(u.variant, campaign.variants)]
        if sample is not None:
            size = size_of_graph(problem.graph)
            room = affordable_variants(problem, size, campaign.limits, sample.most_seconds)
            members = _some(members, plan_ids(problem), room, rng)
        found = found or bool(members)
        yield from members
    if not found:
        raise CampaignError(
            f"the campaign {campaign.name!r} has nothing to measure: "
            + (_NONE_MATCHES.format(campaign.variants) if inputs else _NONE_AFFORDED)
        )


def _some(
    units: list[Unit], plans: Mapping[str, str], count: int, rng: np.random.Generator
) -> list[Unit]:
    """So many units of a problem, by chance, in their order; no plan has two more than another."""
    if len(units) <= count:
        return units
    turns: Counter[str] = Counter()
    chances = []
    for place in rng.permutation(len(units)).tolist():
        plan = plans[units[place].variant]
        chances.append((turns[plan], place))
        turns[plan] += 1
    # The sort is stable: within a turn the order stays one of chance.
    chosen = sorted(chances, key=lambda chance: chance[0])[:count]
    return [units[place] for place in sorted(place for _, place in chosen)]


def _of_graph(
    campaign: Campaign,
    workloads: Sequence[Workload],
    graph: GraphRecipe,
    rng: np.random.Generator,
) -> list[ProblemSpec]:
    """A graph's problems in an order by chance: all of them, or so many that it can afford."""
    device = campaign.device
    pool = list(product(workloads, campaign.threads if device == "cpu" else (1,)))
    shuffled = dict.fromkeys(pool[place] for place in rng.permutation(len(pool)))
    found = [each.on(graph, threads, device) for each, threads in shuffled]
    sample = campaign.sample
    if sample is None:
        return found
    size = size_of(graph)
    by_turn: dict[str, list[ProblemSpec]] = {}
    for problem in found:
        room = affordable_variants(problem, size, campaign.limits, sample.most_seconds)
        if room >= least_variants(problem):
            by_turn.setdefault(_turn(problem.program), []).append(problem)
    in_turns = zip_longest(*by_turn.values())
    return [problem for turn in in_turns for problem in turn if problem][: sample.per_graph]


def _turn(program: LabeledProgram) -> str:
    """Programs that take turns with others: those that know no types are of three kinds."""
    if any(param.type.space in (Space.ETYPE, Space.NTYPE) for param in program.program.params):
        return program.label
    types = program.program.types
    if any(types[name].space.is_weight for name in program.program.results):
        return "gradient"
    lets = program.program.lets
    return "attention" if any(isinstance(let.op, Softmax) for let in lets) else "sum"

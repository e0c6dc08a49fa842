"""Campaigns that somebody sent: no file is read for them, and they are bounded before they grow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hetune.profiling import campaign as campaigns
from hetune.profiling.campaign import Campaign
from hetune.profiling.corpus import size_of, whole
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.formats.safe_names import check_plain
from hetune.service.core.models.program_limits import check_program
from hetune.variants.errors import CampaignError, MalformedError
from hetune.variants.frontend.presets import HOMOGENEOUS, LAYERS, MOST_WIDTH
from hetune.variants.graph.threads import MOST_THREADS

MOST_GRAPHS = 1_000
MOST_PROBLEMS = 10_000
_MOST_ENTRIES = 1_000
_MOST_COMBINATIONS = 1_000_000
_MOST_PROGRAMS = 500
_STAGES = 3
"""Of a layer's gradient, at most."""
_MOST_ROUNDS = 1_000
MOST_SECONDS = 3_600
_MOST_TEXT = 200
_MOST_RECIPE = 4_000
_WHERE = "the campaign"


def campaign_of(asked: str | Mapping[str, object], limits: ServiceLimits) -> Campaign:
    """The campaign that a request asks for.

    Args:
        asked: A preset's name, or what a campaign's file holds.
        limits: `nodes` and `edges` bound its graphs, `run_bytes` its memory.

    Raises:
        CampaignError: There is no such preset, or the campaign is described wrongly, or it wants
            graphs of files: no request names a path.
        InputError: Its name, or one of a graph or of its family, holds a control character.
        TooLargeError: It is over a limit.
        MalformedError: It is nested too deeply, or a number of it is too large for any field.
    """
    if isinstance(asked, str):
        if asked not in campaigns.PRESETS:
            raise CampaignError(
                f"no preset {asked[:_MOST_TEXT]!r}: take one of {', '.join(campaigns.PRESETS)}, or "
                "give a campaign"
            )
        return campaigns.load(asked)
    _check_counts(asked)
    try:
        found = campaigns.parse(dict(asked), _WHERE, folder=None, name="submitted")
    except (OverflowError, RecursionError) as error:
        raise MalformedError(f"{_WHERE} cannot be read ({error}): take less of it") from None
    _check_combinations(found)
    for program in (*found.programs, *found.gradients):
        check_program(program.program)
    _check_graphs(found, limits)
    _check_cost(found, limits)
    check_plain("campaign", (found.name,))
    check_plain("graph", (text for graph in found.graphs for text in (graph.name, graph.family)))
    return found


def _check_counts(asked: Mapping[str, object]) -> None:
    """Before any is drawn, made, or looked at with all others."""
    threads = asked.get("threads")
    given = threads if isinstance(threads, list) else [threads]
    numbers = [count for count in given if isinstance(count, int)]
    check_limit("threads", max(numbers, default=0), MOST_THREADS)
    inner = (asked.get(key) for key in ("homogeneous", "scores", "gradients"))
    for table in (asked, *(each for each in inner if isinstance(each, dict))):
        _check_programs(table)
    corpus, graphs = asked.get("corpus"), asked.get("graphs")
    drawn = corpus.get("graphs") if isinstance(corpus, dict) else None
    count = drawn if isinstance(drawn, int) else 0
    count += len(graphs) if isinstance(graphs, list) else 0
    check_limit("graphs", count, MOST_GRAPHS)


def _check_programs(table: Mapping[str, object]) -> None:
    for key in ("layers", "kernels", "programs", "widths", "squared", "heads", "threads"):
        given = table.get(key)
        if isinstance(given, list):
            check_limit(f"entries of {key}", len(given), _MOST_ENTRIES)
    numbers = [n for key in ("widths", "squared", "heads") for n in _numbers(table.get(key))]
    check_limit("columns", max(numbers, default=0), MOST_WIDTH)
    kinds = ("layers", "kernels"), ("widths", "squared"), ("heads",)
    entries = [[entry for key in keys for entry in _entries(table.get(key))] for keys in kinds]
    if not entries[0]:
        entries[0] = [*LAYERS, *HOMOGENEOUS]  # no table has more by default
    made = math.prod(max(1, len(set(map(repr, each)))) for each in entries)
    check_limit("combinations of layer, widths and heads", made, _MOST_PROGRAMS)
    check_limit("combinations", math.prod(max(1, len(e)) for e in entries), _MOST_COMBINATIONS)


def _entries(given: object) -> list[object]:
    return given if isinstance(given, list) else [] if given is None else [given]


def _numbers(given: object) -> Iterator[int]:
    for entry in _entries(given):
        yield from (n for n in _entries(entry) if isinstance(n, int))


def _check_combinations(campaign: Campaign) -> None:
    """Each is looked at, and each program is compiled as far as its variants' names."""
    pool = len(campaign.programs) + _STAGES * len(campaign.gradients)
    pool *= len(campaign.threads)
    check_limit("combinations", pool * len(campaign.graphs), _MOST_COMBINATIONS)
    each = pool if campaign.sample is None else min(pool, campaign.sample.per_graph)
    check_limit("problems", each * len(campaign.graphs), MOST_PROBLEMS)


def _check_graphs(campaign: Campaign, limits: ServiceLimits) -> None:
    """A part is drawn from a whole, which has to fit, too."""
    for graph in campaign.graphs:
        check_limit("characters to describe a graph", len(repr(graph)), _MOST_RECIPE)
        nodes, edges = size_of(whole(graph))
        check_limit("nodes", nodes, limits.nodes)
        check_limit("edges", edges, limits.edges)


def _check_cost(campaign: Campaign, limits: ServiceLimits) -> None:
    for text in (campaign.name, campaign.variants):
        check_limit("characters of a name", len(text), _MOST_TEXT)
    cost = campaign.limits
    check_limit("rounds", max(cost.most_rounds, cost.repeats), _MOST_ROUNDS)
    for seconds in (cost.unit_seconds, cost.problem_seconds, cost.setup_seconds):
        check_limit("seconds", seconds, MOST_SECONDS)
    check_limit("bytes for a problem", cost.memory_bytes or 0, limits.run_bytes)

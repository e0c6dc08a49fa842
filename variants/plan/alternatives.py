"""All ways of running a program that some input may favour: each site's, then their combinations.

A program of one site has all ways of that site. With several sites, ways that another one of the
same site beats on every graph are dropped first, and the rest are combined.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hetune.variants.passes.choices import SumChoices
from hetune.variants.passes.edge_constants import EdgeConstants
from hetune.variants.passes.enumerate import choices_of
from hetune.variants.passes.pipeline import clean, run_passes
from hetune.variants.passes.product_first import ProductFirst, edge_elements
from hetune.variants.passes.sites import Site, only, sites_of
from hetune.variants.plan.choices import ProgramChoices, SiteChoices
from hetune.variants.plan.lower import lower
from hetune.variants.plan.prune import undominated
from hetune.variants.program.canonical import canonical
from hetune.variants.program.columns import by_columns
from hetune.variants.program.limitation import limitation
from hetune.variants.program.nodes import Program

MOST = 32
"""Combinations of sites' choices; the three ways of three layers in a row make 27."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way through a program's choice points.

    Attributes:
        choices: What is decided.
        program: The result.
    """

    choices: ProgramChoices
    program: Program

    @property
    def id(self) -> str:
        """Stable and readable, e.g. ``"hybrid"`` or ``"dst+scores-src+weights-first"``."""
        return self.choices.id


def alternatives(program: Program) -> tuple[Alternative, ...]:
    """Every way of running the program that some input may favour, each under one id.

    Ways that lead to the same program are offered once, the first; that is the program as it is
    written.
    """
    program = normalized(program)
    found = {canonical(program): Alternative(ProgramChoices(), program)}
    for each in _choices(program):
        made = run_passes(each.passes, program)
        found.setdefault(canonical(made), Alternative(each, made))
    first = run_passes((ProductFirst(),), program)
    found.setdefault(canonical(first), Alternative(ProgramChoices((), True), first))
    for each in _choices(first) if first != program else ():
        made = run_passes(each.passes, first)
        if edge_elements(made) <= edge_elements(first):
            choices = replace(each, product_first=True)
            found.setdefault(canonical(made), Alternative(choices, made))
    return tuple(found.values())


def normalized(program: Program) -> Program:
    """The program that choices start from: by columns, with what the graph gives on the edges."""
    return run_passes((EdgeConstants(),), clean(by_columns(program)))


def _choices(program: Program) -> Iterable[ProgramChoices]:
    sites = sites_of(program)
    if len(sites) > 1:
        return _combinations(program, sites)
    return (ProgramChoices((SiteChoices((), "", each),)) for each in choices_of(program))


def _combinations(program: Program, sites: tuple[Site, ...]) -> Iterator[ProgramChoices]:
    """Of the ways of each site that none beats."""
    ways = {n: found for n, site in enumerate(sites, 1) if (found := _ways(program, site))}
    several = [n for n, found in ways.items() if len(found) > 1]
    labels = {n: f"sum{n}" for n in several} if len(several) > 1 else dict.fromkeys(several, "")
    if ways and not several:
        labels = {min(ways): ""}
    total = math.prod(map(len, ways.values()))
    if total > MOST:
        _log.info(
            "%s: %d of %d combinations of what is decided at %d sites are left out, those that "
            "differ most from the last one of each site",
            *(program.name, total - MOST, total, len(ways)),
        )
    for chosen in most_alike(tuple(ways.values())):
        yield ProgramChoices(
            tuple(
                SiteChoices(sites[n - 1], labels.get(n), choices)
                for n, choices in zip(ways, chosen, strict=True)
            )
        )


def _ways(program: Program, site: Site) -> tuple[SumChoices, ...]:
    """How a site may be computed, with the others as they are written."""
    found: dict[Program, SumChoices] = {}
    for choices in choices_of(only(program, site)):
        made = run_passes(ProgramChoices((SiteChoices(site, "", choices),)).passes, program)
        found.setdefault(made, choices)
    ways = tuple(found.values())
    if limitation(program) is None:
        ways = tuple(undominated({choices: lower(made) for made, choices in found.items()}))
    return () if ways == (found.get(program),) else ways


def most_alike(ways: Sequence[Sequence[SumChoices]]) -> list[tuple[SumChoices, ...]]:
    """At most `MOST` combinations of one way of each site, in the order of their product.

    First come those that are the same at all sites, then those that differ at the fewest sites
    from the last way of each, which adapts to graphs most.
    """
    picked = dict.fromkeys(itertools.islice(_by_difference(ways), MOST + sum(map(len, ways))))
    first = dict.fromkeys((*_same_at_all(ways), *picked))
    chosen = sorted(itertools.islice(first, MOST))
    return [tuple(way[i] for way, i in zip(ways, each, strict=True)) for each in chosen]


def _same_at_all(ways: Sequence[Sequence[SumChoices]]) -> Iterator[tuple[int, ...]]:
    for choices in dict.fromkeys(itertools.chain(*ways)):
        if all(choices in way for way in ways):
            yield tuple(way.index(choices) for way in ways)


def _by_difference(ways: Sequence[Sequence[SumChoices]]) -> Iterator[tuple[int, ...]]:
    """Positions of ways, by the number of sites where they are not the last."""
    for count in range(len(ways) + 1):
        for differing in itertools.combinations(range(len(ways)), count):
            options = (
                range(len(way) - 1) if n in differing else (len(way) - 1,)
                for n, way in enumerate(ways)
            )
            yield from itertools.product(*options)

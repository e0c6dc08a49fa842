"""Choosing a variant for a graph, and saying why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch

from hetune.variants.errors import MemoryLimitError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.memory import layout_of
from hetune.variants.runtime.pricing import Pricer, Prices
from hetune.variants.runtime.table import CandidateTable


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant on a graph.

    Attributes:
        id: The variant.
        seconds: Predicted time of a run.
        peak_bytes: What a run holds beside its inputs; exact.
    """

    id: str
    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Choice:
    """What would run, and what else there was. Printed, it is a table.

    Attributes:
        id: The chosen variant.
        reason: Why.
        seconds: Predicted time of a run of the chosen variant.
        memory_limit: The limit that applied, in bytes.
        expected_runs: Over how many runs preparation was spread; infinite if it did not count.
    """

    id: str
    reason: str
    seconds: float
    memory_limit: int | None
    expected_runs: float
    _scored: _Scored = field(repr=False, compare=False)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All variants, fastest prediction first."""
        found = (
            Candidate(variant.id, seconds, self._scored.peak_bytes(position))
            for position, (variant, seconds) in enumerate(
                zip(self._scored.table.variants, self._scored.prices.seconds.tolist(), strict=True)
            )
        )
        return tuple(sorted(found, key=lambda c: c.seconds))

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        peak_bytes = self._scored.peak_bytes(self._scored.ids.index(self.id))
        return Candidate(self.id, self.seconds, peak_bytes)

    @property
    def source(self) -> str:
        """Who predicted, for a reader."""
        return self._scored.prices.source

    @property
    def launches(self) -> tuple[float, ...]:
        """Predicted seconds of each launch of the chosen variant, in order."""
        table = self._scored.table
        rows = table.rows_of[self._scored.ids.index(self.id)]
        return tuple(self._scored.prices.launches[list(rows)].tolist())

    def __str__(self) -> str:
        width = max(len(c.id) for c in self.candidates)
        lines = [f"{self.id}: {self.reason}", "", f"{'variant':{width}}  predicted ms  peak MB"]
        for candidate in self.candidates:
            mark = " <- chosen" if candidate.id == self.id else ""
            if self.memory_limit is not None and candidate.peak_bytes > self.memory_limit:
                mark = " (over the memory limit)"
            lines.append(
                f"{candidate.id:{width}}  {candidate.seconds * 1e3:12.3f}"
                f"  {candidate.peak_bytes / 1e6:7.1f}{mark}"
            )
        return "\n".join(lines)


def choose(
    variants: tuple[Variant, ...],
    graph: HeteroGraph,
    pricer: Pricer,
    *,
    memory_limit: int | None = None,
    expected_runs: float = math.inf,
) -> Choice:
    """The variant with the least predicted time among those that fit.

    Args:
        variants: What there is to choose from.
        graph: What to run on.
        pricer: Who predicts.
        memory_limit: Most bytes that a run may hold beside its inputs.
        expected_runs: Over how many runs indexing and binding are spread.

    Raises:
        MemoryLimitError: None fits.
    """
    scored = _scored(variants, graph, pricer)
    best = scored.best(memory_limit, expected_runs)
    return Choice(
        scored.ids[best],
        _reason(scored, best, memory_limit),
        float(scored.prices.seconds[best]),
        memory_limit,
        expected_runs,
        scored,
    )


def chosen(
    variants: tuple[Variant, ...],
    graph: HeteroGraph,
    pricer: Pricer,
    *,
    memory_limit: int | None = None,
    expected_runs: float = math.inf,
    prepared: str | None = None,
) -> Variant:
    """The variant that `choose` finds, without the reasons.

    Args:
        variants: What there is to choose from.
        graph: What to run on.
        pricer: Who predicts.
        memory_limit: Most bytes that a run may hold beside its inputs.
        expected_runs: Over how many runs indexing and binding are spread.
        prepared: Id of a variant that has run on the graph and needs no preparation.

    Raises:
        MemoryLimitError: None fits.
    """
    scored = _scored(variants, graph, pricer)
    return variants[scored.best(memory_limit, expected_runs, prepared)]


def contenders(
    variants: tuple[Variant, ...],
    graph: HeteroGraph,
    pricer: Pricer,
    *,
    memory_limit: int | None = None,
    most: int = 3,
) -> tuple[Variant, ...]:
    """The variants that may be fastest, given how far off predictions are; the best one first."""
    scored = _scored(variants, graph, pricer)
    first = scored.best(memory_limit, math.inf)
    seconds = scored.prices.seconds
    spread = pricer.spread(scored.table, scored.domain, torch.get_num_threads())
    within = seconds / spread <= seconds[first] * spread[first]
    order = [i for i in seconds.argsort(kind="stable") if i != first and within[i]]
    fitting = [i for i in order if scored.fits(i, memory_limit)]
    return tuple(variants[i] for i in (first, *fitting[: most - 1]))


class _Scored:
    """Variants with their prices on a graph. Keeps the graph alive: never cached on it."""

    def __init__(self, table: CandidateTable, graph: HeteroGraph, prices: Prices) -> None:
        self.table, self.graph, self.prices = table, graph, prices
        self.ids = [variant.id for variant in table.variants]

    @property
    def domain(self) -> Domain:
        return domain_of(self.table, self.graph)

    def peak_bytes(self, position: int) -> int:
        variant = self.table.variants[position]
        key = "peak bytes", variant.key, torch.get_num_threads()
        return self.graph.cached(
            key, lambda: layout_of(variant.plan, variant.schedules, self.domain).peak_bytes
        )

    def fits(self, position: int, memory_limit: int | None) -> bool:
        return memory_limit is None or self.peak_bytes(position) <= memory_limit

    def best(
        self, memory_limit: int | None, expected_runs: float, prepared: str | None = None
    ) -> int:
        """What all variants need to be prepared is no reason to choose any of them."""
        prepare = self.prices.prepare - self.prices.prepare.min()
        if prepared is not None:
            prepare[self.ids.index(prepared)] = 0
        cost = self.prices.seconds + prepare / expected_runs
        for position in cost.argsort(kind="stable").tolist():
            if self.fits(position, memory_limit):
                return int(position)
        least = min(range(len(self.ids)), key=self.peak_bytes)
        raise MemoryLimitError(
            f"every variant needs more than the limit of {memory_limit} bytes: the smallest, "
            f"{self.ids[least]}, needs {self.peak_bytes(least)}; raise memory_limit to at least "
            "that"
        )


def _scored(variants: tuple[Variant, ...], graph: HeteroGraph, pricer: Pricer) -> _Scored:
    table, threads = CandidateTable.of(variants), torch.get_num_threads()
    key = "prices", threads, _keys(variants)
    prices = graph.cached(
        key, lambda: pricer.price(table, domain_of(table, graph), threads), owner=pricer
    )
    return _Scored(table, graph, prices)


def domain_of(table: CandidateTable, graph: HeteroGraph) -> Domain:
    """The graph, with the indexes that the variants' device needs anyway."""
    return Domain(graph, graph.device if table.device == "cuda" else None)


def _keys(variants: Sequence[Variant]) -> tuple[str, ...]:
    return tuple(variant.key for variant in variants)


def _reason(scored: _Scored, best: int, memory_limit: int | None) -> str:
    seconds, source = scored.prices.seconds, scored.prices.source
    faster = sum(
        not scored.fits(i, memory_limit) for i in (seconds < seconds[best]).nonzero()[0].tolist()
    )
    if faster:
        return (
            f"least predicted time of the variants within the memory limit; {faster} faster "
            "ones need more"
        )
    where = "a GPU" if scored.table.device == "cuda" else f"{torch.get_num_threads()} threads"
    plan = _plan(scored.ids[best])
    others = [i for i in seconds.argsort(kind="stable") if _plan(scored.ids[i]) != plan]
    if not others:
        return f"the only plan; predicted by {source} for {where}"
    gain = seconds[others[0]] / seconds[best]
    return (
        f"least predicted time by {source} for {where}, {gain:.2f}x ahead of "
        f"the next plan, {_plan(scored.ids[others[0]])}"
    )


def _plan(variant_id: str) -> str:
    return variant_id.rpartition("/")[0]

"""Choosing a variant for a graph, and saying why."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hetune.variants.errors import MemoryLimitError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.memory import layout_of
from hetune.variants.runtime.roofline import MachineModel, estimate


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


@dataclass(frozen=True, slots=True)
class Choice:
    """What would run, and what else there was.

    Attributes:
        id: The chosen variant.
        reason: Why.
        candidates: All variants, fastest prediction first.
        memory_limit: The limit that applied, in bytes.
    """

    id: str
    reason: str
    candidates: tuple[Candidate, ...]
    memory_limit: int | None = None

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        return next(c for c in self.candidates if c.id == self.id)

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
    machine: MachineModel,
    memory_limit: int | None = None,
) -> Choice:
    """The variant with the least predicted time among those that fit.

    Raises:
        MemoryLimitError: None fits.
    """
    threads = torch.get_num_threads()
    key = machine, threads, *(variant.key for variant in variants)
    return graph.cached(
        ("choice", memory_limit, *key),
        lambda: _choose(
            graph.cached(
                ("candidates", *key), lambda: _candidates(variants, graph, machine, threads)
            ),
            threads,
            memory_limit,
        ),
    )


def _choose(candidates: tuple[Candidate, ...], threads: int, memory_limit: int | None) -> Choice:
    fitting = [c for c in candidates if memory_limit is None or c.peak_bytes <= memory_limit]
    if not fitting:
        least = min(candidates, key=lambda c: c.peak_bytes)
        raise MemoryLimitError(
            f"every variant needs more than the limit of {memory_limit} bytes: the smallest, "
            f"{least.id}, needs {least.peak_bytes}; raise memory_limit to at least that"
        )
    best = fitting[0]
    return Choice(best.id, _reason(best, candidates, threads), candidates, memory_limit)


def _candidates(
    variants: tuple[Variant, ...], graph: HeteroGraph, machine: MachineModel, threads: int
) -> tuple[Candidate, ...]:
    domain = Domain(graph)
    found = (
        Candidate(
            variant.id,
            estimate(variant.plan, variant.schedules, domain, machine, threads).seconds,
            layout_of(variant.plan, variant.schedules, domain).peak_bytes,
        )
        for variant in variants
    )
    return tuple(sorted(found, key=lambda c: (c.seconds, c.id)))


def _reason(best: Candidate, candidates: tuple[Candidate, ...], threads: int) -> str:
    faster = [c for c in candidates if c.seconds < best.seconds]
    if faster:
        return (
            f"least predicted time of the variants within the memory limit; {len(faster)} faster "
            "ones need more"
        )
    others = [c for c in candidates if _plan(c.id) != _plan(best.id)]
    if not others:
        return f"the only plan; predicted by the roofline model for {threads} threads"
    gain = others[0].seconds / best.seconds
    return (
        f"least predicted time by the roofline model for {threads} threads, {gain:.2f}x ahead of "
        f"the next plan, {_plan(others[0].id)}"
    )


def _plan(variant_id: str) -> str:
    return variant_id.rpartition("/")[0]

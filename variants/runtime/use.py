"""Which variant the next call on a graph runs: choices that learn from the calls themselves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.choice import chosen, contenders
from hetune.variants.runtime.pricing import Pricer

_TRIALS = 4
"""Calls that each contender gets; the first of them warms up and does not count."""
_CONTENDERS = 3


@dataclass(frozen=True, slots=True)
class Policy:
    """How a layer chooses.

    Attributes:
        pricer: Who predicts.
        memory_limit: Most bytes that a run may hold beside its inputs.
        expected_runs: Over how many runs preparation is spread. None: learned, a graph that has
            been run on n times is expected to be run on n times more; the first call counts one.
        explore: Whether live calls try the variants between which predictions cannot tell.
    """

    pricer: Pricer
    memory_limit: int | None = None
    expected_runs: float | None = None
    explore: bool = False


@dataclass(slots=True)
class Use:
    """A layer's calls on one graph so far. Cached on the graph, and does not refer to it.

    Attributes:
        calls: How many there were.
        current: The variant of the last call.
    """

    calls: int = 0
    current: Variant | None = None
    _trials: dict[str, list[float]] = field(default_factory=dict)
    _contenders: tuple[Variant, ...] = ()

    def next(
        self, variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy
    ) -> tuple[Variant, Callable[[float], None] | None]:
        """The variant to run now, and whom to tell the seconds that it took (None: nobody).

        Raises:
            MemoryLimitError: None fits the limit.
        """
        self.calls += 1
        if policy.explore:
            return self._explored(variants, graph, policy)
        if self.current is None or (policy.expected_runs is None and _is_power_of_two(self.calls)):
            self.current = self._decide(variants, graph, policy)
        return self.current, None

    def _decide(self, variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy) -> Variant:
        runs = float(self.calls) if policy.expected_runs is None else policy.expected_runs
        return chosen(
            variants,
            graph,
            policy.pricer,
            memory_limit=policy.memory_limit,
            expected_runs=runs,
            prepared=None if self.current is None else self.current.id,
        )

    def _explored(
        self, variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy
    ) -> tuple[Variant, Callable[[float], None] | None]:
        if self.calls == 1:
            self._contenders = contenders(
                variants, graph, policy.pricer, memory_limit=policy.memory_limit, most=_CONTENDERS
            )
            self._trials = {variant.id: [] for variant in self._contenders}
            self.current = self._contenders[0]
        waiting = [v for v in self._contenders if len(self._trials[v.id]) < _TRIALS]
        if not waiting or len(self._contenders) == 1:
            assert self.current is not None
            return self.current, None
        trial = min(waiting, key=lambda v: len(self._trials[v.id]))
        return trial, lambda seconds: self._tell(trial, seconds)

    def _tell(self, variant: Variant, seconds: float) -> None:
        self._trials[variant.id].append(seconds)
        if all(len(times) >= _TRIALS for times in self._trials.values()):
            self.current = min(self._contenders, key=self._measured)

    def _measured(self, variant: Variant) -> float:
        times = self._trials[variant.id][1:]
        return statistics.median(times) if times else math.inf


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0

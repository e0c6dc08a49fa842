"""Which variant the next call on a graph runs: choices that learn from the calls themselves.

Asking the cost model takes milliseconds, which a run on a small graph does not, and what the
answer can save is a small part of what runs take. So a layer asks only once its calls on a graph
should have taken three times as long as the question does, and runs the default variant until then.
When that is follows from counts, not from a clock: equal calls on equal graphs run equal variants.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.precision import Precision
from hetune.variants.plan.sides import default_variant
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.choice import Choice, Chosen, choose, chosen, contenders
from hetune.variants.runtime.cost_estimates import CostEstimator
from hetune.variants.runtime.scored import domain_of

_TRIALS = 4
"""Calls that each contender gets; the first of them warms up and does not count."""
_CONTENDERS = 3
_FORESEEN, _MOST_CALLS = 2048, 1 << 60
"""Steps that are looked ahead, and calls: a call each until predictions are asked for, from then on
from one power of two to the next."""
_ELEMENT = 4
PATIENCE = 3.0
"""How many times what the question takes is spent on runs before it is asked."""
_LAUNCH_SECONDS = 5e-6
_EDGE_RATE, _NODE_RATE = 40e9, 6e9
"""Bytes a second of one row for each edge and of one for each node, by times on one server."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a layer chooses.

    Attributes:
        estimator: Who predicts.
        memory_limit: Most bytes that a run's temporaries, scratch and result may take, and with
            them what a recording copies.
        expected_runs: Over how many runs preparation is spread. None: learned, a graph that has
            been run on n times is expected to be run on n times more; the first call counts one.
            Only then is the question put off until it pays.
        explore: Whether live calls try the variants between which predictions cannot tell.
        cuda_graph: Whether a GPU's runs are replayed as one CUDA graph; chosen along with the
            variant if None.
        precision: What the layer may store tables in.
        dynamic: Whether every call brings a new graph: `SizeChoices` are taken.
        weights_change: Whether weights are trained: each run computes again what is computed of
            them alone.
    """

    estimator: CostEstimator
    memory_limit: int | None = None
    expected_runs: float | None = None
    explore: bool = False
    cuda_graph: bool | None = None
    precision: Precision = "float32"
    dynamic: bool = False
    weights_change: bool = False

    def limited(self, memory_limit: int | None, weights_change: bool = False) -> Policy:
        """The same with another memory limit, if one is given, and whether weights are trained."""
        limited = self if memory_limit is None else replace(self, memory_limit=memory_limit)
        return replace(limited, weights_change=True) if weights_change else limited

    def choice(self, variants: tuple[Variant, ...], graph: HeteroGraph) -> Choice:
        """What suits a graph, and why; over endless runs where none are told, or one if dynamic.

        Raises:
            MemoryLimitError: No variant fits the limit.
        """
        return choose(
            variants,
            graph,
            self.estimator,
            memory_limit=self.memory_limit,
            expected_runs=self.expected_runs or (1.0 if self.dynamic else math.inf),
            cuda_graph=self.cuda_graph,
            weights_change=self.weights_change,
        )

    @property
    def is_free(self) -> bool:
        """Whether nobody has said how to choose."""
        told = self.memory_limit is not None or self.expected_runs is not None
        return not (told or self.explore or self.dynamic)


@dataclass(slots=True)
class Calls:
    """A layer's calls on one graph with equal demands so far. Does not refer to the graph.

    Safe with several threads: calls that come while one asks wait for its answer.

    Attributes:
        count: How many there were.
        current: What the last call ran.
        asked: Whether predictions have been asked for.
    """

    count: int = 0
    current: Chosen | None = None
    asked: bool = False
    _trials: dict[str, list[float]] = field(default_factory=dict)
    _contenders: tuple[Variant, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def next(
        self,
        variants: tuple[Variant, ...],
        graph: HeteroGraph,
        policy: Policy,
        at_hand: Callable[[Variant], Variant | None],
    ) -> tuple[Chosen, Callable[[float], None] | None]:
        """What to run now, and whom to tell the seconds that it took (None: nobody).

        Infinitely many, of a run that failed, keep a variant from being tried again.

        Args:
            variants: What there is to choose from.
            graph: What to run on.
            policy: How to choose.
            at_hand: What runs in a variant's place without being compiled first: the variant
                itself, another one, or None.

        Raises:
            MemoryLimitError: None fits the limit.
        """
        with self._lock:
            self.count += 1
            if policy.explore:
                return self._explored(variants, graph, policy)
            if not self.asked:
                early = self._early(variants, graph, policy, at_hand)
                if early is not None:
                    self.current = Chosen(early, cuda_graph=False, is_final=False)
                    return self.current, None
            learns = policy.expected_runs is None
            if not self.asked or (learns and _is_power_of_two(self.count)):
                self.current = self._decide(variants, graph, policy)
                self.asked = True
            assert self.current is not None
            return self.current, None

    def foreseen(
        self, variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy
    ) -> tuple[Variant, ...]:
        """What the next calls may run, each once, if all is compiled by then. Asks the estimator.

        Raises:
            MemoryLimitError: None fits the limit.
        """
        with self._lock:
            if policy.explore:
                return self._contenders or _contenders(variants, graph, policy)
            ahead = Calls(self.count, self.current, self.asked)
        found: dict[str, Variant] = {}
        for _ in range(_FORESEEN):
            if ahead.count >= _MOST_CALLS:
                break
            variant = ahead.next(variants, graph, policy, lambda variant: variant)[0].variant
            found[variant.id] = variant
            if ahead.asked:
                ahead.count = (1 << ahead.count.bit_length()) - 1  # nothing is decided meanwhile
        return tuple(found.values())

    def _early(
        self,
        variants: tuple[Variant, ...],
        graph: HeteroGraph,
        policy: Policy,
        at_hand: Callable[[Variant], Variant | None],
    ) -> Variant | None:
        """What runs while the calls, this one included, are not worth the question yet."""
        if policy.expected_runs is not None or policy.memory_limit is not None:
            return None
        first = self.current.variant if self.current else _default_on(graph, variants)
        spent = self.count * about_seconds(first, graph)
        if spent >= PATIENCE * policy.estimator.estimating_seconds:
            return None
        return first if self.current is not None else at_hand(first)

    def _decide(self, variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy) -> Chosen:
        runs = float(self.count) if policy.expected_runs is None else policy.expected_runs
        return chosen(
            variants,
            graph,
            policy.estimator,
            memory_limit=policy.memory_limit,
            expected_runs=runs,
            cuda_graph=policy.cuda_graph,
            prepared=None if self.current is None else self.current.variant.id,
            weights_change=policy.weights_change,
        )

    def _explored(
        self, variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy
    ) -> tuple[Chosen, Callable[[float], None] | None]:
        if self.current is None:
            self._contenders = _contenders(variants, graph, policy)
            self._trials = {variant.id: [] for variant in self._contenders}
            self.current = Chosen(self._contenders[0])
        waiting = [v for v in self._contenders if len(self._trials[v.id]) < _TRIALS]
        if not waiting or len(self._contenders) == 1:
            return self.current, None
        trial = min(waiting, key=lambda v: len(self._trials[v.id]))
        return Chosen(trial, is_final=False), lambda seconds: self._tell(trial, seconds)

    def _tell(self, variant: Variant, seconds: float) -> None:
        times = self._trials[variant.id]
        times += [seconds] * (_TRIALS if seconds == math.inf else 1)
        if all(len(times) >= _TRIALS for times in self._trials.values()):
            self.current = Chosen(min(self._contenders, key=self._measured))

    def _measured(self, variant: Variant) -> float:
        times = self._trials[variant.id][1:]
        return statistics.median(times) if times else math.inf


def about_seconds(variant: Variant, graph: HeteroGraph) -> float:
    """A run's time to within a small factor, for next to nothing: launches, edges and nodes."""
    program = variant.plan.program
    row = sum(program.type_of(result).width for result in program.results) * _ELEMENT
    rows = graph.num_edges / _EDGE_RATE + graph.num_nodes / _NODE_RATE
    return len(variant.plan.launches) * _LAUNCH_SECONDS + rows * row


def _contenders(
    variants: tuple[Variant, ...], graph: HeteroGraph, policy: Policy
) -> tuple[Variant, ...]:
    limit = policy.memory_limit
    return contenders(variants, graph, policy.estimator, memory_limit=limit, most=_CONTENDERS)


def _default_on(graph: HeteroGraph, variants: tuple[Variant, ...]) -> Variant:
    if not any(variant.choices.plan.program.is_hybrid for variant in variants):
        return default_variant(variants)  # which side a graph has is no matter
    return default_variant(variants, side=domain_of(variants, graph).side)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0

"""Variants bound to graphs, and run on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.errors import MemoryLimitError
from hetune.variants.graph.edge_batch import EdgeBatch
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.graph.streams import synchronize
from hetune.variants.graph.threads import kernel_threads, may_use_fewer, record_used_threads
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.sides import id_on
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.bound_run import BoundRun
from hetune.variants.runtime.calls import Policy, about_seconds
from hetune.variants.runtime.choice import Choice, Chosen, check_variant, is_replayed
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.edge_rows import IN_GRAPH_ORDER, EdgeOrders
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.float32_range import Overflow
from hetune.variants.runtime.layer_use import LayerUse
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.replay import CudaRecorder, Recorder
from hetune.variants.runtime.size_choices import SizeChoices
from hetune.variants.runtime.sparse_features import SparseFeatures, without_products
from hetune.variants.runtime.thread_watch import HELD_UP, SHORT_SECONDS, ThreadWatch

_EXECUTABLES = GraphSlot[tuple[str, str], Executable](by_counts=True)
"""They bind arrays; what these are made of is kept by indexes and in other slots."""
_USES = GraphSlot[None, LayerUse](by_counts=True)
_CHOSEN = GraphSlot[tuple[object, ...], Chosen](by_counts=True)
"""Of batches of edges, by the runner and what is demanded."""
_SPARSE = GraphSlot[str, SparseFeatures]()


class LayerRunner:
    """Runs one layer's variants on a backend. What it makes for a graph is kept with the graph.

    Attributes:
        backend: What compiles and runs.
        recorder: What records the runs of a GPU.
        last: The variant that was chosen last, on whatever graph.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.recorder: Recorder = CudaRecorder()
        self.last: Variant | None = None
        self._ready: set[str] = set()
        self._sizes = SizeChoices()
        self._own = object()

    def use_of(self, graph: HeteroGraph) -> LayerUse:
        """What is remembered of the layer's use of a graph."""
        return graph.state.of(_USES, None, LayerUse, owner=self)

    def next(
        self,
        variants: Mapping[str, Variant],
        graph: HeteroGraph,
        policy: Policy,
        name: str | None = None,
    ) -> tuple[Chosen, Callable[[float], None] | None]:
        """What runs on a graph now, and whom to tell the seconds that it took (None: nobody).

        Args:
            variants: What there is to choose from, by id.
            graph: What to run on.
            policy: How to choose.
            name: Id of the variant that was asked for, if one was.

        Raises:
            VariantError: No variant has this id.
            MemoryLimitError: No variant fits the limit, or this one does not.
        """
        if name is not None:
            return Chosen(self.named(name, variants, graph, policy)), None
        if policy.dynamic and (known := self.kept(graph, policy)):
            return known, None
        use = self.use_of(graph)
        policy = self._sizes.policy(policy, use, is_call=True)
        if policy.dynamic:
            use.watch_with(self._sizes.use_of(graph))
            return Chosen(self._of_size(variants, graph, policy), is_final=False), None
        calls = use.calls(policy.memory_limit, policy.weights_change)
        chosen, tell = calls.next(tuple(variants.values()), graph, policy, self.at_hand)
        self.last = chosen.variant
        if tell is not None and not synchronize(graph.device):
            tell = None  # somebody records the run, whose time says nothing
        return chosen, tell

    def foreseen(
        self, variants: Mapping[str, Variant], graph: HeteroGraph, policy: Policy
    ) -> tuple[Variant, ...]:
        """What the next runs on a graph may be, each once, as far as their number decides.

        Raises:
            MemoryLimitError: No variant fits the limit.
        """
        if policy.dynamic:
            return (self._of_size(variants, graph, policy),)
        calls = self.use_of(graph).calls(policy.memory_limit, policy.weights_change)
        return calls.foreseen(tuple(variants.values()), graph, policy)

    def choice(self, variants: Mapping[str, Variant], graph: HeteroGraph, policy: Policy) -> Choice:
        """What suits a graph, and why.

        Raises:
            MemoryLimitError: No variant fits the limit.
        """
        policy = self._sizes.policy(policy, self.use_of(graph))
        choice = policy.choice(tuple(variants.values()), graph)
        known = self._of_size(variants, graph, policy).id if policy.dynamic else choice.id
        if known != choice.id:
            choice = replace(choice, id=known, reason="chosen for another graph of this size")
        if self._threads(variants[choice.id], choice.seconds, graph) < choice.threads:
            choice = replace(choice, reason=f"{choice.reason}; with one thread for now: {HELD_UP}")
        return choice

    def _of_size(
        self, variants: Mapping[str, Variant], graph: HeteroGraph, policy: Policy
    ) -> Variant:
        given = tuple(variants.values())
        try:
            return self.named(self._sizes.id_of(given, graph, policy), variants, graph, policy)
        except MemoryLimitError:
            return variants[policy.choice(given, graph).id]

    def at_hand(self, variant: Variant) -> Variant | None:
        """The variant, or the one that ran last, on whatever graph, if it was never compiled."""
        if variant is not self.last and variant.key not in self._ready:
            if not all(map(self.backend.is_ready, variant.plan.launches, variant.schedules)):
                return self.last
            self._ready.add(variant.key)
        return variant

    def domain(self, graph: HeteroGraph, plan: Plan | None = None) -> Domain:
        """The graph with its indexes, where the backend walks them, for a plan or for any."""
        any_order = plan is not None and facts_of(plan).takes_any_order
        device = graph.device if self.backend.indexes_on_device else None
        return Domain(graph, device, any_order=any_order)

    def executable(self, variant: Variant, graph: HeteroGraph) -> Executable:
        """A variant bound to a graph: once for all layers with an equal program.

        Raises:
            CompileError: It does not compile.
        """
        return graph.state.of(
            _EXECUTABLES,
            (variant.key, self.backend.name),
            lambda: self._bound(variant, graph),
        )

    def _bound(self, variant: Variant, graph: HeteroGraph) -> Executable:
        domain = self.domain(graph, variant.plan)
        return Executable(variant.plan, domain, self.backend, variant.schedules)

    def prepare(self, variant: Variant, graph: HeteroGraph, weights: dict[str, Tensor]) -> None:
        """Binds a variant to a graph, so that no run waits for that.

        Raises:
            CompileError: It does not compile.
        """
        executable = self.executable(variant, graph)
        if executable.device.type == "cuda":  # kernels are compiled when they first run
            domain, params = self.domain(graph), variant.plan.program.params
            inputs = {
                param.name: torch.zeros(
                    domain.buffer_rows(param.type),
                    *param.type.shape,
                    dtype=torch.float32,
                    device=executable.device,
                )
                for param in params
                if param.role != "weight"
            }
            executable.run(inputs, {**weights, **executable.constants(inputs)})

    def named(
        self, name: str, variants: Mapping[str, Variant], graph: HeteroGraph, policy: Policy
    ) -> Variant:
        """What runs on a graph under the id of a variant.

        Raises:
            VariantError: No variant has this id.
            MemoryLimitError: It does not fit the limit.
        """
        check_variant(name, variants)
        found = variants[name]
        if found.choices.plan.program.is_hybrid:
            found = variants.get(id_on(found, self.domain(graph).side), found)
        if policy.memory_limit is not None:
            executable = self.executable(found, graph)
            peak = executable.layout.peak_bytes
            if policy.cuda_graph:
                peak += executable.layout.run_bytes
            if peak > policy.memory_limit:
                raise MemoryLimitError(
                    f"{name} needs {peak} bytes, and the limit is {policy.memory_limit}: raise "
                    "memory_limit, or leave variant out"
                )
        return found

    def run(
        self,
        graph: HeteroGraph,
        chosen: Chosen,
        policy: Policy,
        inputs: Mapping[str, Tensor],
        weights: dict[str, Tensor],
        out: Tensor | None,
        overflow: Overflow,
        is_timed: bool = False,
        orders: EdgeOrders = IN_GRAPH_ORDER,
    ) -> tuple[Tensor, ...]:
        """The results of what was chosen, as `Executable.run` gives it; replayed where it pays.

        Args:
            graph: What on.
            chosen: What to run.
            policy: How it was chosen.
            inputs: Rows of the program's features and constants.
            weights: What `weights_of` gives for the plan.
            out: As of `Executable.run`.
            overflow: As there.
            is_timed: Whether the caller compares times, so that all runs have the same threads.
            orders: As of `Executable.run`, where runs are not replayed.

        Raises:
            InputError: A tensor's dtype, shape or device does not fit.
            CompileError: The variant does not compile.
        """
        if chosen.bound is not None:
            return chosen.bound.run(inputs, weights, out, overflow, orders)
        executable, must = self.executable(chosen.variant, graph), policy.cuda_graph
        sparse = self._sparse(chosen.variant, graph, policy)
        if sparse and (prepared := sparse.prepared(inputs, weights, overflow)):
            executable, inputs = prepared
        if constants := executable.constants(inputs):
            weights = {**weights, **constants}
        if chosen.is_final:
            executable.release_indexes()
        if must is False:
            watch = None if is_timed else self.watch(chosen, graph)
            bound = BoundRun(executable, watch)
            by_size = policy.dynamic and not chosen.is_final  # and not a variant that was named
            if by_size and not (sparse or constants) and isinstance(graph, EdgeBatch):
                self._keep(graph, chosen, policy, bound)
            return bound.run(inputs, weights, out, overflow, orders)
        record_used_threads(kernel_threads())
        replays = self.use_of(graph).replays(must or False, self.recorder)
        return replays.run(
            executable, inputs, weights, out, lambda: self._is_replayed(chosen, graph, policy)
        )

    def _keep(self, graph: HeteroGraph, chosen: Chosen, policy: Policy, bound: BoundRun) -> None:
        """Keeps with a batch of edges what runs on it: the next ones have nothing to choose."""
        graph.state.of(_CHOSEN, self._demands(policy), lambda: replace(chosen, bound=bound))

    def kept(self, graph: HeteroGraph, policy: Policy) -> Chosen | None:
        """What is kept with a batch of edges, if something is."""
        return graph.state.known(_CHOSEN, self._demands(policy))

    def _demands(self, policy: Policy) -> tuple[object, ...]:
        """Equal where the same runs on a batch of edges."""
        limits = policy.memory_limit, policy.weights_change
        return self._own, *limits, kernel_threads(), may_use_fewer()

    def _sparse(
        self, variant: Variant, graph: HeteroGraph, policy: Policy
    ) -> SparseFeatures | None:
        """Who knows whether features are mostly zeros; None where it would not matter."""
        if not isinstance(self.backend, CppBackend) or policy.memory_limit is not None:
            return None
        if without_products(variant) is None:
            return None
        return graph.state.of(
            _SPARSE,
            variant.key,
            lambda: SparseFeatures(variant, self.domain(graph), self.backend),
        )

    def expects_new(self, policy: Policy) -> bool:
        """Whether the next call is expected to bring a new graph, whose size decides all."""
        return policy.memory_limit is None and not policy.explore and self._sizes.are_new(policy)

    def of_size(self, graph: HeteroGraph, policy: Policy) -> str | None:
        """The variant that new graphs of this size run, as far as is known."""
        return self._sizes.known(graph, policy) if self.expects_new(policy) else None

    def _threads(self, variant: Variant, seconds: float, graph: HeteroGraph) -> int:
        """How many the next run of a variant is to have, which was predicted to take so long."""
        chosen = Chosen(variant), Chosen(variant, seconds=seconds)
        watches = [self.watch(each, graph) for each in chosen]
        return min((watch.threads for watch in watches if watch), default=kernel_threads())

    def watch(self, chosen: Chosen, graph: HeteroGraph) -> ThreadWatch | None:
        """Who watches the runs; None for those that have one thread, or are long."""
        if not (isinstance(self.backend, CppBackend) and may_use_fewer()):
            return None
        threads, variant = kernel_threads(), chosen.variant

        def watch() -> ThreadWatch | None:
            expected = chosen.seconds or about_seconds(variant, graph)
            what = f"{variant.id} on a graph of {graph.num_edges:,} edges"
            return ThreadWatch(what, threads, expected) if expected < SHORT_SECONDS else None

        key = variant.key, threads, chosen.seconds is None
        return self.use_of(graph).watch(key, watch)

    def _is_replayed(self, chosen: Chosen, graph: HeteroGraph, policy: Policy) -> bool:
        if chosen.cuda_graph is not None:
            return chosen.cuda_graph
        estimator, limit = policy.estimator, policy.memory_limit
        return self.use_of(graph).replays_pay(
            (chosen.variant.key, limit),
            lambda: is_replayed(chosen.variant, graph, estimator, limit),
        )

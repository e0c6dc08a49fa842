"""Calls that each bring a new small graph: they run without a graph object, in memory of a size.

One native call checks and indexes a graph where the kernels of the one before look for it. Whatever
does not fit goes the ordinary way, which gives the same bits.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapter import Unsupported
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.small_index import SMALL
from hetune.variants.plan.variants import Variant
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.alike_calls import CallsAlike, first_of
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.gradients import GradientRunner, in_stages
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.layer_status import LastCall
from hetune.variants.runtime.size_choices import size_of, size_of_counts
from hetune.variants.runtime.small_runs import TimedRuns
from hetune.variants.runtime.small_steps import (
    SmallCalls,
    SmallGradients,
    SmallInference,
    SmallTraining,
)
from hetune.variants.runtime.supported_calls import SupportedCall
from hetune.variants.runtime.training import Training
from hetune.variants.runtime.weights import WeightCache

_MOST_SIZES = 8
_MOST_SEEN = 32
"""Graphs that are known to come back, as many as a layer remembers: they get an object."""


class NewGraphs:
    """What a layer runs on small graphs that are new in every call. Safe with several threads.

    Args:
        runs: Who chooses, and runs on other graphs.
        policy: How.
        training: Of the layer; so are weights.
        weights: As they are kept.
    """

    def __init__(
        self, runs: LayerRunner, policy: Policy, training: Training, weights: WeightCache
    ) -> None:
        self._runs, self._policy, self._training, self._weights = runs, policy, training, weights
        self._calls: dict[bool, CallsAlike] = {}
        self._sizes: dict[tuple[int, ...], SmallCalls] = {}
        self._without: set[tuple[GradientRunner, tuple[int, ...]]] = set()
        self._seen: OrderedDict[int, weakref.ref[Tensor]] = OrderedDict()
        self._rows: weakref.ref[Tensor] | None = None

    def result(self, module: nn.Module, args: tuple[Any, ...], last: LastCall) -> Any:
        """What a call gives; None where it has to go the ordinary way.

        Args:
            module: The layer's.
            args: All that the call gives.
            last: Told what it ran.
        """
        calls = self._calls.get(has_gradients := torch.is_grad_enabled())
        if calls is None or not self._runs.expects_new(self._policy):
            return None
        if not calls.has(args) or self.has_seen(args):
            return None
        if self._rows is not None and self._rows() is first_of(args[0]):
            return None  # whether it is mostly zeros is worth a look
        if (read := calls.read(module, args)) is None:
            return None
        (call, edges), nodes = read, sum(read[1].nodes)
        size = has_gradients, *size_of_counts(nodes, nodes, edges.num_edges)
        of_size = self._sizes.get(size)
        if of_size is None or not of_size.is_for(calls.adapter):
            return None
        if (found := of_size.result(calls.adapter, call, edges)) is None:
            self._calls.pop(has_gradients, None)  # numbers like these may come again
            self._sizes.pop(size, None)
        else:
            last.set(of_size.forward.variant.id, None)
            last.has_gradients = has_gradients
            self._remember(args)
        return found

    def has_seen(self, args: tuple[Any, ...]) -> bool:
        """Whether the edges of a call are those of one before, as far as is known."""
        edges = first_of(args[1]) if len(args) > 1 else None
        seen = self._seen.get(id(edges))
        return seen is not None and seen() is edges

    def _remember(self, args: tuple[Any, ...]) -> None:
        x, edges = first_of(args[0]), first_of(args[1])
        self._seen[id(edges)], self._rows = weakref.ref(edges), weakref.ref(x)
        while len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    def learn(
        self,
        prepared: SupportedCall,
        args: tuple[Any, ...],
        variants: Mapping[str, Variant],
        last: LastCall,
    ) -> None:
        """Makes ready for calls like one that ran the ordinary way.

        Args:
            prepared: What it read as.
            args: All that it gave.
            variants: Of the layer, by id.
            last: What it ran.
        """
        (adapter, call, graph), has_gradients = prepared, torch.is_grad_enabled()
        if type(graph) is not HeteroGraph or last.has_gradients is not has_gradients:
            return
        variant = variants.get(last.variant or "")  # perhaps what another thread ran
        if variant is None or max(graph.num_nodes, graph.num_edges) >= SMALL:
            return
        policy = self._policy.limited(None, has_gradients)
        if self._runs.of_size(graph, policy) != variant.id:
            return
        size = has_gradients, *size_of(graph)
        known, calls = self._sizes.get(size), self._calls.get(has_gradients)
        is_known = known is not None and known.is_for(adapter)
        if (is_known and calls) or call.loose_edges() is None:
            return
        if (calls := CallsAlike.of(adapter, call, args)) is None:
            return
        if not is_known:
            make = self._step if has_gradients else self._inference
            if (made := make(prepared, variant, policy)) is None:
                return
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            self._sizes[size] = made
        self._calls[has_gradients] = calls

    def _inference(
        self, prepared: SupportedCall, variant: Variant, policy: Policy
    ) -> SmallCalls | None:
        adapter, call, graph = prepared
        weights = self._weights.weights(variant.plan, adapter, graph, call.edges)
        forward = self._forward(variant, graph, weights.tensors) if weights.fit else None
        return SmallInference(forward, weights) if forward else None

    def _step(self, prepared: SupportedCall, variant: Variant, policy: Policy) -> SmallCalls | None:
        adapter, call, graph = prepared
        found = self._training.parameters(adapter, call, call.inputs(graph))
        if isinstance(found, Unsupported) or (runner := found[1]) is None:
            return None
        size = size_of(graph)
        if (runner, size) in self._without:
            return None
        if not all(stage.is_ready(graph, in_stages(policy)) for stage in runner.stages):
            return None  # before the first backward of the size
        gradients = SmallGradients.of(runner, graph, policy)
        if gradients is None:
            self._without.add((runner, size))
        forward = self._forward(variant, graph, {}) if gradients else None
        return SmallTraining(forward, gradients, self._training) if forward and gradients else None

    def _forward(
        self, variant: Variant, graph: HeteroGraph, weights: Mapping[str, Tensor]
    ) -> TimedRuns | None:
        program = variant.plan.program
        if [program.type_of(name).space for name in program.results] != [Space.NODE]:
            return None
        return TimedRuns.of(self._runs, variant, graph, weights)

"""Calls that each bring a new small graph: they run without a graph object, in memory of a size.

One native call checks and indexes a graph where the kernels of the one before look for it. Whatever
does not fit goes the ordinary way, which gives the same bits.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from torch import Tensor, nn

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.call import Call, LooseEdges, RepeatReader
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.small_index import SMALL
from hetune.variants.graph.threads import kernel_threads, may_use_fewer, record_used_threads
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.choice import Chosen
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.layer_status import LastCall
from hetune.variants.runtime.modes import is_plain
from hetune.variants.runtime.repeated_calls import (
    is_in_memory,
    is_rows,
    keys_of,
    reader_of,
    still_runs,
    tensors_in,
)
from hetune.variants.runtime.size_choices import size_of, size_of_counts
from hetune.variants.runtime.small_runs import SmallRuns
from hetune.variants.runtime.supported_calls import SupportedCall
from hetune.variants.runtime.thread_watch import ThreadWatch
from hetune.variants.runtime.weights import WeightCache, Weights

_MOST_SIZES = 8
_MOST_SEEN = 32
"""Graphs that are known to come back, as many as a layer remembers: they get an object."""


class NewGraphs:
    """What a layer runs on small graphs that are new in every call. Safe with several threads.

    Args:
        runs: Who chooses, and runs on other graphs.
        policy: How.
    """

    def __init__(self, runs: LayerRunner, policy: Policy) -> None:
        self._runs, self._policy = runs, policy
        self._calls: _CallsAlike | None = None
        self._sizes: dict[tuple[int, ...], _OfSize] = {}
        self._seen: OrderedDict[int, weakref.ref[Tensor]] = OrderedDict()
        self._rows: weakref.ref[Tensor] | None = None

    def result(self, module: nn.Module, args: tuple[Any, ...], last: LastCall) -> Any:
        """What a call gives; None where it has to go the ordinary way.

        Args:
            module: The layer's.
            args: All that the call gives.
            last: Told what it ran.
        """
        calls = self._calls
        if calls is None or not self._runs.expects_new(self._policy):
            return None
        if not calls.has(args) or self.has_seen(args):
            return None
        if self._rows is not None and self._rows() is _first(args[0]):
            return None  # whether it is mostly zeros is worth a look
        if (edges := calls.edges(module, args)) is None:
            return None
        nodes = sum(edges.nodes)
        size = size_of_counts(nodes, nodes, edges.num_edges)
        of_size = self._sizes.get(size)
        if of_size is None or of_size.weights.version is not calls.adapter.parameters_version():
            return None
        if (found := of_size.run(edges)) is None:
            self._calls = None  # numbers like these may come again, each time to run twice
        else:
            last.set(of_size.variant, None)
            self._remember(args)
        return found

    def has_seen(self, args: tuple[Any, ...]) -> bool:
        """Whether the edges of a call are those of one before, as far as is known."""
        edges = _first(args[1]) if len(args) > 1 else None
        seen = self._seen.get(id(edges))
        return seen is not None and seen() is edges

    def _remember(self, args: tuple[Any, ...]) -> None:
        x, edges = _first(args[0]), _first(args[1])
        self._seen[id(edges)], self._rows = weakref.ref(edges), weakref.ref(x)
        while len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    def learn(
        self,
        prepared: SupportedCall,
        args: tuple[Any, ...],
        variants: Mapping[str, Variant],
        last: LastCall,
        kept: WeightCache,
    ) -> None:
        """Makes ready for calls like one that ran the ordinary way.

        Args:
            prepared: What it read as.
            args: All that it gave.
            variants: Of the layer, by id.
            last: What it ran.
            kept: Weights of the layer.
        """
        (adapter, call, graph), backend = prepared, self._runs.backend
        if type(graph) is not HeteroGraph or not isinstance(backend, CppBackend):
            return
        variant = variants.get(last.variant or "")  # perhaps what another thread ran
        if variant is None or max(graph.num_nodes, graph.num_edges) >= SMALL:
            return
        if not self._runs.is_of_size(variant.id, graph, self._policy):
            return
        weights = kept.weights(variant.plan, adapter, graph, call.edges)
        size = size_of(graph)
        known = self._sizes.get(size)
        is_known = known is not None and known.weights.version is weights.version
        if (is_known and self._calls) or not weights.fit:
            return
        calls = _CallsAlike.of(adapter, call, args)
        if calls is None or call.loose_edges() is None:
            return
        if not is_known:
            runs = SmallRuns.of(variant, graph, backend, weights.tensors, size[:3])
            if runs is None:
                return
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            watch = self._runs.watch(Chosen(variant), graph)
            self._sizes[size] = _OfSize(variant.id, runs, weights, watch)
        self._calls = calls


class _CallsAlike:
    """Calls with the same kinds of tensors, or of dictionaries of them."""

    def __init__(self, adapter: Adapter, read: RepeatReader, args: tuple[Any, ...]) -> None:
        self.adapter, self._read = adapter, read
        self._keys = [*map(keys_of, args)]
        self._kinds = [*map(_kind, tensors_in(args))]

    @classmethod
    def of(cls, adapter: Adapter, call: Call, args: tuple[Any, ...]) -> _CallsAlike | None:
        """Those like one of a layer; None where there may be none."""
        if (read := reader_of(adapter, call, args)) is None:
            return None
        rows, others = tensors_in(args[:1]), tensors_in(args[1:])
        is_read = rows and others and all(map(is_rows, rows)) and all(map(is_in_memory, others))
        return cls(adapter, read, args) if is_read else None

    def has(self, args: tuple[Any, ...]) -> bool:
        """Whether a call that gives these is one of them and needs no gradients."""
        if len(args) != len(self._keys) or not is_plain("cpu"):
            return False
        if [*map(keys_of, args)] != self._keys:
            return False
        for given, kind in zip(tensors_in(args), self._kinds, strict=True):
            if type(given) is not kind[0] or given.is_nested or _kind(given) != kind:
                return False
        return True

    def edges(self, module: nn.Module, args: tuple[Any, ...]) -> LooseEdges | None:
        """Those of such a call; None where the module is no longer what it was."""
        if not still_runs(self.adapter, module) or (call := self._read(args)) is None:
            return None
        return call.loose_edges()


def _first(given: Any) -> Any:
    """A tensor of those that are given together; None where there are none."""
    return next(iter(given.values()), None) if type(given) is dict else given


def _kind(given: Tensor) -> tuple[object, ...]:
    """Equal for tensors that differ in how many rows they have, or [2, E] edges."""
    shape, dtype = given.shape, given.dtype
    fixed = shape[:1] if len(shape) == 2 and not dtype.is_floating_point else shape[1:]
    return type(given), dtype, given.layout, given.is_cpu, len(shape), fixed


class _OfSize:
    """A variant on graphs of a size."""

    def __init__(
        self, variant: str, runs: SmallRuns, weights: Weights, watch: ThreadWatch | None
    ) -> None:
        self.variant, self.weights = variant, weights
        self._runs, self._watch, self._lock = runs, watch, threading.Lock()

    def run(self, edges: LooseEdges) -> Any:
        """The result, as the call returns it."""
        watch = self._watch if may_use_fewer() else None
        threads = kernel_threads() if watch is None else watch.threads
        record_used_threads(threads)
        with self._lock:
            out = self._runs.prepared(edges)
            if out is None:
                return None
            start = perf_counter()
            is_exact = self._runs.run(threads)
            if watch is not None:
                watch.record(threads, perf_counter() - start)
        return edges.result(out) if is_exact else None

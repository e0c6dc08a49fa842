"""Calls that each bring a batch of edges, such as scores of triples: what ran before runs again.

A native call checks the ids and copies them to where the kernels of an earlier batch, of as many
edges, look for them. Whatever does not fit goes the ordinary way, which gives the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.call import Call, RepeatReader
from hetune.variants.graph.edge_batch import MOST_EDGES, EdgeBatch
from hetune.variants.graph.lazy_tensors import materialized
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.choice import Chosen
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.layer_status import LastCall
from hetune.variants.runtime.modes import is_plain
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.repeated_calls import is_in_memory, is_rows, reader_of, still_runs
from hetune.variants.runtime.supported_calls import SupportedCall
from hetune.variants.runtime.weights import WeightCache

_MOST_COUNTS = 4
"""Numbers of edges that a layer has a batch of."""


class BatchCalls:
    """What a layer runs on batches of edges. One call at a time: others go the ordinary way.

    Args:
        runs: Who chooses, and runs on other graphs.
        policy: How.
        weights: Of the layer.
    """

    def __init__(self, runs: LayerRunner, policy: Policy, weights: WeightCache) -> None:
        self._runs, self._policy, self._weights = runs, policy, weights
        self._calls: _CallsAlike | None = None
        self._of_count: dict[int, _OfCount] = {}
        self._lock = threading.Lock()

    def result(self, module: nn.Module, args: tuple[Any, ...], last: LastCall) -> Tensor | None:
        """What a call gives; None where it has to go the ordinary way.

        Args:
            module: The layer's.
            args: All that the call gives.
            last: Told what it ran.
        """
        calls = self._calls
        if calls is None or not calls.has(args) or not still_runs(calls.adapter, module):
            return None
        call = calls.read(args)
        ids = None if call is None else call.batch_ids()
        if call is None or ids is None or not self._lock.acquire(blocking=False):
            return None
        try:
            known = self._of_count.get(len(ids[0]))
            if known is None or known.demands != self._runs.demands(self._policy):
                return None
            if not known.batch.replace_ids(*ids):
                return None
            weights = self._weights.weights(known.plan, calls.adapter, known.batch)
            found = known.run(call.inputs(known.batch), weights.tensors)
        finally:
            self._lock.release()
        if found is None or not weights.fit:
            self._calls = None  # numbers like these may come again, each time to run twice
            return None
        last.set(known.variant, None)
        return found

    def learn(self, prepared: SupportedCall, args: tuple[Any, ...]) -> None:
        """Makes ready for calls like one that ran the ordinary way.

        Args:
            prepared: What it read as.
            args: All that it gave.
        """
        adapter, call, graph = prepared
        if not isinstance(graph, EdgeBatch) or (ids := call.batch_ids()) is None:
            return
        chosen, demands = self._runs.kept(graph, self._policy), self._runs.demands(self._policy)
        if chosen is None or chosen.bound is None or not _fits(chosen, graph):
            return
        if self._calls is None or not self._calls.has(args):
            self._calls, self._of_count = _CallsAlike.of(adapter, call, args), {}
        known = self._of_count.get(graph.num_edges)
        if self._calls is None or (known is not None and known.demands == demands):
            return
        batch = call.graph()  # the call's own, unless another thread has taken that
        if (chosen := self._runs.kept(batch, self._policy)) is None:
            return
        kept = {**self._of_count, graph.num_edges: _OfCount(batch, chosen, demands)}
        self._of_count = dict([*kept.items()][-_MOST_COUNTS:])


class _CallsAlike:
    """Calls with rows of the same shapes."""

    def __init__(self, adapter: Adapter, read: RepeatReader, args: tuple[Tensor, ...]) -> None:
        self.adapter, self.read = adapter, read
        self._shapes = [each.shape if is_rows(each) else None for each in args]

    @classmethod
    def of(cls, adapter: Adapter, call: Call, args: tuple[Any, ...]) -> _CallsAlike | None:
        """Those like one of a layer; None where there may be none."""
        read = reader_of(adapter, call, args)
        return None if read is None else cls(adapter, read, args)

    def has(self, args: tuple[Any, ...]) -> bool:
        """Whether a call that gives these is one of them and needs no gradients."""
        if len(args) != len(self._shapes) or not is_plain("cpu"):
            return False
        for given, shape in zip(args, self._shapes, strict=True):
            if shape is None:
                if not is_in_memory(given):
                    return False
            elif not is_rows(given) or given.shape != shape or not given.is_cpu:
                return False
        return True


class _OfCount:
    """A variant on a batch, whose ids may be replaced by as many others."""

    def __init__(self, batch: EdgeBatch, chosen: Chosen, demands: tuple[object, ...]) -> None:
        assert chosen.bound is not None
        self.batch, self.demands, self._bound = batch, demands, chosen.bound
        self.variant, self.plan = chosen.variant.id, chosen.variant.plan
        (self._result,) = facts_of(self.plan).results

    def run(self, rows: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> Tensor | None:
        """The result [E]; None where a number outgrew float32."""
        out = torch.empty(self.batch.num_edges, dtype=torch.float32, device="cpu")
        given = {name: materialized(each) for name, each in rows.items()}
        is_exact = self._bound.run_in_place({**weights, **given, self._result.buffer: out})
        return out if is_exact else None


def _fits(chosen: Chosen, batch: EdgeBatch) -> bool:
    """Whether other edges may take the place of a batch's, and results are a number for each."""
    results = facts_of(chosen.variant.plan).results
    is_score = [(each.type.space, each.type.width) for each in results] == [(Space.EDGE, 1)]
    return is_score and batch.num_edges <= MOST_EDGES and batch.is_replaceable

"""Calls that each bring a batch of edges, such as scores of triples: what ran before runs again.

Such a call changes addresses. A native routine checks its ids and copies them to where the kernels
of an earlier batch, of as many edges, look for them. What does not fit goes the ordinary way, which
gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.backends.cpp.runner import CppRunner
from hetune.variants.fork_locks import new_lock
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.call import Ids, RepeatReader
from hetune.variants.frontend.parameters_version import ParametersVersion
from hetune.variants.graph.edge_batch import MOST_EDGES, EdgeBatch
from hetune.variants.graph.threads import record_used_threads, thread_limits
from hetune.variants.program.nodes import Space
from hetune.variants.runtime import global_hooks
from hetune.variants.runtime.bound_run import BoundRun
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.choice import Chosen
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.layer_status import LastCall
from hetune.variants.runtime.modes import is_plain
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.repeated_calls import is_rows, reader_of, still_runs
from hetune.variants.runtime.supported_calls import SupportedCall
from hetune.variants.runtime.weights import WeightCache, Weights

_MOST_COUNTS = 4
"""Numbers of edges that a layer has a batch of."""
_CPU = torch.device("cpu")
_Tables = Mapping[str, Any]


class BatchCalls:
    """What a layer runs on batches of edges. One call at a time: others go the ordinary way.

    Args:
        runs: Who chooses, and runs on other graphs.
        policy: How.
        weights: Of the layer.
    """

    def __init__(self, runs: LayerRunner, policy: Policy, weights: WeightCache) -> None:
        self._runs, self._policy, self._weights = runs, policy, weights
        self._reader: tuple[Adapter, RepeatReader] | None = None
        self._of_shape: dict[torch.Size, _BoundBatch] = {}
        self._lock = new_lock()

    def result(self, module: nn.Module, args: tuple[Any, ...], last: LastCall) -> Tensor | None:
        """What a call gives; None where it has to go the ordinary way.

        Args:
            module: The layer's.
            args: All that the call gives.
            last: Told what it ran.
        """
        if self._reader is None or not still_runs(self._reader[0], module):
            return None
        call = self._reader[1](args)
        if call is None or (given := call.edge_batch()) is None:
            return None
        ids, rows = given
        return self.of_tables(ids, {**module._parameters, **rows}, last)

    def of_tables(self, ids: Ids, tables: _Tables, last: LastCall | None = None) -> Tensor | None:
        """As `result`, for a layer that is nothing but its program.

        Args:
            ids: What the call gives for sources, destinations and types.
            tables: Likewise for the program's features and the layer's weights, by name.
            last: Told what ran, if it is there.
        """
        if type(ids[0]) is not Tensor or not is_plain("cpu") or global_hooks.are_registered():
            return None
        bound = self._of_shape.get(ids[0].shape)
        if bound is None or not self._lock.acquire(blocking=False):
            return None
        try:
            found = bound.run(ids) if bound.place(tables) else None
        finally:
            self._lock.release()
        if found is not None and last is not None:
            last.set(bound.variant, None)
        return found

    def learn(self, prepared: SupportedCall, args: tuple[Any, ...]) -> None:
        """Makes ready for calls like one that ran the ordinary way.

        Args:
            prepared: What it read as.
            args: All that it gave.
        """
        adapter, call, graph = prepared
        if not isinstance(graph, EdgeBatch) or (given := call.edge_batch()) is None:
            return
        reader = reader_of(adapter, call, args)
        if reader is None or not graph.is_replaceable or graph.num_edges > MOST_EDGES:
            return
        ids, rows = given
        with self._lock:
            known = self._of_shape.get(ids[0].shape)
            if known is not None and known.is_now({**adapter.module._parameters, **rows}):
                return  # it was at work
            self._of_shape.pop(ids[0].shape, None)
            is_kept = known is not None and self._runs.kept(known.batch, self._policy)
            batch = known.batch if known is not None and is_kept else call.graph()
            chosen = self._runs.kept(batch, self._policy)
            if chosen is None or not isinstance(batch, EdgeBatch):
                return
            weights = self._weights.weights(chosen.variant.plan, adapter, batch)
            bound = _BoundBatch.of(batch, chosen, adapter.module, rows, weights)
            if bound is None:
                return
            if len(self._of_shape) >= _MOST_COUNTS:
                self._of_shape.clear()
            self._of_shape[ids[0].shape], self._reader = bound, (adapter, reader)


class _BoundBatch:
    """A variant on a batch, whose ids may be replaced by as many others, and tables by others."""

    def __init__(
        self,
        batch: EdgeBatch,
        variant: str,
        run: BoundRun,
        names: Mapping[str, str],
        tables: Mapping[str, Tensor],
        fixed: Mapping[str, Tensor],
    ) -> None:
        self.batch, self.variant, self._kept = batch, variant, fixed
        self._watch, self._limits = run.watch, thread_limits()
        plan = run.executable.plan
        self._runners = [each for each in run.executable.runners if isinstance(each, CppRunner)]
        places = dict[str, list[tuple[Any, int]]]()
        bases = {view.name: view.base for view in plan.views}
        for runner in self._runners:
            for position, name in runner.buffers:
                base = bases.get(name, name)
                if base in fixed:
                    runner.pointers[position] = fixed[base].data_ptr()
                else:
                    place = runner.pointers, position
                    places.setdefault(names.get(base, base), []).append(place)
        self._result, self._count = places[plan.results[0]], batch.num_edges
        self._tables = [(name, t.shape, places.get(name, ())) for name, t in tables.items()]
        self._made: tuple[ParametersVersion, list[str]] | None = None

    @classmethod
    def of(
        cls,
        batch: EdgeBatch,
        chosen: Chosen,
        module: nn.Module,
        rows: Mapping[str, Tensor],
        weights: Weights,
    ) -> _BoundBatch | None:
        """That of a batch; None where it has to be run otherwise.

        Args:
            batch: The batch.
            chosen: What is kept with it.
            module: The layer's.
            rows: Of the program's features, by name.
            weights: What the plan reads of the module.
        """
        plan, run, own = chosen.variant.plan, chosen.bound, module._parameters
        results = [(each.type.space, each.type.width) for each in facts_of(plan).results]
        if run is None or not weights.fit or results != [(Space.EDGE, 1)]:
            return None
        tables, at = dict[str, Tensor](), dict[int, str]()
        for name, table in (*own.items(), *rows.items()):
            if not is_rows(table) or not table.is_contiguous() or not table.numel():
                return None
            tables[name] = table
            if name in own:
                at[table.data_ptr()] = name
        executable = run.executable
        if len(at) < len(own) or not all(isinstance(r, CppRunner) for r in executable.runners):
            return None  # two tables in one place cannot be told apart
        in_place = {
            name: at[weight.data_ptr()]
            for name, weight in weights.tensors.items()
            if weight.data_ptr() in at and weight.numel() == tables[at[weight.data_ptr()]].numel()
        }
        made = {n: weight for n, weight in weights.tensors.items() if n not in in_place}
        fixed = {**executable.fixed(), **made}
        fixed.pop(plan.results[0], None)
        found = cls(batch, chosen.variant.id, run, in_place, tables, fixed)
        found._made = (weights.version, [*own]) if made else None
        return found

    def is_now(self, tables: _Tables) -> bool:
        """Whether nothing but ids is in the way of running with these."""
        return self._limits == thread_limits() and self.place(tables)

    def place(self, tables: _Tables) -> bool:
        """Makes the next run read these, if it can."""
        if len(tables) != len(self._tables):
            return False
        for name, shape, places in self._tables:
            table = tables.get(name)
            if not is_rows(table) or table.shape != shape or not table.is_cpu:
                return False
            if table.is_neg() or not table.is_contiguous() or not (address := table.data_ptr()):
                return False
            for pointers, position in places:
                pointers[position] = address
        if self._made is None:
            return True
        version, names = self._made
        return version.is_now([tables[name] for name in names])

    def run(self, ids: Ids) -> Tensor | None:
        """The result [E]; None of ids that do not fit, or where a number outgrows float32."""
        if self._limits != thread_limits() or not self.batch.replace_ids(*ids):
            return None
        out = torch.empty(self._count, dtype=torch.float32, device=_CPU)
        address, watch = out.data_ptr(), self._watch
        for pointers, position in self._result:
            pointers[position] = address
        threads = self._limits[0] if watch is None else watch.threads
        record_used_threads(threads)
        start = perf_counter()
        outgrown = [runner.run(threads) for runner in self._runners]
        if watch is not None:
            watch.record(threads, perf_counter() - start)
        return None if any(outgrown) else out

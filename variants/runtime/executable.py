"""A plan bound to a graph: everything looked up, ready to run again and again.

Launches that have nothing to do on the graph are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from hetune.variants.backends.base import SCRATCH, TERMS, Backend
from hetune.variants.backends.triton.backend import TritonRunner
from hetune.variants.backends.triton.native_start import NativeStart, native_start
from hetune.variants.graph.float_memory import ELEMENT
from hetune.variants.graph.streams import synchronize
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.nodes import Element
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.nodes import ALL_EDGES
from hetune.variants.runtime.domain import Domain, ascends
from hetune.variants.runtime.edge_rows import IN_GRAPH_ORDER, EdgeOrders
from hetune.variants.runtime.float32_range import Overflow
from hetune.variants.runtime.memory import Layout, layout_of
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.plan_inputs import RowCheck, constants_of, reorder
from hetune.variants.runtime.results import Results
from hetune.variants.runtime.seen import SeenTensor
from hetune.variants.runtime.workspace import Workspace

_Key = TypeVar("_Key")
_MOST_CONSTANTS = 32
"""Sets of tensors that constants are kept of, as many as a layer remembers graphs."""


class Executable:
    """Runs one plan on one graph. Safe to call from several threads.

    On the CPU runs on a graph take turns; on another device they are ordered by their streams.

    Args:
        plan: What to run.
        domain: The graph to run it on.
        backend: What compiles and runs its launches.
        schedules: One for each launch.

    Attributes:
        runners: Of the launches that have something to do.

    Raises:
        CompileError: A launch cannot be compiled.
    """

    def __init__(
        self, plan: Plan, domain: Domain, backend: Backend, schedules: tuple[AnySchedule, ...]
    ) -> None:
        self.plan = plan
        facts = facts_of(plan)
        if domain.device is None:
            domain.index(ALL_EDGES).small(facts.groups)
        self.layout: Layout = layout_of(plan, schedules, domain)
        self._domain = domain
        self._features = tuple(RowCheck(param, domain) for param in facts.features)
        self._given = facts.constants
        self._constants = {} if self._given else constants_of(plan, domain)
        self._kept: dict[tuple[int, ...], _KeptConstants] = {}
        self._kept_edges: dict[str, _KeptRows] = {}
        self._ways: dict[int, tuple[Tensor, Tensor | None]] = {}
        order = domain.edge_order if facts.reordered else None
        self._edge_features = tuple((name, order) for name in facts.reordered)
        self.runners = tuple(
            backend.bind(launch, schedule, domain)
            for launch, schedule in zip(plan.launches, schedules, strict=True)
            if domain.runs(launch)
        )
        self.device = domain.place
        self.workspace = Workspace.of(domain.graph) if domain.device is None else None
        self.results = Results(facts.results, domain, self.workspace)
        self._native = self._native_start()
        self._builds = -1
        self._has_released = domain.device is not None or not backend.keeps_indexes
        synchronize(domain.device)

    def run(
        self,
        features: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        out: Tensor | None = None,
        mark: Callable[[], object] | None = None,
        overflow: Overflow | None = None,
        orders: EdgeOrders = IN_GRAPH_ORDER,
    ) -> tuple[Tensor, ...]:
        """The plan's results, [rows, *row shape] each; rows of edges in the graph's order.

        Args:
            features: A float32 tensor [rows, *row shape] for each feature of the program, on the
                executable's device; rows of edges in the graph's order.
            weights: What `weights_of` gives for the plan, and `constants`.
            out: Where to write a plan's one result: float32, contiguous, [rows, *row shape].
            mark: Called before the first launch and after each that the graph has rows for
                (`Domain.runs`), to note the time.
            overflow: Told of a number that outgrew float32. On a GPU nobody is.
            orders: Of edges, where that is another one.

        Raises:
            InputError: A tensor's dtype, shape or device does not fit.
        """
        given = self.inputs(features)
        read = {} if out is None else {**self._constants, **weights, **given}
        results = self.results.allocate(out, read)
        self.start(given, weights, results, mark, overflow, orders)
        return results

    def start(
        self,
        given: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        results: tuple[Tensor, ...],
        mark: Callable[[], object] | None = None,
        overflow: Overflow | None = None,
        orders: EdgeOrders = IN_GRAPH_ORDER,
    ) -> None:
        """Computes the results where they are to be.

        Args:
            given: What `inputs` gives.
            weights: As of `run`.
            results: What `Results.allocate` gives.
            mark: As of `run`.
            overflow: As there.
            orders: As there.
        """
        written = self.results.written(results, keeps_order=orders.kept)
        buffers = {**self._constants, **weights, **given, **written}
        if mark is None and self._native is not None and self._native(buffers):
            return
        with self.workspace.lock if self.workspace else nullcontext():
            memory = self.memory()
            for name, order in self._edge_features:
                if (places := orders.places.get(name)) is None:
                    memory[name] = self._in_order(name, given[name], order, memory[name])
                elif (way := self._way(places, order)) is None:
                    memory[name] = given[name]
                else:
                    reorder(given[name].detach(), way, memory[name])
            buffers |= memory
            buffers |= written
            for view in self.plan.views:
                buffers[view.name] = buffers[view.base]
            if mark is not None:
                mark()
            for runner in self.runners:
                if runner(buffers) and overflow is not None:
                    overflow.record()
                if mark is not None:
                    mark()
            if not orders.kept:
                self.results.reorder(results, buffers)

    def _native_start(self) -> NativeStart | None:
        """What starts the whole plan on a GPU; None where launches have to be started in turn."""
        if self._edge_features or self.results.are_reordered:
            return None
        runners = [runner for runner in self.runners if isinstance(runner, TritonRunner)]
        if not runners or len(runners) < len(self.runners):
            return None
        offsets = {n: at for n, at in self.layout.offsets.items() if n not in self.plan.results}
        names = {view.name: view.base for view in self.plan.views}
        launches = [runner.launch for runner in runners]
        return native_start(launches, self.device, offsets, self.layout.arena_bytes, names)

    def _in_order(self, name: str, rows: Tensor, order: Tensor | None, place: Tensor) -> Tensor:
        """Rows of edges in the index's order: kept where the same tensor comes again, unchanged."""
        if order is None:
            return rows
        kept = self._kept_edges.get(name)
        if kept is None or not kept.seen.is_now(rows):
            self._kept_edges.pop(name, None)
            reorder(rows.detach(), order, place)
            if self.workspace is not None and not rows.is_inference():
                seen = SeenTensor(rows, _forgetting(self._kept_edges, name))
                self._kept_edges[name] = _KeptRows(seen)
            return place
        if kept.rows is None:
            kept.rows = torch.empty_like(place)
            reorder(rows.detach(), order, kept.rows)
        return kept.rows

    def _way(self, places: Tensor, order: Tensor | None) -> Tensor | None:
        """Where rows with these places have each edge of the index; None: where it has them."""
        known = self._ways.get(id(places))
        if known is None:
            way = places if order is None else places.index_select(0, order)
            known = self._ways[id(places)] = places, None if ascends(way) else way
        return known[1]

    def release_indexes(self) -> None:
        """Lets go of indexes that no kernel reads, if none was built since this was called before.

        To be called before a run, where no choice is to come: choosing and indexing need more than
        kernels do. Once, and on the CPU alone.
        """
        if not self._has_released:
            retention = self._domain.index(ALL_EDGES).retention
            before, self._builds = self._builds, retention.builds
            if before == self._builds:
                retention.release()
                self._has_released = True

    def inputs(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The features that the program takes, checked and contiguous.

        Raises:
            InputError: A tensor's dtype, shape or device does not fit.
        """
        return {check.name: check(features[check.name]) for check in self._features}

    def constants(self, given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What launches read of the program's constants, to be passed to `run` with the weights.

        Made once for the same tensors, unchanged since; nothing where the program has none.

        Args:
            given: Rows [rows, *row shape] by name, edges in the graph's order.

        Raises:
            InputError: A tensor's dtype, shape or device does not fit.
        """
        if not self._given:
            return {}
        tensors = tuple(given[name] for name in self._given)
        key = tuple(map(id, tensors))
        kept = self._kept.get(key)
        if kept is None or not kept.is_now(tensors):
            with torch.inference_mode(False), torch.no_grad():
                made = constants_of(self.plan, self._domain, given)
            synchronize(self._domain.device)
            forget = _forgetting(self._kept, key)
            kept = _KeptConstants(tuple(SeenTensor(t, forget) for t in tensors), made)
            if len(self._kept) >= _MOST_CONSTANTS:
                self._kept.clear()
            if not any(tensor.is_inference() for tensor in tensors):
                self._kept[key] = kept
        return kept.made

    def fixed(self) -> dict[str, Tensor]:
        """What is the same in all runs where nobody else runs on the graph, by buffer."""
        return {**self._constants, **self.memory()}

    def memory(self) -> dict[str, Tensor]:
        """What a run writes beside its result, by buffer; the workspace's lock must be held.

        Without a workspace every run has memory of its own, of torch's allocator, so that runs on
        different streams do not meet.
        """
        if self.workspace is None:
            elements = self.layout.arena_bytes // ELEMENT
            arena = torch.empty(elements, dtype=torch.float32, device=self.device)
            return self.slice(arena)
        scratch = self.layout.scratch_bytes * kernel_threads()
        return {**self.workspace.slices(self), SCRATCH: self.workspace.scratch(scratch)}

    def slice(self, arena: Tensor) -> dict[str, Tensor]:
        """The plan's temporaries in an arena of at least `layout.arena_bytes`."""
        temporaries: dict[str, Tensor] = {}
        if TERMS in self.layout.offsets:
            temporaries[TERMS] = arena[self.layout.offsets[TERMS] // ELEMENT :]
        for buffer in self.plan.temporaries:
            if buffer.name in self.layout.offsets:
                start = self.layout.offsets[buffer.name] // ELEMENT
                rows = self._domain.buffer_rows(buffer.type)
                flat = arena[start : start + rows * buffer.row_bytes // ELEMENT]
                if buffer.element is Element.BFLOAT16:
                    flat = flat.view(torch.bfloat16)
                temporaries[buffer.name] = flat.view(rows, *buffer.type.shape)
        return temporaries


def _forgetting(known: dict[_Key, Any], key: _Key) -> Callable[[object], None]:
    def forget(_: object) -> None:
        known.pop(key, None)

    return forget


@dataclass(slots=True)
class _KeptRows:
    seen: SeenTensor
    rows: Tensor | None = None


@dataclass(frozen=True, slots=True)
class _KeptConstants:
    seen: tuple[SeenTensor, ...]
    made: dict[str, Tensor]

    def is_now(self, tensors: tuple[Tensor, ...]) -> bool:
        return all(seen.is_now(tensor) for seen, tensor in zip(self.seen, tensors, strict=True))

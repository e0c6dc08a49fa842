"""A variant's runs on one small graph after another, in the memory of the largest of their size."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from time import perf_counter
from types import MappingProxyType

import torch
from torch import Tensor

from hetune.variants.backends.base import SCRATCH
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.cpp.reused_launch import ReusedLaunch, place_of_count
from hetune.variants.fork_locks import new_lock
from hetune.variants.frontend.call import LooseEdges
from hetune.variants.graph.float_memory import ELEMENT, allocate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.lazy_tensors import materialized
from hetune.variants.graph.reused_index import ReusedChunks, ReusedIndex
from hetune.variants.graph.row_groups import num_blocks
from hetune.variants.graph.small_index import are_made, found_size
from hetune.variants.graph.threads import kernel_threads, may_use_fewer, record_used_threads
from hetune.variants.kernel.nodes import Launch, Outer, Schedule
from hetune.variants.kernel.scratch import scratch_for
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.variants import Variant
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.choice import Chosen
from hetune.variants.runtime.float32_range import may_differ
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.memory import lay_out
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.plan_inputs import derived_constants, is_of_all_edges
from hetune.variants.runtime.size_choices import size_of
from hetune.variants.runtime.thread_watch import ThreadWatch

_MOST_BYTES = 1 << 23
"""Of memory: where runs take more, it is not to be kept, and a graph object costs little beside."""


class SmallRuns:
    """Kernels with all that they are called with: a new graph changes numbers there alone.

    One run at a time: who shares it takes turns.
    """

    def __init__(
        self,
        plan: Plan,
        launches: tuple[ReusedLaunch, ...],
        index: ReusedIndex,
        block_nodes: int,
        addresses: Mapping[str, int],
        weights: Mapping[str, Tensor],
        kept: tuple[object, ...],
    ) -> None:
        self._launches, self._index, self._block_nodes = launches, index, block_nodes
        self._plan, self._kept, self._weights = plan, kept, weights
        self._most_threads = kernel_threads()  # that there is scratch memory for
        self._rows: Mapping[str, Tensor] = {}
        facts, bases = facts_of(plan), {view.name: view.base for view in plan.views}
        self._given = [p for p in plan.program.params if p.role != "weight"]
        names = zip(plan.program.results, facts.results, strict=True)
        self._results = [(name, each.buffer, each.type) for name, each in names]
        self._of_edges = [name for name, _, kind in self._results if kind.space is Space.EDGE]
        own = {*facts.reordered, *plan.results}
        self._places: dict[str, list[tuple[ctypes.Array[ctypes.c_void_p], int]]] = {}
        for launch in launches:
            for position, name in launch.code.buffers:
                base = bases.get(name, name)
                if base in addresses and base not in own:
                    launch.pointers[position] = addresses[base]
                else:
                    self._places.setdefault(base, []).append((launch.pointers, position))

    @classmethod
    def of(
        cls,
        variant: Variant,
        graph: HeteroGraph,
        backend: CppBackend,
        weights: Mapping[str, Tensor],
    ) -> SmallRuns | None:
        """Those of a variant; None where it needs more of graphs than their edges.

        Args:
            variant: What to run.
            graph: One of the size, with as many types.
            backend: What has compiled it.
            weights: What it reads of them, kept; the others are given with each graph.
        """
        plan, groups = variant.plan, facts_of(variant.plan).groups
        schedules = [each for each in variant.schedules if isinstance(each, Schedule)]
        block_nodes = {schedule.block_nodes for schedule in schedules}
        if len(block_nodes) > 1 or not _fits(plan):
            return None
        nodes, _, edges = ((1 << bits) - 1 for bits in size_of(graph)[:3])
        most = dict.fromkeys((Space.EDGE, Space.SRC_PAIR, Space.DST_PAIR), edges)
        most |= dict.fromkeys((Space.NODE, Space.SOURCE), nodes)
        fixed = {Space.SHARED: 1, Space.NTYPE: graph.num_ntypes, Space.ETYPE: graph.num_etypes}
        layouts = [scratch_for(launch, lambda of, _: most[Space(of)]) for launch in plan.launches]
        made = [
            ReusedLaunch.of(backend.loaded(launch, schedule), layout, fixed)
            for launch, schedule, layout in zip(plan.launches, schedules, layouts, strict=True)
        ]
        launches = tuple(each for each in made if each)
        pointers = [pair for launch in launches for pair in launch.arrays]
        if len(launches) < len(made) or not are_made((place for _, place in pointers), groups):
            return None
        keys = {launch.chunks[0]: None for launch in launches if launch.chunks}
        chunks = {key: ReusedChunks(place_of_count(key[0]), key[1], most[key[0]]) for key in keys}
        terms = max((each.most_terms for each in chunks.values()), default=0)
        width = max((_width_of_terms(launch) for launch in plan.launches), default=0)
        arena = lay_out(
            plan, lambda kind: {**most, **fixed}[kind.space], term_bytes=terms * width * ELEMENT
        )
        stride = max(layout.stride for layout in layouts) * kernel_threads()
        if arena.arena_bytes + stride * ELEMENT > _MOST_BYTES:
            return None
        memory, scratch = allocate(arena.arena_bytes // ELEMENT), allocate(stride)
        addresses = {name: memory.data_ptr() + at for name, at in arena.offsets.items()}
        addresses |= {name: tensor.data_ptr() for name, tensor in weights.items()}
        addresses[SCRATCH] = scratch.data_ptr()
        (block,) = block_nodes
        etypes, blocks = graph.num_etypes, num_blocks(nodes, block)
        sizes = edges, nodes, etypes, graph.num_ntypes, groups, blocks
        counts = [pair for launch in launches for pair in launch.found]
        for at, key in enumerate(keys, found_size(etypes)):
            uses = (launch for launch in launches if launch.chunks and launch.chunks[0] == key)
            counts += [(address, at) for launch in uses for address in launch.chunk_blocks]
        index = ReusedIndex(*sizes, pointers, counts, tuple(chunks.values()))
        for launch in launches:
            for position in launch.node_types:
                launch.pointers[position] = index.ntype.data_ptr()
            if launch.chunks:
                own = chunks[launch.chunks[0]].addresses
                for position, field in launch.chunks[1]:
                    launch.pointers[position] = own[field]
        kept = dict(weights), (memory, scratch)
        return cls(plan, launches, index, block, addresses, *kept)

    def prepared(
        self, edges: LooseEdges, rows: Mapping[str, Tensor], weights: Mapping[str, Tensor]
    ) -> dict[str, Tensor] | None:
        """Takes a graph in place of the one before.

        Args:
            edges: Of the graph, whose numbers have the bits that were said.
            rows: Features and constants by name, and perhaps more.
            weights: What is read of them, but what is kept.

        Returns:
            Where the next `run` writes each result [rows, *row shape], by its name, edges in the
            index's order; None where an id is out of range, or rows are not as many as they should
            be.
        """
        parts, nodes = edges.parts, edges.nodes
        if any(src.shape != dst.shape or src.dim() != 1 for src, dst, *_ in parts):
            return None
        count = sum(nodes)
        blocks = num_blocks(count, self._block_nodes)
        is_in_order = self._index.rebind(parts, nodes, blocks)
        if is_in_order is None:
            return None
        counts = {Space.NODE: count, Space.EDGE: sum(part.src.numel() for part in parts)}
        given = dict(weights)
        for param in self._given:
            own, space = materialized(rows[param.name].float()), param.type.space
            if own.numel() != counts[space] * param.type.width or own.device.type != "cpu":
                return None
            if space is Space.EDGE and not is_in_order:
                own = own.index_select(0, self._index.edge_id)
            given[param.name] = own
        if self._plan.constants:
            given |= derived_constants(self._plan, given, lambda _: self._index)
        found = {}
        for name, buffer, kind in self._results:
            shape = counts.get(kind.space, 1), *kind.shape
            found[name] = given[buffer] = torch.empty(shape, dtype=torch.float32, device="cpu")
        for name, places in self._places.items():
            address = given[name].data_ptr()
            for pointers, position in places:
                pointers[position] = address
        self._rows = given
        return found

    def in_order(self, results: dict[str, Tensor]) -> dict[str, Tensor]:
        """The results of the last run, edges as they were given."""
        for name in self._of_edges:
            rows = results[name]
            places = self._index.edge_id.long()
            results[name] = torch.empty_like(rows).index_copy_(0, places, rows)
        return results

    def run(self, threads: int) -> bool:
        """Computes the results, and says whether all numbers stayed within float32."""
        threads = min(threads, self._most_threads)  # a backward may be asked for with more
        overflowed = [launch(threads) for launch in self._launches]
        given, self._rows = self._rows, {}  # the caller's memory is not kept
        if not any(overflowed):
            return True
        results = {buffer for _, buffer, _ in self._results}
        inputs = [rows for name, rows in given.items() if name not in results]
        found = [given[name] for name in results]
        return not may_differ(found, (*inputs, *self._weights.values()))


class TimedRuns:
    """Such runs, with as many threads as pay. Safe with several threads.

    Args:
        variant: What runs.
        runs: Its runs.
        watch: Who watches them; None: all threads run them.
    """

    def __init__(self, variant: Variant, runs: SmallRuns, watch: ThreadWatch | None) -> None:
        self.variant, self._runs, self._watch = variant, runs, watch
        self._lock = new_lock()

    @classmethod
    def of(
        cls,
        runs: LayerRunner,
        variant: Variant,
        graph: HeteroGraph,
        weights: Mapping[str, Tensor],
    ) -> TimedRuns | None:
        """Those of a variant on new graphs of a size; None where these take graph objects.

        Args:
            runs: Who runs it on others.
            variant: What to run.
            graph: One of the size.
            weights: As of `SmallRuns.of`.
        """
        if not isinstance(runs.backend, CppBackend):
            return None
        found = SmallRuns.of(variant, graph, runs.backend, weights)
        return None if found is None else cls(variant, found, runs.watch(Chosen(variant), graph))

    def run(
        self,
        edges: LooseEdges,
        rows: Mapping[str, Tensor],
        weights: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> dict[str, Tensor] | None:
        """The results, edges as they were given; None where numbers outgrow float32, too.

        Args:
            edges: Of a graph.
            rows: As of `SmallRuns.prepared`; so are weights.
            weights: See there.
        """
        watch = self._watch if may_use_fewer() else None
        threads = kernel_threads() if watch is None else watch.threads
        record_used_threads(threads)
        with self._lock:
            found = self._runs.prepared(edges, rows, weights)
            if found is None:
                return None
            start = perf_counter()
            is_exact = self._runs.run(threads)
            if watch is not None:
                watch.record(threads, perf_counter() - start)
            return self._runs.in_order(found) if is_exact else None


def _width_of_terms(launch: Launch) -> int:
    kernel = launch.kernels[0]
    return kernel.heads * kernel.k * kernel.n if isinstance(kernel, Outer) else 0


def _fits(plan: Plan) -> bool:
    """Whether a plan reads and writes rows that `SmallRuns` have."""
    program = plan.program
    kinds = {param.type.space for param in program.params if param.role != "weight"}
    results = {program.type_of(name).space for name in program.results}
    has_rows = results <= {Space.NODE, Space.EDGE, Space.SHARED} and kinds <= {
        Space.NODE,
        Space.EDGE,
    }
    return has_rows and is_of_all_edges(plan)

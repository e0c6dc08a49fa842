"""A variant's runs on one small graph after another, in the memory of the largest of their size."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import torch
from torch import Tensor

from hetune.variants.backends.base import SCRATCH
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.cpp.reused_launch import ReusedLaunch
from hetune.variants.frontend.call import LooseEdges
from hetune.variants.graph.float_memory import ELEMENT, allocate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.lazy_tensors import materialized
from hetune.variants.graph.reused_index import ReusedIndex
from hetune.variants.graph.row_groups import num_blocks
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.kernel.nodes import Outer, Schedule
from hetune.variants.kernel.scratch import scratch_for
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.variants import Variant
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.memory import lay_out
from hetune.variants.runtime.plan_facts import facts_of
from hetune.variants.runtime.plan_inputs import derived_constants, is_of_all_edges

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
        kept: tuple[object, ...],
    ) -> None:
        self._launches, self._index, self._block_nodes = launches, index, block_nodes
        self._plan, self._kept = plan, kept
        self._rows: Mapping[str, Tensor] = {}
        bases = {view.name: view.base for view in plan.views}
        params = {p.name: p for p in plan.program.params if p.role != "weight"}
        self._result = plan.results[0]
        self._width = plan.program.type_of(plan.program.result).width
        self._given = list(params.items())
        self._places: dict[str, list[tuple[ctypes.Array[ctypes.c_void_p], int]]] = {}
        for launch in launches:
            for position, name in launch.code.buffers:
                base = bases.get(name, name)
                if base in addresses:
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
        size: tuple[int, ...],
    ) -> SmallRuns | None:
        """Those of a variant; None where it needs more of graphs than their edges.

        Args:
            variant: What to run.
            graph: One of this size, which it ran on.
            backend: What has compiled it.
            weights: What it reads of them; they are kept.
            size: Bits of the numbers of nodes, targets and edges.
        """
        plan, small = variant.plan, GraphIndex.of(graph).small()
        schedules = [each for each in variant.schedules if isinstance(each, Schedule)]
        block_nodes = {schedule.block_nodes for schedule in schedules}
        if small is None or len(block_nodes) > 1 or not _fits(plan):
            return None
        nodes, _, edges = ((1 << bits) - 1 for bits in size)
        most = dict.fromkeys((Space.EDGE, Space.SRC_PAIR, Space.DST_PAIR), edges)
        most |= dict.fromkeys((Space.NODE, Space.SOURCE), nodes)
        types = {Space.NTYPE: graph.num_ntypes, Space.ETYPE: graph.num_etypes}
        fixed = {Space.SHARED: 1, **types}
        layouts = [scratch_for(launch, lambda of, _: most[Space(of)]) for launch in plan.launches]
        made = [
            ReusedLaunch.of(backend.loaded(launch, schedule), layout, fixed)
            for launch, schedule, layout in zip(plan.launches, schedules, layouts, strict=True)
        ]
        launches = tuple(each for each in made if each and small.has(p for _, p in each.arrays))
        if len(launches) < len(made):
            return None
        arena = lay_out(plan, lambda kind: {**most, **fixed}[kind.space])
        stride = max(layout.stride for layout in layouts) * kernel_threads()
        if arena.arena_bytes + stride * ELEMENT > _MOST_BYTES:
            return None
        memory, scratch = allocate(arena.arena_bytes // ELEMENT), allocate(stride)
        addresses = {name: memory.data_ptr() + at for name, at in arena.offsets.items()}
        addresses |= {name: tensor.data_ptr() for name, tensor in weights.items()}
        addresses[SCRATCH] = scratch.data_ptr()
        (block,) = block_nodes
        index = ReusedIndex(
            edges,
            nodes,
            *(graph.num_etypes, graph.num_ntypes),
            facts_of(plan).groups,
            num_blocks(nodes, block),
            [pair for launch in launches for pair in launch.arrays],
            [pair for launch in launches for pair in launch.found],
        )
        for launch in launches:
            for position in launch.node_types:
                launch.pointers[position] = index.ntype.data_ptr()
        return cls(plan, launches, index, block, addresses, (memory, scratch, dict(weights)))

    def prepared(self, edges: LooseEdges) -> Tensor | None:
        """Takes a graph in place of the one before.

        Args:
            edges: Of the graph, whose numbers have the bits that were said.

        Returns:
            Where the next `run` writes its result; None where an id is out of range, or rows are
            not as many as they should be.
        """
        nodes = sum(edges.nodes)
        if any(src.shape != dst.shape or src.dim() != 1 for src, dst, *_ in edges.parts):
            return None
        blocks = num_blocks(nodes, self._block_nodes)
        is_in_order = self._index.rebind(edges.parts, edges.nodes, blocks)
        if is_in_order is None:
            return None
        given = {}
        for name, param in self._given:
            rows, count = materialized(edges.rows[name].float()), nodes
            if param.type.space is Space.EDGE:
                count = edges.num_edges
                if not is_in_order:
                    rows = rows.index_select(0, self._index.edge_id)
            if rows.numel() != count * param.type.width or rows.device.type != "cpu":
                return None
            given[name] = rows
        if self._plan.constants:
            given |= derived_constants(self._plan, given, lambda _: self._index)
        out = torch.empty(nodes * self._width, dtype=torch.float32, device="cpu")
        given[self._result] = out
        for name, places in self._places.items():
            address = given[name].data_ptr()
            for pointers, position in places:
                pointers[position] = address
        self._rows = given
        return out

    def run(self, threads: int) -> bool:
        """Computes the result, and says whether all numbers stayed within float32."""
        overflowed = [launch(threads) for launch in self._launches]
        self._rows = {}  # the caller's memory is not kept
        return not any(overflowed)


def _fits(plan: Plan) -> bool:
    """Whether a plan reads and writes rows that `SmallRuns` have."""
    program = plan.program
    kinds = {param.type.space for param in program.params if param.role != "weight"}
    results = [program.type_of(name).space for name in program.results]
    is_plain = results == [Space.NODE] and kinds <= {Space.NODE, Space.EDGE}
    sums_into_types = any(isinstance(k, Outer) for each in plan.launches for k in each.kernels)
    return is_plain and not (sums_into_types or facts_of(plan).reordered) and is_of_all_edges(plan)

"""What a plan needs before it can run: weights made from parameters, constants from the graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.lazy_tensors import materialized
from hetune.variants.graph.reused_index import ReusedIndex
from hetune.variants.graph.state import GraphSlot
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.apply import apply_map
from hetune.variants.program.interpret import interpret_all
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    End,
    Let,
    Map,
    Param,
    Program,
    Space,
    Take,
)
from hetune.variants.program.text import show_type
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.plan_facts import facts_of

_END_TYPES = GraphSlot[None, bytes]()


def weights_of(
    plan: Plan,
    values: Mapping[str, Tensor],
    graph: HeteroGraph,
    dtype: torch.dtype = torch.float64,
) -> dict[str, Tensor]:
    """What launches read of the parameters and of what is computed from them, contiguous float32.

    Args:
        plan: Whose weights.
        values: A tensor [types, *row shape] for each weight parameter.
        graph: Gives edge types their node types, where a weight moves between them.
        dtype: Of products of weights: where they are done once their rounding, which reaches every
            row, is not worth the time.

    Raises:
        InputError: The graph has more or fewer types than a parameter has rows.
    """
    facts = facts_of(plan)
    for param in facts.weights:
        _check_rows(param, values[param.name], graph)
    given = {param.name: values[param.name].detach() for param in facts.weights}
    found = {name: value for name, value in given.items() if name in facts.read}
    if facts.made is not None:
        dtype = torch.float32 if facts.is_moved else dtype
        exact = {param.name: given[param.name].to(dtype) for param in facts.made.params}
        found = {**interpret_all(facts.made, exact, graph, wanted=facts.read), **found}
    return {name: materialized(value.float()) for name, value in found.items()}


class TypesRead(NamedTuple):
    """What `weights_of` reads of a graph with the edge types that a plan's layer has.

    Attributes:
        ntypes: Whether its number of node types.
        ends: Whether the node types of its edge types' ends.
    """

    ntypes: bool
    ends: bool

    @classmethod
    def by(cls, plan: Plan) -> TypesRead:
        """What it reads for a plan."""
        return cls(
            any(param.type.space is Space.NTYPE for param in facts_of(plan).weights),
            any(isinstance(let.op, Take) for let in plan.weights),
        )

    def of(self, graph: HeteroGraph) -> Hashable:
        """That of a graph."""
        return graph.num_ntypes if self.ntypes else 0, _end_types(graph) if self.ends else b""


def _end_types(graph: HeteroGraph) -> bytes:
    """The node types of all edge types' ends."""

    def build() -> bytes:
        ends = graph.etype_src_ntype, graph.etype_dst_ntype
        return b"".join(types.cpu().numpy().tobytes() for types in ends)

    return graph.state.of(_END_TYPES, None, build)


def _check_rows(param: Param, value: Tensor, graph: HeteroGraph) -> None:
    """Kernels read as many rows as the graph has types."""
    counts = {Space.NTYPE: graph.num_ntypes, Space.ETYPE: graph.num_etypes}
    rows = counts.get(param.type.space, 1)
    if value.shape[0] != rows:
        raise InputError(
            f"parameter {param.name!r} is {show_type(param.type)} and needs the shape "
            f"{[rows, *param.type.shape]} on this graph, but has {list(value.shape)}"
        )


class RowCheck:
    """Checks what is given for a feature or constant on a graph.

    Args:
        param: The feature or constant.
        domain: The graph.

    Attributes:
        name: The param's.
    """

    def __init__(self, param: Param, domain: Domain) -> None:
        self.name, self._device = param.name, domain.place
        self._shape = torch.Size((domain.buffer_rows(param.type), *param.type.shape))

    def __call__(self, rows: Tensor) -> Tensor:
        """The rows, contiguous float32 [rows, *row shape].

        Raises:
            InputError: A tensor's dtype, shape or device does not fit.
        """
        if rows.dtype is not torch.float32 or rows.device != self._device:
            raise InputError(
                f"{self.name} is {rows.dtype} on {rows.device}: what is compiled for this "
                f"graph takes float32 on {self._device}; convert it with .float() and .to()"
            )
        if rows.shape != self._shape:
            if rows.numel() != self._shape.numel():
                raise InputError(
                    f"{self.name} has shape {tuple(rows.shape)} but the graph and the layer need "
                    f"{tuple(self._shape)}: give one row for every row of the graph"
                )
            rows = rows.reshape(self._shape)
        return materialized(rows)


def reorder(rows: Tensor, order: Tensor, out: Tensor) -> None:
    """Fills ``out`` with ``rows[order]``: contiguous, and both of one shape."""
    if rows.numel() == order.numel():  # torch is five times as fast without a second axis
        rows, out = rows.view(-1), out.view(-1)
    torch.index_select(rows, 0, order, out=out)


def constants_of(
    plan: Plan, domain: Domain, given: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Buffers that depend on the graph alone, float32 [rows, *row shape], in the index's order.

    Args:
        plan: What reads them.
        domain: The graph.
        given: Rows [rows, *row shape] of the program's constants, edges in the graph's order.

    Raises:
        InputError: A tensor's dtype, shape or device does not fit.
    """
    made: dict[str, Tensor] = {}
    for param in plan.program.params:
        if param.role == "constant":
            rows = RowCheck(param, domain)((given or {})[param.name])
            if param.type.space is Space.EDGE and (order := domain.edge_order) is not None:
                rows = rows.index_select(0, order)
            made[param.name] = rows
    return {**made, **derived_constants(plan, made, domain.index)}


def derived_constants(
    plan: Plan, given: Mapping[str, Tensor], index_of: Callable[[str], GraphIndex | ReusedIndex]
) -> dict[str, Tensor]:
    """Those that plans compute of others and of the graph.

    Args:
        plan: What reads them.
        given: The program's constants, edges in the index's order.
        index_of: Has the index of a group's edges.
    """
    made: dict[str, Tensor] = {}
    for let in plan.constants:
        made[let.name] = _constant(let, {**given, **made}, plan.program, index_of(_group_of(let)))
    return made


def _group_of(let: Let) -> str:
    return let.op.group if isinstance(let.op, Count | Take) else ALL_EDGES


def is_of_all_edges(plan: Plan) -> bool:
    """Whether `derived_constants` are made of all edges, and of where these lead."""
    counts = [let.op for let in plan.constants if isinstance(let.op, Count)]
    are_into = all(c.space is not Space.SRC_PAIR and c.end is not End.SRC for c in counts)
    return are_into and all(_group_of(let) == ALL_EDGES for let in plan.constants)


def _constant(
    let: Let, made: Mapping[str, Tensor], program: Program, index: GraphIndex | ReusedIndex
) -> Tensor:
    match let.op:
        case Count(space=Space.DST_PAIR):
            return index.dst_pair_count
        case Count(space=Space.SRC_PAIR):
            return index.src_pair_of_edge.bincount(minlength=index.src_pair_node.numel()).float()
        case Count(end=End.SRC):
            return index.csc_indptr.diff().float()
        case Count():
            return index.in_degree.float()
        case Map(fn=fn, args=args, const=const):
            depth = 0 if fn == "outer" else len(let.type.shape) + 1
            rows = [made[name] for name in args]
            padded = [row.reshape(*row.shape, *[1] * (depth - row.dim())) for row in rows]
            return apply_map(fn, padded, const)
        case Take(x, space, end):
            source = program.type_of(x).space
            if source not in (Space.NODE, Space.SOURCE):
                places = f"{source}_of_edge"  # pairs go to edges alone
            else:
                places = end if space is Space.EDGE else f"{space}_node"
            return made[x].index_select(0, getattr(index, places))
    raise AssertionError(f"{let} is no constant")

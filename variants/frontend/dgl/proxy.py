"""A graph that DGL's layers and functions of messages run on while they are traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.dgl.batches import EdgeRows, Frame, NodeRows, masked
from hetune.variants.frontend.dgl.moves import Moves
from hetune.variants.frontend.tracing.not_traceable import NotTraceable

_TYPE = ("_N", "_E", "_N")
_OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "dot": lambda x, y: (x * y).sum(-1, keepdim=True),
}


class ProxyGraph:
    """A homogeneous graph or block, called as a `DGLGraph` is, whose rows may be symbols.

    Args:
        moves: Its edges.
        ndata: Rows of nodes by name, of a block's destinations; grows and shrinks as a graph's do.
        edata: Likewise of edges.
        sources: Likewise of a block's sources; None of a graph.
    """

    is_homogeneous = True
    idtype = torch.int64
    batch_size = 1
    ntypes, etypes, canonical_etypes = ["_N"], ["_E"], [_TYPE]
    srctypes = dsttypes = ntypes

    def __init__(
        self, moves: Moves, ndata: Frame, edata: Frame, sources: Frame | None = None
    ) -> None:
        self.moves, self.ndata, self.edata, self._sources = moves, ndata, edata, sources
        self.is_block = sources is not None

    @property
    def srcdata(self) -> Frame:
        """That of the nodes that edges come from."""
        return self.ndata if self._sources is None else self._sources

    @property
    def dstdata(self) -> Frame:
        """That of the nodes that they lead to."""
        return self.ndata

    @property
    def device(self) -> torch.device:
        """Where the edges are."""
        return self.moves.src.device

    def num_nodes(self, ntype: str | None = None) -> int:
        """N."""
        if self.is_block:
            raise NotTraceable("num_nodes() of a block: ask for its sources or its destinations")
        return self.moves.num_nodes

    number_of_nodes = num_nodes

    def num_src_nodes(self, ntype: str | None = None) -> int:
        """How many nodes edges may come from."""
        return self.moves.num_sources

    def num_dst_nodes(self, ntype: str | None = None) -> int:
        """How many nodes edges may lead to."""
        return self.moves.num_nodes

    number_of_src_nodes, number_of_dst_nodes = num_src_nodes, num_dst_nodes

    def num_edges(self, etype: object = None) -> int:
        """E."""
        return self.moves.num_edges

    number_of_edges = num_edges

    def in_degrees(self) -> Tensor:
        """How many edges lead to each node."""
        return self.moves.degrees(self.moves.dst)

    def out_degrees(self) -> Tensor:
        """How many edges leave each node."""
        return self.moves.degrees(self.moves.src)

    def batch_num_nodes(self, ntype: str | None = None) -> Tensor:
        """N, of one graph."""
        return torch.tensor([self.moves.num_nodes], device=self.device)

    def edges(self, form: str = "uv", order: str = "eid") -> tuple[Tensor, ...]:
        """The ends of the edges, with their numbers if ``form`` is "all"."""
        ends = self.moves.src, self.moves.dst
        return (*ends, torch.arange(self.num_edges())) if form == "all" else ends

    all_edges = edges

    def reverse(self) -> ProxyGraph:
        """The edges turned round, without rows."""
        if self.is_block:
            raise NotTraceable("a block is turned round: graphs can be")
        return ProxyGraph(self.moves.reversed(), {}, {})

    @contextmanager
    def local_scope(self) -> Iterator[None]:
        """What is written within is forgotten."""
        before = self.ndata, self.edata, self._sources
        self.ndata, self.edata = copy(self.ndata), copy(self.edata)
        self._sources = copy(self._sources)
        try:
            yield
        finally:
            self.ndata, self.edata, self._sources = before

    def local_var(self) -> ProxyGraph:
        """A graph with frames of its own."""
        return ProxyGraph(self.moves, copy(self.ndata), copy(self.edata), copy(self._sources))

    def apply_edges(self, func: Any, edges: object = None) -> None:
        """Rows of edges of what is at their ends."""
        if edges is not None:
            raise NotTraceable("a function is applied to some of the edges: apply it to all")
        self.edata.update(self._messages(func))

    def apply_nodes(self, func: Any) -> None:
        """Rows of nodes of what is there."""
        self.ndata.update(func(NodeRows(self.moves, self.ndata, {})))

    def update_all(self, message_func: Any, reduce_func: Any, apply_node_func: Any = None) -> None:
        """Sends messages along all edges, and reduces those that come to each node."""
        messages = self._messages(message_func)
        if _is_builtin(reduce_func):
            rows = messages[reduce_func.msg_field]
            found = {reduce_func.out_field: self.moves.reduced(rows, reduce_func.name)}
        else:
            found = reduce_func(NodeRows(self.moves, self.ndata, messages))
            # Reducers are not called for nodes that no message came to.
            found = {name: masked(rows, self.in_degrees()) for name, rows in found.items()}
        if apply_node_func is not None:
            found = apply_node_func(NodeRows(self.moves, {**self.ndata, **found}, {}))
        self.ndata.update(found)

    def _messages(self, func: Any) -> Frame:
        if not _is_builtin(func):
            return Frame(func(EdgeRows(self.moves, self.srcdata, self.ndata, self.edata)))
        if not hasattr(func, "lhs"):
            return {func.out_field: self._at(func.target, func.in_field)}
        x, y = self._at(func.lhs, func.lhs_field), self._at(func.rhs, func.rhs_field)
        rank = max(x.dim(), y.dim())
        return {func.out_field: _OPERATORS[func.binary_op](_padded(x, rank), _padded(y, rank))}

    def _at(self, target: int, name: str) -> Tensor:
        """Rows of edges: a field of their sources, of their destinations or their own."""
        if target == 2:
            return _field(self.edata, name)
        if target:
            return self.moves.at_dst(_field(self.ndata, name))
        return self.moves.at_src(_field(self.srcdata, name))

    def __getattr__(self, name: str) -> Any:
        raise NotTraceable(f"the graph's {name} has no meaning in a program")


def _field(frame: Frame, name: str) -> Tensor:
    rows: Tensor = frame[name]
    return rows


def _is_builtin(func: Any) -> bool:
    return hasattr(func, "out_field")


def _padded(rows: Tensor, rank: int) -> Tensor:
    """Rows with more axes, after the first one, as DGL aligns them."""
    shape = tuple(rows.shape)
    return rows.reshape(shape[0], *[1] * (rank - rows.dim()), *shape[1:])

"""A DGL layer as a module of edges."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hetune.variants.errors import InputError
from hetune.variants.frontend.dgl.moves import Moves
from hetune.variants.frontend.dgl.proxy import ProxyGraph
from hetune.variants.frontend.dgl.replaced import replace_methods
from hetune.variants.frontend.tracing.arguments import (
    SOURCE,
    TARGET,
    CallArguments,
    check_tensor,
)
from hetune.variants.frontend.tracing.edge_module import EdgeModule
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import symbols_in
from hetune.variants.graph.optional_packages import require

_EDGES = "_hetune_edges"
"""Where the edge_index of a graph is kept: with what holds its edges, which never change."""
_SENDING = frozenset(("update_all", "apply_edges"))
_OF_EDGES = ("e", "norm")
"""What names of rows of edges begin with in DGL's layers."""


def is_dgl_layer(module: nn.Module) -> bool:
    """Whether a module is a convolution of DGL's, or sends messages along a graph's edges."""
    kind = type(module)
    if any(base.__module__.startswith("dgl.nn.pytorch.conv") for base in kind.__mro__):
        return True
    code = getattr(kind.forward, "__code__", None)
    return code is not None and not _SENDING.isdisjoint(code.co_names)


def edges_of(graph: Any) -> Tensor:
    """The edges of a DGL graph, int64 [2, E] by their ids: the same tensor as long as they stay.

    Raises:
        NotTraceable: It has several types of nodes or edges.
    """
    kinds = graph.canonical_etypes, graph.srctypes, graph.dsttypes
    if any(len(types) != 1 for types in kinds) or not (graph.is_block or len(graph.ntypes) == 1):
        raise NotTraceable("the graph has several types: homogeneous ones and blocks compile")
    kept = vars(graph._graph)
    if _EDGES not in kept:
        kept[_EDGES] = torch.stack(graph.edges(order="eid")).long()
    found: Tensor = kept[_EDGES]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class DglArguments(CallArguments):
    """Those of a layer that may refuse graphs where no edge leads to some node.

    Attributes:
        all_have_edges: Whether it does.
        narrowed: Names of features of a block's destinations that were given with its sources',
            as the first of them.
    """

    all_have_edges: bool = False
    narrowed: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[tuple[str, object], ...]:
        """As of `CallArguments`, and how features of blocks are given."""
        return (*super(DglArguments, self).key, ("narrowed", self.narrowed))

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """As of `CallArguments`: `NarrowedRows` where destinations are the first sources."""
        found = CallArguments.given(self, values)
        for name in self.narrowed:
            pair = name.removesuffix(TARGET)
            found[pair] = NarrowedRows(*found[pair])
        return found

    def drawn(self, random: torch.Generator, num_nodes: int) -> CallArguments:
        """As of `CallArguments`; types of nodes are sorted."""
        found = CallArguments.drawn(self, random, num_nodes)
        values = found.values
        rows = {n: values[n.removesuffix(TARGET) + SOURCE][:num_nodes] for n in self.narrowed}
        found = replace(found, values={**values, **rows})
        if self.all_have_edges:
            found.values[self.edges][1, :num_nodes] = torch.arange(num_nodes)
        for value in found.values.values():
            if _are_types(value) and len(value) == num_nodes:
                value.copy_(value.sort().values)  # as a graph's node types are
        return found


class NarrowedRows(NamedTuple):
    """Features of a block, of which a layer is given the sources' alone."""

    sources: Tensor
    targets: Tensor


class DglLayer(EdgeModule):
    """Runs a layer on DGL's graph of edges, or on a proxy where anything is a symbol."""

    def forward(self, **values: Any) -> Any:
        """The layer's result.

        Args:
            **values: Its arguments by name, with int64 [2, E] in place of the graph.
        """
        name = next(name for name, value in values.items() if _are_edges(value))
        src, dst = values[name].unbind()
        is_rows = (v for k, v in values.items() if isinstance(v, tuple) or _may_be_of_nodes(k, v))
        rows = next(is_rows)  # whose number a tape knows, as it does not what len() gives
        sources, targets = rows if isinstance(rows, tuple) else (None, rows)
        counts = None if sources is None else sources.shape[0], targets.shape[0]
        if symbols_in([*values.values(), sources, targets]):
            replace_methods(self.module)
            moves = Moves(src, dst, counts[1], counts[0])
            graph: Any = ProxyGraph(moves, {}, {}, None if sources is None else {})
            return self.module(**{**values, name: graph})
        dgl = require("dgl", "dgl", "a layer of DGL")
        if sources is None:
            graph = dgl.graph((src, dst), num_nodes=counts[1])
        else:
            graph = dgl.create_block((src, dst), *counts)
        given = {k: v.sources if isinstance(v, NarrowedRows) else v for k, v in values.items()}
        with Exact():
            return self.module(**{**given, name: graph})

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """As of `EdgeModule`."""
        try:
            bound = _signature(type(self.module).forward).bind(self.module, *args, **kwargs)
        except TypeError as error:
            raise InputError(f"{type(self.module).__name__}: {error}") from None
        _, *given = bound.arguments.items()
        graphs = [(name, value) for name, value in given if hasattr(value, "canonical_etypes")]
        if not graphs:
            raise NotTraceable("there is no DGLGraph among the arguments")
        name, graph = graphs[0]
        values: dict[str, Any] = {name: edges_of(graph)}
        num_nodes, narrowed = graph.num_dst_nodes(), list[str]()
        for name, value in given:
            match value:
                case (Tensor(), Tensor()) if graph.is_block:
                    values[name + SOURCE], values[name + TARGET] = value
                case Tensor() if graph.is_block and _may_be_of_nodes(name, value):
                    values[name + SOURCE], values[name + TARGET] = value, value[:num_nodes]
                    narrowed.append(name + TARGET)
                case Tensor() | bool() | int() | float() | str():
                    values[name] = value
                case _ if value is not None and value is not graph:
                    raise NotTraceable(
                        f"{name} is a {type(value).__name__}: tensors and numbers compile"
                    )
        for name, value in values.items():
            if isinstance(value, Tensor):
                check_tensor(name, value)
        sources = tuple(n for n in values if n.endswith(SOURCE)) if graph.is_block else ()
        if any(len(values[name]) != graph.num_src_nodes() for name in sources):
            raise NotTraceable(f"there are no features of its {graph.num_src_nodes()} sources")
        features = tuple(
            n for n, v in values.items() if n not in sources and _may_be_of_nodes(n, v)
        )
        if not features or any(len(values[name]) != num_nodes for name in features[:1]):
            raise NotTraceable(f"there are no features of its {num_nodes} nodes")
        features = tuple(name for name in features if len(values[name]) == num_nodes)
        refusing = (getattr(part, "_allow_zero_in_degree", True) for part in self.module.modules())
        return DglArguments(
            values,
            features,
            graphs[0][0],
            sources=sources,
            all_have_edges=not all(refusing),
            narrowed=tuple(narrowed),
        )


class Exact(TorchFunctionMode):
    """While active, new tensors of floats are of float64, as the features are."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        is_new = func in _MAKING and found.dtype is torch.get_default_dtype()
        return found.double() if is_new else found


_MAKING = frozenset((torch.ones, torch.zeros, torch.full, torch.empty, torch.tensor))


def _are_edges(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype is torch.int64 and value.dim() == 2


def _are_types(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.dtype is torch.int64 and value.dim() == 1


def _may_be_of_nodes(name: str, value: object) -> bool:
    is_float = isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1
    return is_float and not name.startswith(_OF_EDGES)


@cache
def _signature(forward: Any) -> inspect.Signature:
    return inspect.signature(forward)

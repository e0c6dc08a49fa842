"""Functions of messages that are no layer's, as one: `update_all` with all that they read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.dgl.moves import Moves
from hetune.variants.frontend.dgl.on_edges import DglArguments, Exact, edges_of
from hetune.variants.frontend.dgl.proxy import ProxyGraph
from hetune.variants.frontend.dgl.replaced import replaced_in
from hetune.variants.frontend.tracing.arguments import CallArguments, check_tensor
from hetune.variants.frontend.tracing.captured import captured, read_by, with_globals
from hetune.variants.frontend.tracing.edge_module import EdgeModule
from hetune.variants.frontend.tracing.layer import trace
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import symbols_in
from hetune.variants.graph.optional_packages import require


class MessageFunctions(nn.Module):
    """What `update_all` sets with these functions, as a layer that is called with a DGL graph.

    Args:
        message: A function of edges, or one of `dgl.function`.
        reduce: A function of nodes and their messages, or one of `dgl.function`.
        apply_nodes: A function of nodes; None for none.
    """

    def __init__(self, message: Any, reduce: Any, apply_nodes: Any = None) -> None:
        super().__init__()
        self.functions = {"message": message, "reduce": reduce, "apply_nodes": apply_nodes}
        for name, value in self._read():
            if isinstance(value, nn.Module):
                self.add_module(name, value)
            else:
                self._parameters[name] = value

    def forward(self, g: Any) -> dict[str, Tensor]:
        """The fields of nodes that are set, by name."""
        return sent(g, *self.functions.values())

    def own_functions(self) -> list[Any]:
        """The functions, with this module's parts and parameters in place of what they read."""
        found = []
        for name, function in self.functions.items():
            if isinstance(function, MethodType):
                own = self._own(name)
                made = _rebuilt(_plain(function), own)
                function = MethodType(made, own.get("self", function.__self__))
            elif isinstance(function, FunctionType):
                function = _rebuilt(function, self._own(name))
            found.append(function)
        return found

    def captured(self) -> str:
        """The numbers and texts that the functions read."""
        functions = (getattr(f, "__func__", f) for f in self.functions.values())
        return repr([captured(f) for f in functions if isinstance(f, FunctionType)])

    def _own(self, name: str) -> dict[str, Any]:
        parts = {**self._modules, **self._parameters}
        return {
            key.removeprefix(f"{name} "): part
            for key, part in parts.items()
            if key.startswith(f"{name} ")
        }

    def _read(self) -> Iterator[tuple[str, Any]]:
        """Modules and tensors of closures and globals, and the modules that methods belong to."""
        for name, function in self.functions.items():
            plain = function
            if isinstance(function, MethodType):
                if isinstance(function.__self__, nn.Module):
                    yield f"{name} self", function.__self__
                plain = function.__func__
            if isinstance(plain, FunctionType):
                for variable, value in read_by(plain):
                    if isinstance(value, nn.Module | Tensor):
                        yield f"{name} {variable}", value


def sent(g: Any, message: Any, reduce: Any, apply_nodes: Any) -> dict[str, Tensor]:
    """The fields of nodes that `update_all` sets, by name; the graph stays as it is."""
    with g.local_scope():
        before = dict(g.dstdata)
        g.update_all(message, reduce, apply_nodes)
        return {name: rows for name, rows in g.dstdata.items() if rows is not before.get(name)}


def _plain(method: MethodType) -> FunctionType:
    function = method.__func__
    assert isinstance(function, FunctionType)
    return function


def _rebuilt(function: FunctionType, own: Mapping[str, Any]) -> FunctionType:
    names = function.__code__.co_freevars
    cells = tuple(
        CellType(own[name]) if name in own else cell
        for name, cell in zip(names, function.__closure__ or (), strict=True)
    )
    return with_globals(function, {**function.__globals__, **own}, cells)


class OnFields(EdgeModule):
    """Runs functions of messages on a graph with the fields that they read."""

    module: MessageFunctions

    def __init__(self, module: MessageFunctions) -> None:
        super().__init__(module)
        self._used: set[str] | None = None

    def forward(self, **values: Any) -> dict[str, Tensor]:
        """The fields of nodes that are set, by name.

        Args:
            **values: ``edge_index`` [2, E], and fields of nodes, ``node_*``, and edges, ``edge_*``.
        """
        src, dst = values["edge_index"].unbind()
        nodes, edges = (_Fields(kind, self._used, values) for kind in ("node_", "edge_"))
        num_nodes = next(iter(nodes.values())).shape[0]
        functions = self.module.own_functions()
        if symbols_in(list(values.values())):
            graph: Any = ProxyGraph(Moves(src, dst, num_nodes), nodes, edges)
            return sent(graph, *map(_on_symbols, functions))
        graph = require("dgl", "dgl", "a function of messages").graph(
            (src, dst), num_nodes=num_nodes
        )
        graph.ndata.update(nodes)
        graph.edata.update(edges)
        with Exact():
            return sent(graph, *functions)

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """As of `EdgeModule`; only fields that are read are."""
        (g,) = (*args, *kwargs.values())
        values = {"edge_index": edges_of(g), "captured": self.module.captured()}
        values |= {f"node_{name}": rows for name, rows in g.ndata.items() if name.isidentifier()}
        values |= {f"edge_{name}": rows for name, rows in g.edata.items() if name.isidentifier()}
        if self._used is None:
            self._used = set()
            usable = {name: v for name, v in values.items() if _is_usable(v)}
            with contextlib.suppress(NotTraceable):  # which is found again
                trace(self, _arguments(usable))
        return _arguments({name: v for name, v in values.items() if name in (*self._used, *_GIVEN)})


_GIVEN = ("edge_index", "captured")


def _arguments(values: Mapping[str, Any]) -> CallArguments:
    for name, value in values.items():
        if isinstance(value, Tensor):
            check_tensor(name, value)
    features = tuple(
        name for name, v in values.items() if name.startswith("node_") and v.is_floating_point()
    )
    if not features:
        raise NotTraceable("no fields of nodes are read")
    return DglArguments(values, features, "edge_index")


def _is_usable(value: Any) -> bool:
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return not is_float or value.dtype is torch.float32


class _Fields(dict[str, Any]):
    """Fields of nodes or edges, which notes those that are read."""

    def __init__(self, kind: str, used: set[str] | None, values: Mapping[str, Any]) -> None:
        own = {n.removeprefix(kind): v for n, v in values.items() if n.startswith(kind)}
        own.pop("index", None)
        super().__init__(own)
        self._kind, self._used = kind, used

    def __getitem__(self, name: str) -> Any:
        if self._used is not None and name in self:
            self._used.add(self._kind + name)
        return super().__getitem__(name)


def _on_symbols(function: Any) -> Any:
    if isinstance(function, MethodType):
        return MethodType(replaced_in(_plain(function)), function.__self__)
    return replaced_in(function) if isinstance(function, FunctionType) else function

"""Modules that are called with rows of nodes and edges by type, as PyG's heterogeneous ones are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.edge_errors import check_edge_dict
from hetune.variants.frontend.tracing.arguments import (
    CallArguments,
    are_edges,
    as_plain,
    check_tensor,
)
from hetune.variants.frontend.tracing.counts import TracedSize
from hetune.variants.frontend.tracing.edge_module import EdgeModule
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.graph.hetero import CanonicalEtype

_NODES, _EDGES = "nodes_", "edges_"
"""What names begin with of types of nodes and of types of edges, before their numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class TypedArguments(CallArguments):
    """Those of a call with dictionaries: a tensor for each type of nodes, and of edges.

    For each type of nodes there is one more, int8 [nodes, 0], which says how many there are.

    Attributes:
        form: The call's arguments, with names in place of tensors.
        node_types: In their order.
        edge_types: By the names of their edges.
        dictionaries: Names of each type's features, by the type, for each dictionary.
        keeps_apart: Whether it stacks what edges of each type add up to.
    """

    form: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), MappingProxyType({}))
    node_types: tuple[str, ...] = ()
    edge_types: Mapping[str, CanonicalEtype] = field(default_factory=dict)
    dictionaries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keeps_apart: bool = False

    @property
    def num_nodes(self) -> int:
        """Of all types."""
        return sum(len(self.values[name]) for name in self.counts)

    @property
    def counts(self) -> list[str]:
        """Names of the arguments that say how many nodes there are of each type."""
        return [f"{_NODES}{i}" for i in range(len(self.node_types))]

    @property
    def key(self) -> tuple[tuple[str, object], ...]:
        """As of `CallArguments`."""
        features = ((name, tuple(self.values[name].shape[1:])) for name in self.features)
        dtypes = ((name, self.values[name].dtype) for name in self.edge_types)
        return ("form", repr(self.form)), *features, *dtypes

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `OnDictionaries`, with these values in place of the call's own."""
        args, kwargs = self.form
        return {"args": _filled(args, values), "kwargs": _filled(dict(kwargs), values)}

    def drawn(self, random: torch.Generator, num_nodes: int) -> CallArguments:
        """As of `CallArguments`; each type has a number of nodes of its own."""
        counts = [2 * num_nodes + 1 + 2 * i for i in range(len(self.node_types))]  # all odd
        values: dict[str, Any] = {}
        for i, count in enumerate(counts):
            values[f"{_NODES}{i}"] = _counted(i, count)
            for by_type in self.dictionaries.values():
                name = by_type[f"{_NODES}{i}"]
                shape = count, *self.values[name].shape[1:]
                values[name] = torch.randn(shape, generator=random, dtype=torch.float64)
                # Zeros behind narrow rows are the largest number of a row, or the least.
                values[name][::4] = values[name][::4].abs()
                values[name][1::4] = -values[name][1::4].abs()
        for number, (name, ends) in enumerate(self.edge_types.items()):
            size = (6 * num_nodes + 2 * number,)
            limits = [counts[self.node_types.index(end)] - 2 for end in (ends[0], ends[2])]
            both = [torch.randint(0, limit, size, generator=random) for limit in limits]
            values[name] = torch.stack(both).to(self.values[name].dtype)
            values[name][:, 4:7] = values[name][:, 7:10]
            if ends[0] == ends[2]:
                values[name][0, 1:4] = values[name][1, 1:4]
        return replace(self, values=values)

    def declare(self, recorder: ProgramRecorder) -> None:
        """As of `CallArguments`."""
        for i in range(len(self.node_types)):
            count = recorder.tape.extent(self.values[f"{_NODES}{i}"], 0)
            recorder.node_counts[f"{_NODES}{i}"] = count
            if isinstance(count, TracedSize):
                recorder.tape.rows.append(count)
        for name, (src, _, dst) in self.edge_types.items():
            ends = (f"{_NODES}{self.node_types.index(end)}" for end in (src, dst))
            recorder.declare((self.values[name][0], self.values[name][1]), (next(ends), next(ends)))
        recorder.keeps_apart = self.keeps_apart
        recorder.dictionaries |= {name: dict(d) for name, d in self.dictionaries.items()}

    def node_type(self, feature: str) -> str:
        """As of `CallArguments`."""
        return f"{_NODES}{feature.rpartition('_')[2]}"

    def is_of_graph(self, name: str) -> bool:
        """As of `CallArguments`."""
        return name not in self.features

    def check_edges(self) -> None:
        """As of `CallArguments`."""
        counted = {name: self.values[f"{_NODES}{i}"] for i, name in enumerate(self.node_types)}
        edges = {kind: self.values[name] for name, kind in self.edge_types.items()}
        check_edge_dict(edges, counted, [*edges])


class OnDictionaries(EdgeModule):
    """Runs a module that is called with dictionaries."""

    def forward(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What the module gives."""
        return self.module(*args, **kwargs)

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """As of `EdgeModule`."""
        named = {**{str(i): value for i, value in enumerate(args)}, **kwargs}
        dictionaries = {name: value for name, value in named.items() if _is_dictionary(value)}
        edge_dicts = [name for name, value in dictionaries.items() if _is_of_edges(value)]
        if len(edge_dicts) != 1 or len(dictionaries) < 2:
            raise NotTraceable("it compiles for calls with features and an edge_index by type")
        edges: Mapping[CanonicalEtype, Any] = dictionaries.pop(edge_dicts[0])
        node_types = tuple(next(iter(dictionaries.values())))
        values: dict[str, Any] = {}
        found: dict[str, dict[str, str]] = {}
        forms: dict[str, Any] = {}
        for name, by_type in dictionaries.items():
            if tuple(by_type) != node_types:
                raise NotTraceable("its dictionaries of features have other types than each other")
            label = re.sub(r"\W", "_", f"x_{name}")
            found[label] = {f"{_NODES}{i}": f"{label}_{i}" for i in range(len(node_types))}
            forms[name] = {kind: _Named(f"{label}_{i}") for i, kind in enumerate(node_types)}
            values |= {f"{label}_{i}": rows for i, rows in enumerate(by_type.values())}
        features = tuple(values)
        for name in features:
            check_tensor(name, values[name])
            if values[name].dim() < 2 or not values[name].is_floating_point():
                raise NotTraceable("features of nodes are float32 [nodes, width]")
        rows = next(iter(found.values())).values()
        values |= {f"{_NODES}{i}": _counted(i, len(values[name])) for i, name in enumerate(rows)}
        edge_types = {f"{_EDGES}{i}": kind for i, kind in enumerate(edges)}
        forms[edge_dicts[0]] = {kind: _Named(name) for name, kind in edge_types.items()}
        values |= {name: as_plain(edges[kind]) for name, kind in edge_types.items()}
        self._check(values, edge_types, node_types)
        form = {name: forms.get(name, value) for name, value in named.items()}
        call = tuple(form.pop(str(i)) for i in range(len(args))), form
        keeps_apart = any(type(part).__name__ == "HANConv" for part in self.module.modules())
        return TypedArguments(
            values,
            features,
            f"{_EDGES}0",
            form=call,
            node_types=node_types,
            edge_types=edge_types,
            dictionaries=found,
            keeps_apart=keeps_apart,
        )

    def _check(
        self,
        values: Mapping[str, Any],
        edge_types: Mapping[str, CanonicalEtype],
        node_types: tuple[str, ...],
    ) -> None:
        """Raises `NotTraceable` for values that no program takes."""
        for name, (src, _, dst) in edge_types.items():
            edges = values[name]
            check_tensor(name, edges)
            if not are_edges(edges):
                raise NotTraceable("edges are int64 or int32 [2, E] for each type")
            if not {src, dst} <= {*node_types}:
                raise NotTraceable(f"there are edges of {src} and {dst}, but not features of both")
        if len({id(values[name]) for name in edge_types}) < len(edge_types):
            raise NotTraceable("two types of edges have the same tensor")


def with_dictionaries(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> nn.Module:
    """A module, or what runs it on the dictionaries that it is called with, if it is."""
    is_plain = isinstance(module, EdgeModule) or not are_dictionaries((*args, *kwargs.values()))
    return module if is_plain else OnDictionaries(module)


def are_dictionaries(arguments: Iterable[object]) -> bool:
    """Whether arguments of a call have an edge_index for each type of edges."""
    return any(map(_is_of_edges, arguments))


def is_hetero_conv(module: nn.Module) -> bool:
    """Whether a module is PyG's `HeteroConv`: a layer for each type of edges."""
    kinds = type(module).__mro__
    return any(kind.__module__ == "torch_geometric.nn.conv.hetero_conv" for kind in kinds)


@dataclass(frozen=True, slots=True)
class _Named:
    """The place of a tensor in arguments."""

    name: str


def _filled(form: Any, values: Mapping[str, Any]) -> Any:
    match form:
        case _Named(name):
            return values[name]
        case dict():
            return {key: _filled(part, values) for key, part in form.items()}
        case tuple():
            return tuple(_filled(part, values) for part in form)
    return form


def _is_dictionary(value: object) -> bool:
    is_mapping = isinstance(value, Mapping) and len(value) > 0
    return is_mapping and all(isinstance(part, Tensor) for part in value.values())  # type: ignore[attr-defined]


def _is_of_edges(value: object) -> bool:
    return _is_dictionary(value) and all(isinstance(key, tuple) for key in value)  # type: ignore[attr-defined]


@lru_cache(4096)
def _counted(kind: int, nodes: int) -> Tensor:
    """A tensor with a row for each node of a type; the same one for the same number."""
    with torch.inference_mode(False):
        return torch.empty(nodes, 0, dtype=torch.int8)

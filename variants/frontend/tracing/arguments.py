"""What a message-passing layer is called with: features of nodes, edges, and all else."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from hetune.variants.errors import InputError
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.sparse_tensors import as_dense
from hetune.variants.program.nodes import ALL_EDGES


@dataclass(frozen=True, slots=True, eq=False)
class CallArguments:
    """A call's arguments by name.

    Features may change with every call. All else is of the graph: what a layer computes of it
    alone is computed once, and again when one of these tensors is another.

    Attributes:
        values: All that were given.
        features: Names of the features of nodes, float [N, *row shape].
        sources: Names of the features of sources, float [sources, *row shape], where these are
            other nodes than those that messages reach.
        given_dtype: Of all floats, before they were made float32.
        edges: Name of the edges, int64 or int32 [2, E].
        edge_features: Names of the features of edges, float [E, *row shape].
    """

    values: Mapping[str, Any]
    features: tuple[str, ...]
    edges: str
    edge_features: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    given_dtype: torch.dtype = torch.float32

    @property
    def num_nodes(self) -> int:
        """N: of the nodes that messages reach."""
        if self.features:
            return int(self.values[self.features[0]].shape[0])
        sizes = [value for value in self.values.values() if isinstance(value, tuple)]
        known = sizes[0][1] if sizes else None
        return len(self.values[self.sources[0]]) if known is None else int(known)

    @property
    def num_sources(self) -> int | None:
        """How many sources there are, where these are other nodes."""
        return len(self.values[self.sources[0]]) if self.sources else None

    @property
    def device(self) -> torch.device:
        """Where the edges are."""
        found: torch.device = self.values[self.edges].device
        return found

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a forward takes, with its pairs put together again.

        Args:
            values: In place of the call's own.
        """
        found = dict(values)
        for name in self.sources:
            pair = name.removesuffix(SOURCE)
            found[pair] = found.pop(name), found.pop(pair + TARGET, None)
        return found

    def declare(self, recorder: ProgramRecorder) -> None:
        """Tells what is known of nodes and edges before a layer runs.

        Args:
            recorder: Has the graph's tensors on its tape.
        """

    def node_type(self, feature: str) -> str:
        """Which nodes a feature has rows of, in the recorder's words."""
        return ALL_EDGES

    def is_of_graph(self, name: str) -> bool:
        """Whether nothing but the tape may take an argument: the edges."""
        return name == self.edges

    def check_edges(self) -> None:
        """Checks what a graph made of the edges does not.

        Raises:
            GraphError: The edges do not fit the features.
        """

    @property
    def num_edges(self) -> int:
        """E."""
        return int(self.values[self.edges].shape[1])

    @property
    def are_finite(self) -> bool:
        """Whether no feature on a CPU is infinite or no number."""
        given = (*self.features, *self.sources, *self.edge_features)
        return all(_is_finite(self.values[name].detach()) for name in given)

    @property
    def is_rounded(self) -> bool:
        """Whether autocast is on, or floats were given in 16 bits."""
        is_autocast = torch.is_autocast_enabled(self.device.type)
        return is_autocast or self.given_dtype is not torch.float32

    @property
    def graph_tensors(self) -> tuple[Tensor, ...]:
        """All tensors but features."""
        features = (*self.features, *self.edge_features, *self.sources)
        others = (v for name, v in self.values.items() if name not in features)
        return tuple(value for value in others if isinstance(value, Tensor))

    @property
    def key(self) -> tuple[tuple[str, object], ...]:
        """Equal for calls that one program may compute, whatever their graphs."""
        return tuple((name, self._kind(name)) for name in self.values)

    def _kind(self, name: str) -> object:
        value = self.values[name]
        if isinstance(value, tuple):
            return "size"
        if not isinstance(value, Tensor):
            return type(value), value
        if name in self.sources:
            return "feature of sources", tuple(value.shape[1:])
        if name in self.features or name in self.edge_features:
            kind = "feature" if name in self.features else "edge feature"
            return kind, tuple(value.shape[1:])
        if name == self.edges:
            return "edges" if value.dtype is torch.int64 else f"edges of {value.dtype}"
        return value.dtype, value.dim(), value.shape[1:]

    def drawn(self, random: torch.Generator, num_nodes: int) -> CallArguments:
        """CallArguments of the same kinds on a random graph, floats in float64.

        Some nodes have no edges; some edges are loops, and some are there twice.
        """
        types = [v for v in self.graph_tensors if v.dim() == 1 and not v.is_floating_point()]
        kinds = sum(int(v.max()) + 1 for v in types if len(v) == self.num_edges and len(v))
        edges, num_sources = 3 * num_nodes + 1 + 3 * kinds, 2 * num_nodes + 1
        ends = torch.randint(0, num_nodes - 2, (2, edges), generator=random)
        if self.sources:
            ends[0] = torch.randint(0, num_sources - 2, (edges,), generator=random)
        ends[:, 1:4] = ends[1, 1:4]
        ends[:, 4:7] = ends[:, 7:10]

        def other(name: str, value: Tensor) -> Tensor:
            count = {self.num_edges: edges, self.num_nodes: num_nodes}
            shape = tuple(value.shape)
            if are_edges(value):
                others = torch.randint(0, num_nodes - 2, (2, edges + 7), generator=random)
                return others.to(value.dtype)
            if name in self.features or name in self.sources:
                shape = (num_nodes if name in self.features else num_sources, *shape[1:])
            elif name in self.edge_features or (
                name.startswith("edge") and shape[:1] == (self.num_edges,)
            ):
                shape = (edges, *shape[1:])
            elif shape and shape[0] in count:
                shape = (count[shape[0]], *shape[1:])
            else:
                return value.double() if value.is_floating_point() else value
            if not value.is_floating_point():
                most = int(value.max()) + 1 if value.numel() else 1
                drawn = torch.randint(0, most, shape, generator=random).to(value.dtype)
                drawn.view(-1)[:most] = torch.arange(min(most, drawn.numel()))  # all of them
                return drawn
            are_weights = name == "edge_weight" and shape[1:] == (1,)
            if are_weights or len(shape) == 1:  # of which degrees are summed up
                return torch.rand(shape, generator=random, dtype=torch.float64) + 0.1
            return torch.randn(shape, generator=random, dtype=torch.float64)

        values = {
            name: ends.to(value.dtype)
            if name == self.edges
            else other(name, value).cpu()
            if isinstance(value, Tensor)
            else sizes_of(value, num_sources if self.sources else num_nodes, num_nodes)
            for name, value in self.values.items()
        }
        return replace(self, values=values)

    def like(self, call: CallArguments, dtype: torch.dtype = torch.float32) -> CallArguments:
        """The same with tensors where a call's are, floats in a dtype."""
        values = {
            name: value.to(call.device, dtype if value.is_floating_point() else value.dtype)
            if isinstance(value, Tensor)
            else value
            for name, value in self.values.items()
        }
        return replace(self, values=values)


def read_arguments(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> CallArguments:
    """A call's arguments as the layer's own forward binds them.

    Raises:
        InputError: It takes no such arguments.
        NotTraceable: No program takes such arguments.
    """
    signature, names, least = _signature(type(module).forward)
    if not kwargs and least <= len(args) <= len(names):  # most calls: no binding
        bound = dict(zip(names, args, strict=False))
    else:
        try:
            bound = signature.bind(module, *args, **kwargs).arguments
        except TypeError as error:
            raise InputError(f"{type(module).__name__}: {error}") from None
        bound.pop(next(iter(signature.parameters)))
    values, sources = _without_pairs(bound)
    for name, value in values.items():
        if isinstance(value, Tensor):
            check_tensor(name, value)
        elif not _are_sizes(value) and not isinstance(value, bool | int | float | str):
            raise NotTraceable(f"{name} is a {type(value).__name__}: tensors and numbers compile")
    edges = [name for name, value in values.items() if are_edges(value)]
    if not edges:
        raise NotTraceable("there are no edges among the arguments, int64 or int32 [2, E]")
    features = _features({n: value for n, value in values.items() if n not in sources})
    if not features and not sources:
        raise NotTraceable("there are no features of nodes among the arguments, float32 [N, width]")
    edge_features = _edge_features(values, (*features, *sources), values[edges[0]].shape[1])
    found = CallArguments(values, features, edges[0], edge_features, sources)
    counts = found.num_sources or found.num_nodes, found.num_nodes
    for name, value in values.items():
        if isinstance(value, tuple) and sizes_of(value, *counts) != value:
            raise NotTraceable(f"{name} is {value}, not the rows of features: {counts}")
    if len({len(values[name]) for name in sources}) > 1:
        raise NotTraceable(f"{', '.join(sources)} have different numbers of rows")
    return found


SOURCE, TARGET = "_src", "_dst"
"""What the names of the parts of a pair end with."""


def _without_pairs(bound: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What was given, its pairs of sources and targets taken apart; the names of sources."""
    values: dict[str, Any] = {}
    sources = []
    for name, value in bound.items():
        match value:
            case (Tensor() as source, (Tensor() | None) as target) if isinstance(value, tuple):
                sources.append(name + SOURCE)
                parts = {name + SOURCE: source, name + TARGET: target}
            case _:
                parts = {name: value}
        for key, part in parts.items():
            if key in values:
                raise NotTraceable(f"there are two arguments {key}")
            if part is not None:
                values[key] = as_plain(part) if "edge" in key else as_dense(as_plain(part))
    return values, tuple(sources)


def _are_sizes(value: object) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(size is None or type(size) is int for size in value)
    )


def sizes_of(value: Any, num_sources: int, num_targets: int) -> Any:
    """Sizes of another graph, None where they were; anything else as it is."""
    if not isinstance(value, tuple):
        return value
    counts = num_sources, num_targets
    return tuple(None if was is None else n for was, n in zip(value, counts, strict=True))


def _features(values: Mapping[str, Any]) -> tuple[str, ...]:
    floats = [
        name
        for name, value in values.items()
        if isinstance(value, Tensor)
        and value.is_floating_point()
        and value.dim() > 1
        and not name.startswith("edge")
    ]
    return tuple(name for name in floats if len(values[name]) == len(values[floats[0]]))


def _edge_features(
    values: Mapping[str, Any], features: tuple[str, ...], num_edges: int
) -> tuple[str, ...]:
    return tuple(
        name
        for name, value in values.items()
        if isinstance(value, Tensor)
        and value.is_floating_point()
        and value.shape[:1] == (num_edges,)
        and name not in features
    )


@cache
def _signature(forward: Callable[..., Any]) -> tuple[inspect.Signature, tuple[str, ...], int]:
    """Also what may be given without names, and how many are needed if none has a name."""
    signature = inspect.signature(forward)
    _, *declared = signature.parameters.values()
    names = tuple(
        p.name for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    )
    needed = [
        i
        for i, p in enumerate(declared, start=1)
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    return signature, names, max(needed, default=0)


def as_plain(value: object) -> object:
    """The tensor that PyG's `EdgeIndex` or `Index` wraps, which counts the writes to it."""
    is_wrapped = isinstance(value, Tensor) and hasattr(value, "as_tensor")
    return value.as_tensor() if is_wrapped else value  # type: ignore[attr-defined]


def of_one_width(parts: Sequence[Tensor], width: int | None = None) -> list[Tensor]:
    """Rows [rows, at most width] with zeros after them; by default as wide as the widest."""
    if width is None:
        width = max(part.shape[-1] for part in parts)
    return [
        part if part.shape[-1] == width else pad(part, (0, width - part.shape[-1]))
        for part in parts
    ]


def are_near(widths: Sequence[int]) -> bool:
    """Whether rows of these widths are worth making as wide as the widest."""
    return max(widths) * len(widths) <= 2 * sum(widths)


HALVES = (torch.bfloat16, torch.float16)


def in_float32(value: Any, dtypes: set[torch.dtype]) -> Any:
    """A tensor, or a pair, with float32 in place of halves.

    Args:
        value: An argument of a call.
        dtypes: Gets those of floats in it.
    """
    if isinstance(value, tuple):
        return tuple(in_float32(part, dtypes) for part in value)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    dtypes.add(value.dtype)
    return value.float() if value.dtype in HALVES else value


def _is_finite(rows: Tensor) -> bool:
    if rows.device.type != "cpu" or math.isfinite(rows.sum().item()):
        return True
    return bool(rows.isfinite().all())


def check_tensor(name: str, value: Tensor) -> None:
    """Raises `NotTraceable` unless a tensor is one that programs take."""
    if value.layout is not torch.strided or value.is_nested:
        raise NotTraceable(f"{name} is a sparse or nested tensor: strided tensors compile")
    if value.is_floating_point() and value.dtype is not torch.float32:
        dtype = str(value.dtype).removeprefix("torch.")
        raise NotTraceable(f"{name} is {dtype}: float32 compiles")


def are_edges(value: object) -> bool:
    """Whether it is an edge_index, integers [2, E]."""
    return (
        isinstance(value, Tensor)
        and value.dtype in (torch.int64, torch.int32)
        and value.dim() == 2
        and value.shape[0] == 2
    )

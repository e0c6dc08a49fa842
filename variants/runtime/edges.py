"""From the edge tensors that modules are called with to graphs, built once and used again."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from hetune.variants.frontend.adapter import Adapter, sample_of
from hetune.variants.frontend.calls import Call, graph_of
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.lazy_tensors import is_lazy, materialized
from hetune.variants.graph.streams import synchronize

_MOST = 32
"""Graphs that are remembered; the ones used longest ago are forgotten first."""


class GraphCache:
    """Graphs by the tensors they were made of.

    A graph is used again only for the very same tensors, unchanged since: identity by weak
    reference, content by torch's write counter. It goes when one of them does. Tensors made in
    inference mode have no counter and are told apart by a digest of their content.
    """

    def __init__(self) -> None:
        self._graphs: OrderedDict[_Key, _Entry] = OrderedDict()
        self._met: dict[int, tuple[weakref.ref[Tensor], ...]] = {}
        # A tensor may die, and take its graph along, while this thread holds the lock.
        self._lock = threading.RLock()

    def graph(
        self,
        tensors: Sequence[Tensor],
        others: tuple[object, ...],
        build: Callable[[], HeteroGraph],
    ) -> HeteroGraph:
        """The graph of these tensors.

        Args:
            tensors: What the graph is made of.
            others: Anything else that it depends on, hashable.
            build: Makes it.
        """
        key = (*others, *(_identity(tensor) for tensor in tensors))
        with self._lock:
            found = self._graphs.get(key)
            if found is not None and found.is_now(tensors):
                self._graphs.move_to_end(key)
                return found.graph
        graph = build()
        synchronize(graph.device)
        forget = self._forgetting(key)
        entry = _Entry(tuple(_Seen(tensor, forget) for tensor in tensors), graph)
        with self._lock:
            self._graphs[key] = entry
            self._graphs.move_to_end(key)
            if len(self._graphs) > _MOST:
                self._graphs.popitem(last=False)
        return graph

    def graph_of(self, adapter: Adapter, call: Call) -> HeteroGraph:
        """The graph of a call: what it gave, or what its edge tensors are.

        Args:
            adapter: The layer's.
            call: What it was called with.

        Raises:
            GraphError: The edges are no graph.
            InputError: The graph does not fit the module.
        """
        if isinstance(call.edges, HeteroGraph):
            return graph_of(adapter, call)
        others: tuple[object, ...]
        if isinstance(call.x, Tensor):
            others = (call.x.shape[0],)
        else:
            others = tuple((name, rows.shape[0]) for name, rows in call.x.items())
        if isinstance(call.edges, Mapping):
            others = (*others, *call.edges)
        return self.graph(call.tensors, others, lambda: graph_of(adapter, call))

    def is_new(self, tensors: Sequence[Tensor], others: tuple[object, ...]) -> bool:
        """Whether these tensors are asked for the first time; the next time they are not new.

        Tensors that a graph was made of are not, either, written to since or not.
        """
        met = self._met.get(id(tensors[0]))
        if met is not None and all(ref() is t for ref, t in zip(met, tensors, strict=True)):
            return False
        if self._graphs and (*others, *map(id, tensors)) in self._graphs:
            return False
        if len(self._met) == _MOST:
            self._met.clear()
        self._met[id(tensors[0])] = tuple(map(weakref.ref, tensors))
        return True

    def _forgetting(self, key: _Key) -> Callable[[weakref.ref[Tensor]], None]:
        """What to do when a tensor of this key dies."""
        cache = weakref.ref(self)

        def forget(reference: weakref.ref[Tensor]) -> None:
            self = cache()
            if self is None:
                return
            with self._lock:
                entry = self._graphs.get(key)
                if entry is not None and any(seen.reference is reference for seen in entry.seen):
                    del self._graphs[key]

        return forget


_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    seen: tuple[_Seen, ...]
    graph: HeteroGraph

    def is_now(self, tensors: Sequence[Tensor]) -> bool:
        return all(seen.is_now(tensor) for seen, tensor in zip(self.seen, tensors, strict=True))


class _Seen:
    """A tensor as it was at one time."""

    def __init__(self, tensor: Tensor, forget: Callable[[weakref.ref[Tensor]], None]) -> None:
        self._digested = tensor.is_inference()
        # Equal content may come in another tensor: the death of this one means nothing.
        self.reference = weakref.ref(tensor, None if self._digested else forget)
        self._version = 0 if self._digested else tensor._version
        self._place = _place(tensor)
        # Writes through NumPy or `.data` move no counter.
        is_plain = type(tensor) is Tensor and tensor.device.type == "cpu" and not self._digested
        self._sample = sample_of(tensor.detach()) if is_plain else None
        self._elements = self._read()

    def is_now(self, tensor: Tensor) -> bool:
        if self._digested:
            return True  # equal keys already mean equal content
        is_same = self.reference() is tensor and self._place == _place(tensor)
        return is_same and self._version == tensor._version and self._elements == self._read()

    def _read(self) -> bytes:
        return b"" if self._sample is None else self._sample.tobytes()


def _place(tensor: Tensor) -> object:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), is_lazy(tensor)


def _identity(tensor: Tensor) -> object:
    if not tensor.is_inference():
        return id(tensor)
    content = materialized(tensor.detach().cpu()).numpy().tobytes()
    return str(tensor.device), tensor.shape, str(tensor.dtype), hashlib.blake2b(content).digest()

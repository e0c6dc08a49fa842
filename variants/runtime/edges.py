"""From the edge tensors that modules are called with to graphs, built once and used again."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.fork_locks import new_rlock
from hetune.variants.frontend.call import Call
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.streams import synchronize
from hetune.variants.graph.tensor_identity import identity
from hetune.variants.runtime.seen import SeenTensor

_MOST = 32
"""Graphs that are remembered; the ones used longest ago are forgotten first."""


class GraphCache:
    """Graphs by the tensors they were made of.

    A graph is used again only for the very same tensors, unchanged since: identity by weak
    reference, content by torch's write counter. It goes when one of them does. Tensors made in
    inference mode have no counter and are told apart by a digest of their content.

    Args:
        shared: A cache that has the same graphs, for as long as it lives.
    """

    def __init__(self, shared: GraphCache | None = None) -> None:
        self._shared = shared
        self._graphs: OrderedDict[_Key, _Entry] = shared._graphs if shared else OrderedDict()
        # A tensor may die, and take its graph along, while this thread holds the lock.
        self._lock: threading.RLock = shared._lock if shared else new_rlock()

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
        key = (*others, *(identity(tensor) for tensor in tensors))
        with self._lock:
            found = self._graphs.get(key)
            if found is not None and found.is_now(tensors):
                self._graphs.move_to_end(key)
                return found.graph
        with torch.inference_mode(False):  # what is made there counts no writes
            graph = build()
        synchronize(graph.device)
        forget = self._forgetting(key)
        # Equal content may come in another tensor: the death of one that is digested means nothing.
        seen = (None if t.is_inference() else SeenTensor(t, forget) for t in tensors)
        entry = _Entry(tuple(seen), graph)
        with self._lock:
            self._graphs[key] = entry
            self._graphs.move_to_end(key)
            if len(self._graphs) > _MOST:
                self._graphs.popitem(last=False)
        return graph

    def graph_of(self, call: Call) -> HeteroGraph:
        """The graph of a call: what it gave, or what its edge tensors are.

        Raises:
            GraphError: The edges are no graph.
            InputError: The graph does not fit the module.
        """
        tensors = call.tensors
        return self.graph(tensors, call.others, call.graph) if tensors else call.graph()

    def _forgetting(self, key: _Key) -> Callable[[weakref.ref[Tensor]], None]:
        """What to do when a tensor of this key dies."""
        cache = weakref.ref(self._shared or self)

        def forget(reference: weakref.ref[Tensor]) -> None:
            self = cache()
            if self is None:
                return
            with self._lock:
                entry = self._graphs.get(key)
                seen = () if entry is None else entry.seen
                if any(each is not None and each.reference is reference for each in seen):
                    del self._graphs[key]

        return forget


_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    seen: tuple[SeenTensor | None, ...]
    """None for tensors whose key says what they hold."""
    graph: HeteroGraph

    def is_now(self, tensors: Sequence[Tensor]) -> bool:
        pairs = zip(self.seen, tensors, strict=True)
        return all(seen is None or seen.is_now(tensor) for seen, tensor in pairs)

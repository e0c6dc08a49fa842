"""From the edge tensors that modules are called with to graphs, built once and used again."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence

from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph

_MOST = 32
"""Graphs that are remembered; the ones used longest ago are forgotten first."""


class GraphCache:
    """Graphs by the tensors they were made of.

    A graph is used again only for the very same tensors, unchanged since: identity by weak
    reference, content by torch's write counter. Tensors made in inference mode have no counter and
    are told apart by a digest of their content.
    """

    def __init__(self) -> None:
        self._graphs: OrderedDict[tuple[object, ...], tuple[list[_Seen], HeteroGraph]] = (
            OrderedDict()
        )
        self._lock = threading.Lock()

    def graph(
        self, tensors: Sequence[Tensor], extra: tuple[object, ...], build: Callable[[], HeteroGraph]
    ) -> HeteroGraph:
        """The graph of these tensors.

        Args:
            tensors: What the graph is made of.
            extra: Anything else that it depends on, hashable.
            build: Makes it.
        """
        key = (*extra, *(_identity(tensor) for tensor in tensors))
        with self._lock:
            found = self._graphs.get(key)
            if found is not None and all(
                seen.is_now(tensor) for seen, tensor in zip(found[0], tensors, strict=True)
            ):
                self._graphs.move_to_end(key)
                return found[1]
        graph = build()
        with self._lock:
            self._graphs[key] = ([_Seen(tensor) for tensor in tensors], graph)
            self._graphs.move_to_end(key)
            self._drop_stale()
        return graph

    def _drop_stale(self) -> None:
        for key in [k for k, (seen, _) in self._graphs.items() if any(s.is_gone for s in seen)]:
            del self._graphs[key]
        while len(self._graphs) > _MOST:
            self._graphs.popitem(last=False)


class _Seen:
    """A tensor as it was at one time."""

    def __init__(self, tensor: Tensor) -> None:
        self._digested = tensor.is_inference()
        self._reference = weakref.ref(tensor)
        self._version = 0 if self._digested else tensor._version

    @property
    def is_gone(self) -> bool:
        return not self._digested and self._reference() is None

    def is_now(self, tensor: Tensor) -> bool:
        if self._digested:
            return True  # equal keys already mean equal content
        return self._reference() is tensor and self._version == tensor._version


def _identity(tensor: Tensor) -> object:
    if not tensor.is_inference():
        return id(tensor)
    content = tensor.detach().cpu().contiguous().numpy().tobytes()
    return tensor.shape, str(tensor.dtype), hashlib.blake2b(content).digest()

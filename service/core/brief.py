"""How long requests took that were answered before, for as long as what they need is in memory.

Where the same is asked for again, nothing has to be read, chosen, compiled or indexed first.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias
from weakref import WeakKeyDictionary

import torch

from hetune.costmodel.selector import Selector
from hetune.service.core.service import Service
from hetune.variants.errors import HetuneError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.compiled import CompiledLayer

BRIEF_SECONDS = 2e-3
"""What takes less may be done where others wait for it."""
SHORT_BYTES = 1 << 18
"""What is read in less time than it takes to give it to another thread."""
SHORT_JSON_BYTES = 1 << 14
"""Likewise of JSON."""
_KINDS = 32
_KEPT = 2
_Known: TypeAlias = dict[Hashable, tuple[float, ...]]


class Times:
    """Of the last requests of one kind, by the number of threads that they used.

    Args:
        known: The last times of every kind.
        kind: Which.
    """

    __slots__ = ("_kind", "_known")

    def __init__(self, known: _Known, kind: Hashable) -> None:
        self._known, self._kind = known, kind

    @property
    def are_brief(self) -> bool:
        """Whether a request of the kind took next to no time; one that was held up does not count.

        Two in a row do, and so does the first one, which has preparation in it.
        """
        known = self._known.get((self._kind, torch.get_num_threads()), ())
        return bool(known) and min(known) < BRIEF_SECONDS

    def note(self, seconds: float) -> None:
        """Remembers one."""
        kind = self._kind, torch.get_num_threads()
        if len(self._known) >= _KINDS and kind not in self._known:
            self._known.clear()
        self._known[kind] = (*self._known.get(kind, ()), seconds)[-_KEPT:]


class Experience:
    """What is known of a service's requests. For one thread, which waits for nobody here.

    Args:
        service: What answers them.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: WeakKeyDictionary[
            HeteroGraph, WeakKeyDictionary[Selector, WeakKeyDictionary[CompiledLayer, _Known]]
        ] = WeakKeyDictionary()

    def times_of(
        self, model: str, version: int | None, graph: str, features: str | None, kind: Hashable
    ) -> Times | None:
        """Those of requests that ask for all rows, by the variants that are chosen now.

        Args:
            model: Its name.
            version: Its number; the latest if None.
            graph: The id of one that is kept.
            features: The name of those that are kept with it; None if they come along.
            kind: What else makes a difference.

        Returns:
            None where not all is in memory, or another device is asked to compute.
        """
        service = self._service
        if not service.engine.ground.is_host:
            return None  # who waits for a device waits as long as that likes
        try:
            found, given = service.models.held(model, version), service.graphs.held(graph)
            if found is None or given is None:
                return None
            if features is not None and not service.features.is_held(graph, features):
                return None
        except HetuneError:
            return None  # who answers the request will tell
        by_selector = self._known.setdefault(given, WeakKeyDictionary())
        selector = service.following.active.selector
        by_layer = by_selector.setdefault(selector, WeakKeyDictionary())
        return Times(by_layer.setdefault(found.compiled[-1], {}), (features, kind))

"""Copies of graphs on a device: made once, and held as long as their graphs, up to a limit."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from hetune.service.core.formats.limits import check_limit
from hetune.service.core.graphs.graphs import indexed_bytes
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot

_COPIES = GraphSlot[None, HeteroGraph]()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _Claim:
    """Owns a copy, which is cached on its graph: it goes when either of the two does."""

    graph: weakref.ref[HeteroGraph]
    nbytes: int


class DeviceCopies:
    """Safe with several threads. The copy used longest ago goes first; the newest one stays.

    What runs keep with a copy (indexes, tables, recorded runs) goes with it.

    Args:
        place: Makes a copy.
        limit: Bytes of all copies together, with their indexes; an estimate.
    """

    def __init__(self, place: Callable[[HeteroGraph], HeteroGraph], limit: int) -> None:
        self._place, self._limit = place, limit
        self._claims: OrderedDict[int, _Claim] = OrderedDict()
        self._mutex = threading.Lock()

    def of(self, graph: HeteroGraph) -> HeteroGraph:
        """The copy of a graph.

        Raises:
            TooLargeError: The graph alone is over the limit.
        """
        claim = self._claim(graph)
        return graph.state.of(_COPIES, None, lambda: self._place(graph), owner=claim)

    @property
    def nbytes(self) -> int:
        """Of all copies, by estimate."""
        with self._mutex:
            return sum(claim.nbytes for claim in self._claims.values() if claim.graph() is not None)

    def __len__(self) -> int:
        with self._mutex:
            return sum(claim.graph() is not None for claim in self._claims.values())

    def clear(self) -> None:
        """Lets go of all copies; one that is asked for again is made anew."""
        with self._mutex:
            self._claims.clear()

    def _claim(self, graph: HeteroGraph) -> _Claim:
        with self._mutex:
            gone = [key for key, claim in self._claims.items() if claim.graph() is None]
            for key in gone:
                del self._claims[key]
            claim = self._claims.get(id(graph))  # a graph that lives, for no other is left
            if claim is None:
                nbytes = indexed_bytes(graph)
                check_limit("bytes for a graph on the device", nbytes, self._limit)
                claim = self._claims[id(graph)] = _Claim(weakref.ref(graph), nbytes)
            self._claims.move_to_end(id(graph))
            self._shrink()
            return claim

    def _shrink(self) -> None:
        total = sum(claim.nbytes for claim in self._claims.values())
        while total > self._limit and len(self._claims) > 1:
            total -= self._claims.popitem(last=False)[1].nbytes

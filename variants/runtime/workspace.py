"""The memory that runs on one graph share: an arena, scratch, and what results give back."""

from __future__ import annotations

import weakref
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hetune.variants.fork_locks import new_lock
from hetune.variants.graph.float_memory import ELEMENT, HUGE_PAGE, aligned, allocate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.runtime.memory import Layout


class Sliced(Protocol):
    """What has its temporaries in the arena."""

    layout: Layout

    def slice(self, arena: Tensor) -> dict[str, Tensor]:
        """The temporaries in an arena that is large enough."""
        ...


class Workspace:
    """Memory for one run at a time, kept between runs, as large as the largest needed.

    Shared by all layers and variants that run on a graph: trying many of them takes no more than
    the hungriest one. Whoever uses it holds ``lock``.
    """

    def __init__(self) -> None:
        self.lock = new_lock()
        self.results = ReusedMemory()
        self._arena = self._scratch = _NOTHING
        self._slices: weakref.WeakKeyDictionary[Sliced, dict[str, Tensor]] = (
            weakref.WeakKeyDictionary()
        )

    @classmethod
    def of(cls, graph: HeteroGraph) -> Workspace:
        """The workspace of a graph."""
        return graph.state.of(WORKSPACES, None, cls)

    @property
    def nbytes(self) -> int:
        """Bytes kept between runs, but for results."""
        return self._arena.nbytes + self._scratch.nbytes

    def slices(self, user: Sliced) -> dict[str, Tensor]:
        """A user's temporaries; the arena grows if they do not fit."""
        if self._arena.nbytes < user.layout.arena_bytes:
            self._slices.clear()
            self._arena = allocate(user.layout.arena_bytes // ELEMENT)
        found = self._slices.get(user)
        if found is None:
            found = self._slices[user] = user.slice(self._arena)
        return found

    def scratch(self, nbytes: int) -> Tensor:
        """Scratch of at least that many bytes."""
        if self._scratch.nbytes < nbytes:
            self._scratch = allocate(nbytes // ELEMENT)
        return self._scratch

    def release(self) -> None:
        """Gives the memory back; the next run takes it anew."""
        with self.lock:
            self._slices.clear()
            self._arena = self._scratch = _NOTHING
            self.results = ReusedMemory()


WORKSPACES = GraphSlot[None, Workspace](by_counts=True)


class ReusedMemory:
    """Memory for results, or bodies of requests: what a dropped one gives back serves the next.

    Fresh memory costs a page fault for every page, which for a large graph takes as long as the
    layer, and much longer where a hypervisor has taken the pages back. At most one block is kept.
    """

    def __init__(self) -> None:
        self._spare: list[np.ndarray] = []

    @property
    def nbytes(self) -> int:
        """Bytes that were given back, and are kept."""
        return sum(block.nbytes for block in tuple(self._spare))

    def take(self, elements: int) -> Tensor:
        """Uninitialised float32 memory that nobody else uses."""
        if elements * ELEMENT < HUGE_PAGE:
            return torch.empty(elements, dtype=torch.float32, device="cpu")
        try:
            block = self._spare.pop()
        except IndexError:
            block = aligned(elements)
        if block.size != elements:
            block = aligned(elements)
        # The tensor holds this view; when the last tensor on it goes, the block comes back.
        view = block[:]
        weakref.finalize(view, self._give_back, weakref.ref(self), block).atexit = False
        return torch.from_numpy(view)

    @staticmethod
    def _give_back(memory: weakref.ref[ReusedMemory], block: np.ndarray) -> None:
        owner = memory()
        if owner is not None and not owner._spare:
            owner._spare.append(block)


_NOTHING = allocate(0)

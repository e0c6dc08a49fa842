"""Watches what interpreted kernels touch, for what goes wrong on a GPU alone.

The interpreter runs one program after the other, and each statement as a whole. On a GPU programs
run at the same time, and so do the threads of one, between barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


class FaultError(AssertionError):
    """A kernel touches what it must not."""


class Watch:
    """What one kernel has touched so far.

    Args:
        tensors: What it was given.
    """

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        ranges = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors if t.nbytes)
        self._starts = np.array([start for start, _ in ranges], dtype=np.uint64)
        self._ends = np.maximum.accumulate(np.array([end for _, end in ranges], dtype=np.uint64))
        self._program = (0, 0, 0)
        self._programs: dict[tuple[int, int, int], int] = {}
        self._touched: dict[str, list[np.ndarray]] = {"load": [], "store": [], "add": []}
        self._since: dict[str, list[np.ndarray]] = {"load": [], "store": []}
        """What this program has touched since its last barrier."""

    def turn_to(self, program: tuple[int, int, int]) -> None:
        """Another program begins."""
        self._program = program
        self._programs.setdefault(program, len(self._programs))
        self.wait()

    def wait(self) -> None:
        """A barrier."""
        self._since = {"load": [], "store": []}

    def touch(self, how: str, places: np.ndarray, mask: np.ndarray) -> None:
        """A load, a store or an addition at addresses, where the mask is true.

        Raises:
            FaultError: An address is nobody's; or a thread may do so before another one has stored
                there, or loaded from there what stood there before.
        """
        places, mask = np.broadcast_arrays(places, mask.astype(bool))
        at = np.unique(places[mask].astype(np.uint64))
        if not at.size:
            return
        found = np.searchsorted(self._starts, at, "right").astype(int) - 1
        if (found < 0).any() or (at >= self._ends[found]).any():
            raise FaultError(
                f"program {self._program}: a {how} beyond all that the kernel was given"
            )
        number = np.full(at.size, self._programs[self._program], dtype=np.uint64)
        self._touched[how].append(np.stack((at, number)))
        before = (
            self._since["store"] if how == "load" else self._since["store"] + self._since["load"]
        )
        if how == "store" and self._since["load"] and np.array_equal(self._since["load"][-1], at):
            before = before[:-1]  # what is added to is loaded by the threads that store it
        if how != "add":
            if any(np.isin(at, other).any() for other in before):
                raise FaultError(f"program {self._program}: a {how} that waits for no barrier")
            self._since[how].append(at)

    def end(self) -> None:
        """The kernel has ended.

        Raises:
            FaultError: A program has touched what another one has written.
        """
        loads, stores, adds = (_pairs(self._touched[how]) for how in ("load", "store", "add"))
        at, of = stores
        if np.unique(at).size < at.size:
            raise FaultError("two programs store at one address")
        for how, (other, program) in (("load", loads), ("add", adds)):
            found = np.minimum(np.searchsorted(at, other), max(at.size - 1, 0))
            if at.size and ((at[found] == other) & (of[found] != program)).any():
                raise FaultError(f"a program stores where another one has a {how}")
        if np.isin(loads[0], adds[0]).any():
            raise FaultError("a program loads what programs add to")


def _pairs(touched: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Addresses, ascending, with each program that touched them."""
    if not touched:
        return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64)
    at, program = np.unique(np.concatenate(touched, axis=1), axis=1)
    return at, program


@contextmanager
def watched() -> Iterator[list[Watch]]:
    """Watches all kernels that are interpreted meanwhile; yields one for each."""
    from triton.runtime import interpreter

    executor, builder = interpreter.GridExecutor, interpreter.InterpreterBuilder
    watches: list[Watch] = []
    names = ("create_masked_load", "create_masked_store", "create_atomic_rmw", "create_barrier")
    own = {name: getattr(builder, name) for name in (*names, "set_grid_idx")}
    call = executor.__call__

    def called(self, *args, **kwargs):
        watches.append(Watch([arg for arg in args if isinstance(arg, torch.Tensor)]))
        call(self, *args, **kwargs)
        watches[-1].end()

    def turn_to(self, *program):
        own["set_grid_idx"](self, *program)
        watches[-1].turn_to(program)

    def load(self, places, mask, *rest):
        watches[-1].touch("load", places.data, mask.data)
        return own["create_masked_load"](self, places, mask, *rest)

    def store(self, places, value, mask, *rest):
        watches[-1].touch("store", places.data, mask.data)
        return own["create_masked_store"](self, places, value, mask, *rest)

    def add(self, how, places, value, mask, *rest):
        watches[-1].touch("add", places.data, mask.data)
        return own["create_atomic_rmw"](self, how, places, value, mask, *rest)

    def wait(self):
        watches[-1].wait()

    try:
        executor.__call__ = called
        for name, instead in zip(own, (load, store, add, wait, turn_to), strict=True):
            setattr(builder, name, instead)
        yield watches
    finally:
        executor.__call__ = call
        for name, before in own.items():
            setattr(builder, name, before)

"""What is built when it is asked for: kept, until it is released; timed and accounted for."""

import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import torch

from hetune.variants.fork_locks import new_lock, new_rlock

_T = TypeVar("_T")

SMALL_BYTES = 1 << 16
"""Tensors of no more are kept in any case: what they are made of may be large."""


class Steps:
    """Named results of building, safe to ask for from several threads.

    Attributes:
        build_seconds: What has been built, and the seconds that took.
        builds: How often something was.
    """

    def __init__(self) -> None:
        """Starts with nothing built."""
        self.build_seconds: dict[str, float] = {}
        self.builds = 0
        self._lock = new_rlock()
        self._built: dict[str, Any] = {}
        self._weakly_held: dict[str, Callable[[], Any]] = {}
        self._released: list[weakref.ref[torch.Tensor]] = []
        self._nested_seconds = 0.0

    def step(self, name: str, build: Callable[[], _T]) -> _T:
        """What `build` yields, built and timed where it is not there; without steps it triggers."""
        found = self._found(name)
        if found is None:
            with self._lock:
                found = self._found(name)
                if found is None:
                    outer, self._nested_seconds = self._nested_seconds, 0.0
                    start = time.perf_counter()
                    try:
                        found = build()
                        seconds = time.perf_counter() - start
                        self.build_seconds[name] = seconds - self._nested_seconds
                        self.builds += 1
                        self._built[name] = found
                    finally:
                        self._nested_seconds = outer + time.perf_counter() - start
        return cast(_T, found)

    def is_built(self, name: str) -> bool:
        """Whether a step is done, and what it yielded is there."""
        return self._found(name) is not None

    def release(self) -> None:
        """Keeps large tensors from now on only as long as somebody else does.

        What is asked for when they are gone is built again, and kept.
        """
        with self._lock:
            for name, value in tuple(self._built.items()):
                tensors = tuple(_tensors((value,)))
                if any(map(_is_large, tensors)):
                    self._released += map(weakref.ref, tensors)
                    self._weakly_held[name] = _weak(value)
                    del self._built[name]

    def _found(self, name: str) -> Any:
        """What a step has yielded; None if it has not, or that is gone."""
        found = self._built.get(name)
        if found is None and name in self._weakly_held:
            found = self._weakly_held[name]()
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that have been built and are there."""
        with self._lock:
            there = (*_tensors(self._built.values()), *(tensor() for tensor in self._released))
        return sum({t.data_ptr(): t.nbytes for t in there if t is not None}.values())


class IndexRetention:
    """Steps that belong together, all of a graph's indexes: what is kept of them."""

    def __init__(self) -> None:
        """Starts with none."""
        self._lock = new_lock()
        self._members: weakref.WeakSet[Steps] = weakref.WeakSet()
        self._is_released = False

    def join(self, steps: Steps) -> None:
        """Makes steps belong to the others, without keeping them alive."""
        with self._lock:
            self._members.add(steps)

    @property
    def builds(self) -> int:
        """How often something was built."""
        return sum(steps.builds for steps in self._all())

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that have been built and are there; shared ones count for each."""
        return sum(steps.nbytes for steps in self._all())

    def release(self) -> None:
        """Releases all of them (`Steps.release`), once."""
        with self._lock:
            is_first, self._is_released = not self._is_released, True
        for steps in self._all() if is_first else ():
            steps.release()

    def _all(self) -> tuple[Steps, ...]:
        with self._lock:
            return tuple(self._members)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)


def _is_large(tensor: torch.Tensor) -> bool:
    return tensor.nbytes > SMALL_BYTES


def _weak(value: Any) -> Callable[[], Any]:
    """Yields a value as long as somebody keeps its large tensors; None after that."""
    if isinstance(value, torch.Tensor) and _is_large(value):
        return weakref.ref(value)
    if not isinstance(value, tuple):
        return lambda: value
    parts = tuple(map(_weak, value))
    make = getattr(value, "_make", tuple)

    def found() -> Any:
        there = [part() for part in parts]
        return None if any(each is None for each in there) else make(there)

    return found

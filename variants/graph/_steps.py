"""What is built when it is first asked for: once, kept, timed and accounted for."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

import torch

_T = TypeVar("_T")


class Steps:
    """Named results of building, safe to ask for from several threads.

    Attributes:
        build_seconds: What has been built, and the seconds that took.
    """

    def __init__(self) -> None:
        """Starts with nothing built."""
        self.build_seconds: dict[str, float] = {}
        self._lock = threading.RLock()
        self._built: dict[str, Any] = {}
        self._nested_seconds = 0.0

    def step(self, name: str, build: Callable[[], _T]) -> _T:
        """What `build` yields, built and timed once; the time excludes steps it triggers."""
        if name not in self._built:
            with self._lock:
                if name not in self._built:
                    outer, self._nested_seconds = self._nested_seconds, 0.0
                    start = time.perf_counter()
                    try:
                        built = build()
                        seconds = time.perf_counter() - start
                        self.build_seconds[name] = seconds - self._nested_seconds
                        self._built[name] = built
                    finally:
                        self._nested_seconds = outer + time.perf_counter() - start
        return cast(_T, self._built[name])

    def is_built(self, name: str) -> bool:
        """Whether a step is done."""
        return name in self._built

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that have been built."""
        with self._lock:
            found = {t.data_ptr(): t.nbytes for t in _tensors(self._built.values())}
        return sum(found.values())


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)
        elif is_dataclass(value):
            yield from _tensors(getattr(value, field.name) for field in fields(value))

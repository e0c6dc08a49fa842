"""How often models were run over the protocol, and what took the time."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from hetune.service.http.oip.documents import (
    BatchDurations,
    Duration,
    InferenceDurations,
    ModelStatistics,
)

QUEUE, INPUT, INFER, OUTPUT = "queue", "compute_input", "compute_infer", "compute_output"
_PARTS = (QUEUE, INPUT, INFER, OUTPUT)
_RUN = (INPUT, INFER, OUTPUT)
_WHOLE = ("success", "fail")
_NEVER = ("cache_hit", "cache_miss")  # answers are not kept


class Laps:
    """Times the parts of a request, one after the other. A part may come again.

    Attributes:
        start: When the first one began, of `time.perf_counter_ns()`.
        ns: Of each part.
    """

    def __init__(self) -> None:
        self.start = self._last = time.perf_counter_ns()
        self.ns = dict.fromkeys(_PARTS, 0)

    def lap(self, part: str) -> None:
        """What has passed since the last lap belongs to this part."""
        now = time.perf_counter_ns()
        self.ns[part] += now - self._last
        self._last = now


class _Counters:
    def __init__(self) -> None:
        self.count = dict.fromkeys((*_PARTS, *_WHOLE, *_NEVER), 0)
        self.ns = dict.fromkeys(self.count, 0)
        self.last_ms = 0

    def add(self, part: str, ns: int) -> None:
        self.count[part] += 1
        self.ns[part] += ns

    def durations(self, *parts: str) -> dict[str, Duration]:
        return {part: Duration(count=self.count[part], ns=self.ns[part]) for part in parts}


class Statistics:
    """Counters of versions of models, since the service was started. Safe with several threads."""

    def __init__(self) -> None:
        self._counters: defaultdict[tuple[str, int], _Counters] = defaultdict(_Counters)
        self._mutex = threading.Lock()

    @contextmanager
    def counted(self, name: str, version: int) -> Iterator[Laps]:
        """Counts a request: a failed one if an error leaves it."""
        laps = Laps()
        is_success = False
        try:
            yield laps
            is_success = True
        finally:
            total = time.perf_counter_ns() - laps.start
            with self._mutex:
                counters = self._counters[name, version]
                counters.last_ms = time.time_ns() // 1_000_000
                if is_success:
                    counters.add("success", total)
                    for part in _PARTS:
                        counters.add(part, laps.ns[part])
                else:
                    counters.add("fail", total)

    def of(self, name: str, version: int) -> ModelStatistics:
        """A version's statistics."""
        with self._mutex:
            counters = self._counters.get((name, version)) or _Counters()
            successes = counters.count["success"]
            return ModelStatistics(
                name=name,
                version=str(version),
                last_inference=counters.last_ms,
                inference_count=successes,
                execution_count=successes,
                inference_stats=InferenceDurations(**counters.durations(*_PARTS, *_WHOLE, *_NEVER)),
                batch_stats=(BatchDurations(batch_size=1, **counters.durations(*_RUN)),)
                if successes
                else (),
            )

"""What is remembered of a layer's use of a graph: one memory, which a service shares with it."""

from __future__ import annotations

import statistics
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from hetune.variants.fork_locks import new_lock
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.runtime.calls import Calls
from hetune.variants.runtime.choice import Choice, Decision
from hetune.variants.runtime.cost_estimates import CostEstimator
from hetune.variants.runtime.replay import Recorder, Replays
from hetune.variants.runtime.thread_watch import ThreadWatch

_MOST_DEMANDS = 8
_MOST_TIMES = 9
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class _Recent(Generic[_Key, _Value]):
    """The values of the last eight keys that were asked for."""

    def __init__(self) -> None:
        self._values: OrderedDict[_Key, _Value] = OrderedDict()
        self._lock = new_lock()

    def of(self, key: _Key, build: Callable[[], _Value]) -> _Value:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = build()
        with self._lock:
            value = self._values.setdefault(key, value)
            if len(self._values) > _MOST_DEMANDS:
                self._values.popitem(last=False)
            return value


@dataclass(slots=True)
class RunTimes:
    """Of one variant.

    Attributes:
        seconds: The last times, without the first run's, which has preparation in it.
    """

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_TIMES))

    @property
    def median(self) -> float | None:
        """Seconds; None where it has run but once."""
        return statistics.median(self.seconds) if self.seconds else None


class LayerUse:
    """Calls, decisions, replays and times of one layer on one graph. Safe with several threads.

    Kept with the graph for as long as the layer, and refers to neither. Of calls and decisions that
    differ in what is demanded (a memory limit, threads, expected runs), the last eight of each are
    remembered.

    Attributes:
        times: Of runs that were recorded, by the id of the variant: those are prepared.
        is_met: Whether a call has chosen for the graph.
    """

    def __init__(self) -> None:
        self.is_met = False
        self.times: dict[str, RunTimes] = {}
        self._calls: _Recent[tuple[int | None, bool, int], Calls] = _Recent()
        self._decisions: WeakKeyDictionary[CostEstimator, _Recent[tuple[float, int], Decision]]
        self._decisions = WeakKeyDictionary()
        self._watches: dict[tuple[str, int, bool], ThreadWatch | None] = {}
        self._replays_pay: dict[tuple[str, int | None], bool] = {}
        self._replays: Replays | None = None
        self._lock = new_lock()

    def calls(self, memory_limit: int | None, weights_change: bool = False) -> Calls:
        """The calls with a memory limit in bytes, or without one, and as many threads as now.

        Args:
            memory_limit: The limit.
            weights_change: Whether those that train weights.
        """
        return self._calls.of((memory_limit, weights_change, kernel_threads()), Calls)

    def decision(
        self, estimator: CostEstimator, demands: tuple[float, int], choose: Callable[[], Choice]
    ) -> Decision:
        """What was decided for demands, or else is now; remembered no longer than the estimator.

        Args:
            estimator: Who predicts.
            demands: Expected runs, and threads.
            choose: Chooses, where nothing is remembered.
        """
        with self._lock:
            recent = self._decisions.setdefault(estimator, _Recent())
        return recent.of(demands, lambda: choose().decision)

    def record(self, variant: str, seconds: float) -> bool:
        """Records a run, and says whether it had preparation in it."""
        known = self.times.get(variant)
        if known is None:
            self.times[variant] = RunTimes()
            return True
        known.seconds.append(seconds)
        return False

    def watch(
        self, key: tuple[str, int, bool], build: Callable[[], ThreadWatch | None]
    ) -> ThreadWatch | None:
        """Who watches runs.

        Args:
            key: The variant's key, threads, and whether nobody predicted the runs.
            build: Makes it; None where nobody needs to watch.
        """
        if key not in self._watches:
            self._watches.setdefault(key, build())
        return self._watches[key]

    def watch_with(self, other: LayerUse) -> None:
        """Lets the runs on another graph, of about this one's size, tell about this one's, too."""
        self._watches = other._watches

    def replays(self, must: bool, recorder: Recorder) -> Replays:
        """The runs that are recorded, as `Replays` takes it."""
        with self._lock:
            if self._replays is None:
                self._replays = Replays(must, recorder)
            return self._replays

    def replays_pay(self, key: tuple[str, int | None], predict: Callable[[], bool]) -> bool:
        """Whether replays of a variant, by its key and the memory limit, are predicted to pay."""
        if key not in self._replays_pay:
            self._replays_pay.setdefault(key, predict())
        return self._replays_pay[key]

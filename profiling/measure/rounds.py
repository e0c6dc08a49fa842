"""Interleaved rounds: slow drift of a machine meets all candidates alike, or the round is repeated.

In each round every candidate that takes part in it runs once, in an order that is drawn anew. A
yardstick, work that never changes, is read between rounds; where it says that the machine was not
the same before and after, the round does not count and is taken again, once a machine that
stalls is itself again.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hetune.profiling.measure.timing import Timing

DRIFT = 0.05
"""A round in which the yardstick's time moved by more than this share is repeated."""

STALL = 1.0
"""A machine whose yardstick is off what is usual by more than this share is waited for."""

WAITING = ""
"""Named to `progress` where no candidate is at work."""

_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds between the looks at a machine that stalls: few, as each of them counts as usual."""

Sample = TypeVar("Sample")


class Yardstick(Protocol):
    """Work that never changes, timed between rounds."""

    def read(self) -> float:
        """Its seconds, now."""
        ...

    def drift(self, before: float, after: float) -> float:
        """How far two readings lie apart, and from what is usual, as a share."""
        ...


@dataclass(frozen=True, slots=True)
class Rounds(Generic[Sample]):
    """What rounds gave.

    Attributes:
        samples: By candidate, a sample for each round that it took part in, in order. A candidate
            that dropped out has none.
        drift: By candidate, the most that the yardstick moved in a round that counts for it.
        repeated: How many rounds were taken again.
    """

    samples: dict[str, tuple[Sample, ...]]
    drift: dict[str, float]
    repeated: int


def interleave(
    runs: Mapping[str, Callable[[], object]],
    rounds: int | Mapping[str, int],
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda name: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Times candidates in interleaved rounds.

    Args:
        runs: What to call, by name; warmed up already. Each result is dropped before the next run.
        rounds: How many rounds each takes part in, at least 1.
        seed: Seed of the orders.
        progress: Called with the name before each run, outside of the timed part.
        clock: Seconds.

    Raises:
        ValueError: There are no rounds.
    """

    def timed(run: Callable[[], object]) -> Callable[[], float]:
        def sample() -> float:
            start = clock()
            result = run()
            seconds = clock() - start
            del result  # freed outside of the timed part
            return seconds

        return sample

    samplers = {name: timed(run) for name, run in runs.items()}
    taken = take_rounds(samplers, rounds, seed=seed, progress=progress)
    return {name: Timing(samples) for name, samples in taken.samples.items()}


def take_rounds(
    samplers: Mapping[str, Callable[[], Sample | None]],
    rounds: int | Mapping[str, int],
    *,
    seed: int = 0,
    yardstick: Yardstick | None = None,
    repeats: int = 0,
    progress: Callable[[str], None] = lambda name: None,
    sleep: Callable[[float], object] = time.sleep,
) -> Rounds[Sample]:
    """Takes a sample of every candidate in each of its rounds. Garbage is collected between rounds.

    Before a round is repeated, a machine that stalls is waited for, about 3 seconds in all: stalls
    last longer than repeats that come at once, and would spoil them all.

    Args:
        samplers: Runs a candidate and says what it took; None drops the candidate for good.
        rounds: How many rounds each takes part in, at least 1.
        seed: Seed of the orders.
        yardstick: Read before and after every round.
        repeats: How many rounds, in all, may be repeated because the yardstick moved by more than
            `DRIFT`. Of all attempts at a round the one with the least drift counts.
        progress: Called with the name before each sample is taken, with `WAITING` before each wait.
        sleep: Waits for so many seconds.

    Raises:
        ValueError: There are no rounds.
    """
    counts = dict.fromkeys(samplers, rounds) if isinstance(rounds, int) else rounds
    if rounds == 0 or min(counts.values(), default=1) < 1:
        raise ValueError(f"{rounds} rounds measure nothing: take 1 or more")
    draw = random.Random(seed)  # noqa: S311  no secret
    taking = _Taking(samplers, draw, yardstick, progress, sleep)
    kept: list[_Attempt[Sample]] = []
    repeated = 0
    with _no_collection():
        taking.start()
        for members in memberships({name: counts[name] for name in samplers}):
            best = taking.attempt(members)
            while best.drift > DRIFT and repeated < repeats:
                repeated += 1
                taking.wait_for_calm()
                best = min(best, taking.attempt(members), key=lambda attempt: attempt.drift)
            kept.append(best)
    left = [name for name in samplers if name not in taking.dropped]
    return Rounds(
        {n: tuple(a.samples[n] for a in kept if n in a.samples) for n in left},
        {n: max(a.drift for a in kept if n in a.samples) for n in left},
        repeated,
    )


def memberships(rounds: Mapping[str, int]) -> list[list[str]]:
    """The names that take part in each round.

    A name with fewer rounds than the others takes part in rounds spread over the whole, so that
    slow drift of the machine meets all alike.
    """
    total = max(rounds.values(), default=0)
    found: list[list[str]] = [[] for _ in range(total)]
    for name, count in rounds.items():
        for i in range(count):
            found[i * total // count].append(name)
    return found


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[Sample]):
    drift: float
    samples: dict[str, Sample]


class _Taking(Generic[Sample]):
    """Takes rounds, each of which begins where the yardstick was last read."""

    def __init__(
        self,
        samplers: Mapping[str, Callable[[], Sample | None]],
        draw: random.Random,
        yardstick: Yardstick | None,
        progress: Callable[[str], None],
        sleep: Callable[[float], object],
    ) -> None:
        self.dropped: set[str] = set()
        self._samplers = samplers
        self._draw = draw
        self._yardstick = yardstick
        self._progress = progress
        self._sleep = sleep
        self._waits = iter(_WAITS)
        self._before = 0.0

    def start(self) -> None:
        if self._yardstick:
            self._before = self._yardstick.read()

    def wait_for_calm(self) -> None:
        """Waits while the machine stalls and waits are left."""
        while self._yardstick and self._yardstick.drift(self._before, self._before) > STALL:
            seconds = next(self._waits, None)
            if seconds is None:
                return
            self._progress(WAITING)
            self._sleep(seconds)
            self._before = self._yardstick.read()

    def attempt(self, members: list[str]) -> _Attempt[Sample]:
        gc.collect(1)  # what earlier rounds left; the rest of the heap would take 0.1 s
        order = [name for name in members if name not in self.dropped]
        self._draw.shuffle(order)
        samples: dict[str, Sample] = {}
        for name in order:
            self._progress(name)
            sample = self._samplers[name]()
            if sample is None:
                self.dropped.add(name)
            else:
                samples[name] = sample
        return _Attempt(self._drift(), samples)

    def _drift(self) -> float:
        if self._yardstick is None:
            return 0.0
        before, self._before = self._before, self._yardstick.read()
        return self._yardstick.drift(before, self._before)


@contextmanager
def _no_collection() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()

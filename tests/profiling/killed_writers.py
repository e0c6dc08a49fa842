"""Writers that are killed at random points: ``python killed_writers.py URL N``.

A process of its own, for it forks: each writer adds batches and says so through a pipe once `add`
has returned, until it is killed. After each kill the store must open, hold every batch that was
acknowledged, and every batch whole or not at all.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter

from _made_up import MACHINE, measurement

from hetune.profiling.store.store import Store

_BATCH = 7
_MOST_BATCHES = 5
_LONGEST_SECONDS = 0.04
_RECORD = 8


def _write(url: str, first: int, pipe: int) -> None:
    batch = first
    while True:
        # Opened again and again, so that kills hit opening and closing, too.
        with Store.open(url) as store:
            for _ in range(3):
                units = [measurement(batch * _BATCH + n) for n in range(_BATCH)]
                store.add(units, MACHINE)
                os.write(pipe, batch.to_bytes(_RECORD))
                batch += 1


def _kill_one(url: str, first: int, batches: int, seconds: float) -> list[int]:
    """Kill a writer some time after so many batches; those that it was told are stored."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _write(url, first, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read(batches * _RECORD)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        said += file.read()
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise SystemExit("a writer ended before it was killed")
    return [int.from_bytes(said[start : start + _RECORD]) for start in range(0, len(said), _RECORD)]


def _check(url: str, acknowledged: set[int]) -> int:
    """Look at the store; the first batch that it does not hold."""
    with Store.open(url) as store:
        units = [int(found.unit, 16) for found in store.measurements()]
        if len(units) != len(set(units)):
            raise SystemExit("a unit was counted twice")
        batches = Counter(unit // _BATCH for unit in units)
        if partial := [batch for batch, count in batches.items() if count != _BATCH]:
            raise SystemExit(f"batches were stored in part: {partial}")
        if lost := acknowledged - batches.keys():
            raise SystemExit(f"batches were acknowledged and are lost: {sorted(lost)}")
    return max(batches, default=-1) + 1


def main(url: str, kills: int, seed: int = 0) -> None:
    """Kill so many writers.

    Raises:
        SystemExit: The store did not keep its word.
    """
    draw = random.Random(seed)
    acknowledged: set[int] = set()
    following = 0
    for _ in range(kills):
        batches, seconds = draw.randrange(_MOST_BATCHES), draw.uniform(0, _LONGEST_SECONDS)
        acknowledged |= {*_kill_one(url, following, batches, seconds)}
        following = _check(url, acknowledged)
    if not acknowledged:
        raise SystemExit("no writer lived long enough to store anything")
    print(f"{kills} writers killed, {len(acknowledged)} batches acknowledged, {following} stored")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

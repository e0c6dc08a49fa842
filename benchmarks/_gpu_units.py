"""Work in units, each of whose results is written when it is there: an interrupted run goes on."""

import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from _gpu_workers import side_by_side

from hetune.variants.registry.atomic_files import write_atomically

_ROOT = Path(__file__).resolve().parents[1]
LIMIT = 480.0
"""Seconds after which no unit begins."""
_SHARE = 0.5
"""Part of that by which what need not run alone makes way for what does."""
UNIT_S = 55.0
"""Seconds after which a unit begins no further part of its work."""


@dataclass(frozen=True)
class Unit:
    """A piece of work of at most a minute or so.

    Attributes:
        key: Its name.
        run: What it does, and what comes of it.
        alone: Whether its times count, so that nothing else may run meanwhile.
    """

    key: str
    run: Callable[[], dict[str, Any]]
    alone: bool = True


class Held:
    """The results so far, of one card: each of the commit that it is of."""

    def __init__(self, path: Path, machine: dict[str, Any], commit: str | None) -> None:
        self.path, self._machine, self._commit = path, machine, commit
        self.units: dict[str, Any] = {}
        if path.is_file() and (known := json.loads(path.read_text()))["machine"] == machine:
            self.units = known["units"]

    def of_now(self, key: str) -> dict[str, Any] | None:
        """A unit's result, if it is of this commit."""
        known: dict[str, Any] | None = self.units.get(key)
        return known if known is not None and known["commit"] == self._commit else None

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a unit's result, in the place of an earlier one."""
        self.units[key] = {"commit": self._commit, **result}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"machine": self._machine, "units": self.units}, indent=1)
        write_atomically(self.path, f"{content}\n".encode(), 0o644)


def run_unit(unit: Unit) -> dict[str, Any]:
    """A unit's result, or why there is none."""
    start = time.perf_counter()
    try:
        result = unit.run()
    except Exception as error:
        last = traceback.format_exc().splitlines()[-4:]
        where = [line.replace(f"{_ROOT}/", "") for line in last]
        result = {"failed": f"{type(error).__name__}: {error}"[:2000], "where": where}
    return {**result, "seconds": round(time.perf_counter() - start, 2)}


def work(
    units: Sequence[Unit],
    held: Held,
    *,
    device: str,
    limit: float = LIMIT,
    again: bool = False,
    jobs: int = 1,
) -> int:
    """Runs what is missing, until the limit.

    Args:
        units: All of them, in order.
        held: Where results are kept.
        device: What they run on.
        limit: Seconds after which no unit begins.
        again: Whether failed units run again.
        jobs: How many processes run what need not run alone. With more than one, no unit runs in
            this process: one that loses the card loses no other. What stands first and runs alone
            comes first; then the others, for a part of the time; then all that is left.

    Returns:
        0 if all are there and good, 1 if one has failed, 3 if some are left.
    """

    def keep(key: str, result: dict[str, Any]) -> None:
        held.put(key, result)
        print(f"{key}: {result.get('failed') or result.get('skipped') or 'ok'}", flush=True)

    def missing(unit: Unit) -> bool:
        known = held.of_now(unit.key)
        return known is None or (again and "failed" in known)

    start = time.monotonic()
    deadline = start + limit
    wanted = [unit for unit in units if missing(unit)]
    if jobs > 1:
        first = list(takewhile(lambda unit: unit.alone, wanted))
        rest = wanted[len(first) :]
        alone, together = ([u for u in rest if u.alone is own] for own in (True, False))
        share = start + _SHARE * limit
        stages = (first, 1, deadline), (together, jobs, share), (alone, 1, deadline)
        for stage, processes, until in (*stages, (together, jobs, deadline)):
            keys = [unit.key for unit in stage if missing(unit)]
            for key, result in side_by_side(keys, processes, until):
                keep(key, result)
        wanted = []
    for unit in wanted:
        if time.monotonic() > deadline:
            break
        keep(unit.key, result := run_unit(unit))
        if "failed" in result and not answers(device):
            print("the card answers no more in this process: start again", flush=True)
            break
    now = {unit.key: held.of_now(unit.key) for unit in units}
    bad = [key for key, known in now.items() if known is not None and "failed" in known]
    left = sum(known is None for known in now.values())
    print(f"{len(units) - left} of {len(units)} units, {len(bad)} failed, in {held.path}")
    for key in bad:
        print(f"failed: {key}: {held.units[key]['failed'][:200]}")
    return 1 if bad else 3 if left else 0


def serve(units: Sequence[Unit], device: str) -> None:
    """A worker's part: runs the units that standard input names, until the card is lost."""
    known, out = {unit.key: unit for unit in units}, sys.stdout
    sys.stdout = sys.stderr  # whatever a unit prints is no result
    for line in sys.stdin:
        result = run_unit(known[line.rstrip("\n")])
        print(json.dumps(result), file=out, flush=True)
        if "failed" in result and not answers(device):
            break


def answers(device: str) -> bool:
    """Whether the device still computes: after an illegal access it does not, in this process."""
    try:
        return float(torch.ones(2, device=device).sum()) == 2.0
    except RuntimeError:
        return False

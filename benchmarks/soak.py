"""Whether a service's memory grows: an hour of everything that clients do, at a modest rate.

    python benchmarks/soak.py [--minutes 60]

A `hetune serve` with its worker runs on this machine; its memory is read every few seconds, and its
slope is taken after a warm-up (Theil-Sen: the median of all pairs' slopes), in which kernels are
compiled and caches fill. Its anonymous memory is judged: what is resident has pages of files in it,
which come and go with other processes. What is written so far is kept if it is interrupted.
"""

import argparse
import functools
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from _machine import commit, fingerprint
from _serve import Serving, hetune_serve, own_megabytes
from _soak_load import Load
from scipy.stats import theilslopes

_RESULTS = Path(__file__).resolve().parent / "results"
GOAL = 1.0
"""Megabytes that a service may grow by in an hour."""
_MEGABYTE = 1e6
_HOUR = 3600.0
_TOLD_EVERY = 60.0
_LEAST_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """A service at one time.

    Attributes:
        seconds: Since the start.
        requests: That were answered.
        rss: Megabytes resident.
        own: Megabytes that are anonymous: see `own_megabytes`.
        workers: Those of its processes for jobs.
        cpu: Seconds of computing, the workers' with it.
        threads: Threads.
        files: Open files and connections.
    """

    seconds: float
    requests: int
    rss: float
    own: float
    workers: float
    cpu: float
    threads: int
    files: int


def sample(serving: Serving, seconds: float, requests: int) -> Sample:
    """Reads it."""
    process = serving.process
    workers, cpu = 0.0, sum(process.cpu_times()[:2])
    for child in process.children(recursive=True):
        try:
            workers += own_megabytes(child)
            cpu += sum(child.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return Sample(
        round(seconds, 2),
        requests,
        round(process.memory_info().rss / _MEGABYTE, 3),
        round(own_megabytes(process), 3),
        round(workers, 3),
        round(cpu, 2),
        process.num_threads(),
        process.num_fds(),
    )


def slope(samples: Sequence[Sample], field: str, warm_up: float) -> dict[str, float] | None:
    """Megabytes an hour after the warm-up, with the bounds of its 95% interval.

    Args:
        samples: In order.
        field: Whose.
        warm_up: Seconds that do not count.

    Returns:
        None for too few samples.
    """
    kept = [s for s in samples if s.seconds >= warm_up]
    if len(kept) < _LEAST_SAMPLES:
        return None
    hours = np.array([s.seconds / _HOUR for s in kept])
    found = theilslopes([getattr(s, field) for s in kept], hours)
    return {
        "mb_per_hour": round(float(found.slope), 4),
        "low": round(float(found.low_slope), 4),
        "high": round(float(found.high_slope), 4),
        "intercept_mb": round(float(found.intercept), 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and write the JSON; 1 if the goal is missed or an answer was wrong."""
    options = parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        log = ("--log", "json")
        with hetune_serve(Path(folder), *log, threads=options.threads) as serving:
            record = soak(serving, options)
    print(f"wrote {options.out}")
    return 0 if record["met"] and not record["failures"] else 1


def soak(serving: Serving, options: argparse.Namespace) -> dict[str, Any]:
    """Asks and samples until the time is over; gives what was written."""
    load, pauses = Load(serving.url, options.seed), random.Random(options.seed)
    samples: list[Sample] = []
    failures: list[str] = []
    begin, requests, told = time.monotonic(), 0, 0.0
    next_request = next_sample = 0.0
    end = options.minutes * 60
    while (now := time.monotonic() - begin) < end:
        if now >= next_sample:
            samples.append(sample(serving, now, requests))
            next_sample = now + options.every
        if now >= next_request:
            next_request = now + pauses.expovariate(options.rate)
            try:
                load.step()
            except Exception as error:  # an hour is not thrown away for one answer
                failures.append(f"{now:.0f} s: {load.last}: {error!r}"[:500])
            requests += 1
        if now - told >= _TOLD_EVERY:
            told = now
            record = as_record(samples, load, failures, options)
            write(record, options.out)
            _tell(now, end, record)
        left = min(next_request, next_sample, end) - (time.monotonic() - begin)
        time.sleep(max(left, 0.0))
    samples.append(sample(serving, end, requests))
    load.close()
    record = as_record(samples, load, failures, options)
    write(record, options.out)
    _tell(end, end, record)
    return record


_COMMIT = functools.cache(commit)  # what is written makes the checkout another one


def as_record(
    samples: Sequence[Sample], load: Load, failures: Sequence[str], options: argparse.Namespace
) -> dict[str, Any]:
    """What is written."""
    warm_up = options.warm_up * 60
    slopes = {field: slope(samples, field, warm_up) for field in ("own", "rss", "workers")}
    first, last = samples[0], samples[-1]
    grown = slopes["own"]
    return {
        "machine": fingerprint(options.threads),
        "commit": _COMMIT(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "minutes": round(last.seconds / 60, 2),
        "warm_up_minutes": options.warm_up,
        "seed": options.seed,
        "requests": dict(load.counts),
        "failures": list(failures),
        "share_of_a_core": round((last.cpu - first.cpu) / max(last.seconds, 1e-9), 4),
        "goal_mb_per_hour": GOAL,
        "slopes": slopes,
        "met": grown is not None and grown["mb_per_hour"] < GOAL,
        "fields": list(Sample.__dataclass_fields__),
        "samples": [[getattr(s, field) for field in Sample.__dataclass_fields__] for s in samples],
    }


def write(record: dict[str, Any], path: Path) -> None:
    """Puts it in place as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(record) + "\n", encoding="utf-8")
    new.replace(path)


def _tell(now: float, end: float, record: dict[str, Any]) -> None:
    last = dict(zip(record["fields"], record["samples"][-1], strict=True))
    found = record["slopes"]["own"]
    grown = "warming up" if found is None else f"{found['mb_per_hour']:+.2f} MB/h"
    print(
        f"{now / 60:.0f} of {end / 60:.0f} min, {(end - now) / 60:.0f} left: {last['requests']:,} "
        f"requests, {len(record['failures'])} failed, {last['own']:.1f} MB ({grown}), "
        f"{record['share_of_a_core']:.0%} of a core",
        flush=True,
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--minutes", type=float, default=60)
    line.add_argument("--warm-up", type=float, default=10, help="minutes that do not count")
    line.add_argument("--rate", type=float, default=6, help="requests a second, at most")
    line.add_argument("--every", type=float, default=5, help="seconds between two samples")
    line.add_argument("--threads", type=int, default=1)
    line.add_argument("--seed", type=int, default=0)
    line.add_argument("--out", type=Path, default=_RESULTS / "soak.json")
    return line


if __name__ == "__main__":
    raise SystemExit(main())

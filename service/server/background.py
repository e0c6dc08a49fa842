"""What is done beside requests: following the champion, and sampling what choices have lost."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time

from hetune.costmodel.selection.champion import ChampionFollower
from hetune.service.core.inference.regret import ROUNDS, RegretSample, RegretSamples
from hetune.service.http.dispatcher import Dispatcher

FOLLOW_SECONDS, SAMPLE_SECONDS = 0.5, 0.2
RUN_SECONDS, LOOK_SECONDS = 0.1, 2.0
"""How often to look for runs that were submitted here, and for those of other processes."""
_log = logging.getLogger(__name__)


async def follow(follower: ChampionFollower) -> None:
    """Looks again and again, in a thread beside the event loop, until it is cancelled."""
    while True:
        await asyncio.sleep(FOLLOW_SECONDS)
        await asyncio.to_thread(follower.refresh)


async def perform_runs(work: Dispatcher) -> None:
    """Performs runs one after the other, in a thread beside the event loop, until cancelled."""
    runs, looked = work.service.runs, -math.inf
    while not work.stopping.is_set():
        await asyncio.sleep(RUN_SECONDS)
        is_due = runs.submitted.is_set() or time.monotonic() > looked + LOOK_SECONDS
        if not (is_due and work.service.warm_up.is_prepared):
            continue
        given = work.compute_from_thread, work.stopping.is_set
        try:
            while await asyncio.to_thread(runs.perform_next, *given):
                pass
        except Exception as error:  # what is wrong with the folder may pass
            _log.warning("runs cannot be performed: %s", error)
        looked = time.monotonic()


async def sample_regret(work: Dispatcher) -> None:
    """Looks for something to run again, until it is cancelled; ends at once where nothing may be.

    Nothing begins while a request is under way. One that comes meanwhile waits for one run of one
    variant at most: what is left of the sample is dropped.
    """
    regret = work.service.regret
    while regret.rate > 0:
        await asyncio.sleep(SAMPLE_SECONDS)
        if not regret.is_waiting or not work.is_idle():
            continue
        try:
            sample = await asyncio.to_thread(regret.take)
            if sample is not None:
                await _measure(work, regret, sample)
        except Exception as error:  # a sample is worth nobody's answer
            _log.warning("a sample of regret failed: %s", error)


async def _measure(work: Dispatcher, regret: RegretSamples, sample: RegretSample) -> None:
    for variant in sample.variants:
        if not work.is_idle():
            return
        await work.in_thread(functools.partial(sample.run, variant))
    seconds: dict[str, list[float]] = {variant: [] for variant in sample.variants}
    for _ in range(ROUNDS):
        for variant, times in seconds.items():
            if not work.is_idle():
                return
            times.append(await work.compute_in_background(functools.partial(sample.run, variant)))
    ratio = regret.record(sample, seconds)
    _log.info("a sample of regret: %s by %s, %.3f", sample.layer, sample.variants[0], ratio)

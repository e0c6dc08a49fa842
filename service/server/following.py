"""Keeps a running service's choices with the champion."""

from __future__ import annotations

import asyncio

from hetune.costmodel.following import Following, Given

LOOK_SECONDS = 0.5


async def follow(following: Following | Given) -> None:
    """Looks again and again, in a thread beside the event loop, until it is cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        await asyncio.to_thread(following.refresh)

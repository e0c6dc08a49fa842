"""Requests that last are looked at again: what let them in has to hold until they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

LOOK_SECONDS = 1.0
"""Between two looks at a request that is being answered."""


async def while_allowed(serve: Awaitable[None], check: Callable[[], None]) -> None:
    """Serves a request as long as it may be served; it is cancelled where it is.

    Args:
        serve: Answers it, in the task of the caller.
        check: Raises what the request is refused with from now on.

    Raises:
        Exception: What `check` has raised, once the request is cancelled.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    refusal: Exception | None = None
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal refusal, timer
        try:
            check()
        except Exception as error:
            refusal = error
            task.cancel()
        else:
            timer = loop.call_later(LOOK_SECONDS, look)

    timer = loop.call_later(LOOK_SECONDS, look)
    try:
        await serve
    except asyncio.CancelledError:
        if refusal is None:
            raise
    finally:
        timer.cancel()
    # As in `asyncio.timeout`: somebody else may have cancelled it, too.
    if refusal is not None:
        if task.uncancel() > 0:
            raise asyncio.CancelledError
        raise refusal

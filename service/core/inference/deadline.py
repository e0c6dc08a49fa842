"""Deadlines: times of `time.monotonic()` after which nobody waits for an answer any more."""

from __future__ import annotations

import time

from hetune.variants.errors import DeadlineError


def check_deadline(deadline: float | None) -> None:
    """Checks that there is time left.

    Raises:
        DeadlineError: There is none.
    """
    if deadline is not None and time.monotonic() >= deadline:
        raise missed()


def missed() -> DeadlineError:
    """The error for a deadline that has passed."""
    return DeadlineError("the request took longer than it was given: give it more time, or none")

"""From a call's first try to its result: what is tried again, and when. No IO.

What passes by itself is tried again: a connection that fails, a full queue (429), a service that
cannot serve now (503), and what a proxy says of one that it does not reach (502, 504). An answer
that only takes too long is not: the service may be at work on it.
Few calls change more when they come twice (`ServiceCall.is_repeatable`); these are tried again
only where they were not heard: there was no connection, or the queue was full.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import uniform
from time import monotonic
from typing import Generic, TypeAlias, TypeVar

import httpx

from hetune.clients.http.call import ServiceCall
from hetune.clients.http.wire import unreachable
from hetune.variants.errors import DeadlineError

T = TypeVar("T")
Outcome: TypeAlias = httpx.Response | httpx.HTTPError
"""What became of a try."""

FIRST_SECONDS = 0.25
"""The most that is waited before the second try; it doubles with each further one."""
LONGEST_SECONDS = 8.0
"""The most that it doubles to."""
TOTAL_SECONDS = 60.0
"""No try begins later than this after the first."""

_BUSY = 429
_LATE = 504
_AWAY = (502, 503, _LATE)
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
_LOST = (httpx.NetworkError, httpx.RemoteProtocolError)
_GONE = 404
_DOUBLINGS = 30


class CallAttempts(Generic[T]):
    """The attempts at a call: a client makes one, and asks here what to do with its outcome.

    Waits are drawn between nothing and a bound that doubles (full jitter), so that clients which
    were refused together do not come back together; `Retry-After` comes on top.

    Args:
        call: What is sent.
        url: Of the service.
        retries: How often it may be sent again.
    """

    def __init__(self, call: ServiceCall[T], url: httpx.URL, retries: int) -> None:
        self._call, self._url, self._retries = call, url, retries
        self._started = monotonic()
        self._tries = 0
        self._may_be_done = False

    def pause(self, outcome: Outcome) -> float | None:
        """Seconds until the next try; None where there is none, and `outcome` is the last."""
        self._tries += 1
        if self._tries > self._retries or not _passes(outcome):
            return None
        if not self._call.is_repeatable and not _is_unheard(outcome):
            return None
        self._may_be_done = self._may_be_done or _is_half_heard(outcome)
        bound = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self._tries - 1, _DOUBLINGS))
        pause = _asked(outcome) + uniform(0.0, bound)  # noqa: S311 (nothing secret)
        return pause if monotonic() + pause - self._started <= TOTAL_SECONDS else None

    def result(self, outcome: Outcome) -> T:
        """What the last try gave.

        Raises:
            HetuneError: The service answered with it.
            UnreachableError: There was no answer, or one of something else.
        """
        if isinstance(outcome, httpx.HTTPError):
            raise unreachable(outcome, self._url, self._tries) from outcome
        if self._may_be_done and self._call.method == "DELETE" and outcome.status_code == _GONE:
            return self._call.read(outcome)  # an earlier try has deleted it, unheard
        return self._call.result(outcome)


def _passes(outcome: Outcome) -> bool:
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in (_BUSY, *_AWAY) and not _missed_its_deadline(outcome)
    return isinstance(outcome, (*_NEVER_SENT, *_LOST))


def _missed_its_deadline(response: httpx.Response) -> bool:
    """Whether it is the service's own answer that a request took longer than it was given."""
    return response.status_code == _LATE and DeadlineError.__name__.encode() in response.content


def _is_half_heard(outcome: Outcome) -> bool:
    """Whether the service may have done what it was asked for, though nobody heard so."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in _AWAY
    return not isinstance(outcome, _NEVER_SENT)


def _is_unheard(outcome: Outcome) -> bool:
    if isinstance(outcome, httpx.Response):
        return outcome.status_code == _BUSY
    return isinstance(outcome, _NEVER_SENT)


def _asked(outcome: Outcome) -> float:
    """Seconds that the service asks to wait: `Retry-After`, a number or a date."""
    if not isinstance(outcome, httpx.Response):
        return 0.0
    given = outcome.headers.get("Retry-After", "").strip()
    if given.isdecimal():
        return float(given)
    try:
        date = parsedate_to_datetime(given)
    except (ValueError, TypeError, IndexError):
        return 0.0
    aware = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max((aware - datetime.now(UTC)).total_seconds(), 0.0)

"""How often somebody may try to log in."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from hetune.service.http.asgi import Scope
from hetune.variants.errors import BusyError

MOST = 30
"""Log-ins of an address in a minute, whether its keys are right or wrong."""
SECONDS = 60.0
_ADDRESSES = 10_000
_SHARED_BITS = 64
"""Of an address of IPv6: whoever has one has all that begin alike."""


class LoginRateLimit:
    """Counts those of each address. Safe with several threads.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def record(self, scope: Scope) -> None:
        """Counts a request's.

        Raises:
            BusyError: There were too many.
        """
        address, now = _address_of(scope), self._clock()
        with self._mutex:
            count, until = self._counts.pop(address, (0, 0.0))
            if until <= now:
                count, until = 0, now + SECONDS
            self._counts[address] = count + 1, until
            while len(self._counts) > _ADDRESSES:
                self._counts.popitem(last=False)
        if count >= MOST:
            raise BusyError("too many log-ins came from your address: try again in a minute")


def _address_of(scope: Scope) -> str:
    """Whom a request is from, as far as it is worth telling from others."""
    client = scope.get("client")
    if not client:
        return ""
    try:
        found = ipaddress.ip_address(client[0])
    except ValueError:
        return str(client[0])
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, _SHARED_BITS), strict=False))
    return str(found)

"""What every client is made with."""

from __future__ import annotations

import os
from typing import Any

import httpx

from hetune.variants.errors import AccessError, InputError

KEY_VARIABLE = "HETUNE_API_KEY"
_CONNECT_SECONDS = 10.0
_KEPT_CONNECTIONS = 32


def options_of(
    url: str, key: str | None, timeout: float | None, transport: object | None
) -> dict[str, Any]:
    """What `httpx.Client` and `httpx.AsyncClient` are made with.

    Raises:
        InputError: The URL is none of a service.
        AccessError: The key cannot be sent.
    """
    key = key or os.environ.get(KEY_VARIABLE)
    if key and not (key.isascii() and key.isprintable()):
        raise AccessError(
            f"the key has characters that no header can hold: check key= and {KEY_VARIABLE}"
        )
    connect = _CONNECT_SECONDS if timeout is None else min(timeout, _CONNECT_SECONDS)
    return {
        "base_url": _checked(url),
        "timeout": httpx.Timeout(timeout, connect=connect),
        "headers": {"Authorization": f"Bearer {key}"} if key else None,
        "transport": transport,
        "trust_env": False,  # a proxy is no place for a local service's requests
        "verify": transport is not None or httpx.create_ssl_context(),  # SSL_CERT_FILE counts
        "limits": httpx.Limits(max_keepalive_connections=_KEPT_CONNECTIONS, keepalive_expiry=5.0),
    }


def retries_of(retries: int) -> int:
    """How often a request may be sent again.

    Raises:
        InputError: It is negative.
    """
    if retries < 0:
        raise InputError(f"retries is {retries}: give 0 for none, or more")
    return retries


def _checked(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InputError(f"{url!r} is no URL ({error}): {_EXAMPLE}") from None
    if found.userinfo:
        raise InputError(f"the URL of {found.host} holds a secret: give it as key= instead")
    if found.scheme not in ("http", "https") or not found.host:
        raise InputError(f"{url!r} is no URL of a service: {_EXAMPLE}")
    return found


_EXAMPLE = "give one such as http://127.0.0.1:8000"

"""Ways to use hetune from outside: clients of the service, and the command line.

The clients need the extra `service`, and the command line does not: they come when asked for.
"""

from typing import TYPE_CHECKING, Any

from hetune.variants.extras import installing

if TYPE_CHECKING:
    from hetune.clients.http import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from hetune.clients import http
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{__name__}.{name} needs {error.name}, which is missing: {installing('service')}"
        ) from error
    return getattr(http, name)

"""The Python clients of the service, with and without asyncio."""

from hetune.clients.http.async_client import AsyncClient
from hetune.clients.http.client import Client

__all__ = ["AsyncClient", "Client"]

"""The Python client of the service."""

from hetune.clients.http.client import Client

__all__ = ["Client"]

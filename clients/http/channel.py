"""A connection's bytes; what fails has the name that httpx has for it."""

from __future__ import annotations

import select
import socket
import ssl
from typing import TypeAlias

import httpx

Bytes: TypeAlias = bytes | bytearray | memoryview
_SHORT = 1 << 16
"""Bytes that are copied, to go in one record, where the system does not send several at once."""


class Channel:
    """A socket that is connected, for one thread at a time.

    Args:
        host: A name or an address.
        port: Its port.
        context: For TLS, if there is to be any.
        seconds: Longest time that each step of connecting takes; None for ever.

    Raises:
        httpx.ConnectTimeout: It takes longer.
        httpx.ConnectError: Nobody answers, or one with a wrong certificate.
    """

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, seconds: float | None
    ) -> None:
        try:
            self._socket = socket.create_connection((host, port), seconds)
            # Or the end of a request might wait until its begin is acknowledged.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(str(error)) from error

    @property
    def is_readable(self) -> bool:
        """Whether bytes, or the end, wait to be read."""
        if not hasattr(select, "poll"):
            return bool(select.select([self._socket], [], [], 0)[0])
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def wait_at_most(self, seconds: float | None) -> None:
        """How long the network may take for each of what follows."""
        self._socket.settimeout(seconds)

    def write(self, *contents: Bytes) -> None:
        """Sends all of it, from where it lies.

        Raises:
            httpx.WriteTimeout: The network takes no more of it for too long.
            httpx.WriteError: The connection has ended.
        """
        left = [memoryview(content) for content in contents if len(content)]
        try:
            while left:
                sent = self._sent(left)
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if left:
                    left[0] = left[0][sent:]
        except TimeoutError as error:
            raise httpx.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpx.WriteError(str(error)) from error

    def read(self, most: int) -> bytes:
        """What has come, once there is something; nothing at the end.

        Raises:
            httpx.ReadTimeout: Nothing comes for too long.
            httpx.ReadError: The connection is broken.
        """
        try:
            return self._socket.recv(most)
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error

    def read_into(self, memory: memoryview) -> int:
        """Bytes that have come, as `read`, into some of the memory."""
        try:
            return self._socket.recv_into(memory)
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error

    def _sent(self, contents: list[memoryview]) -> int:
        """Sends some of it, and says how many bytes."""
        if len(contents) == 1:
            return self._socket.send(contents[0])
        if hasattr(self._socket, "sendmsg") and not isinstance(self._socket, ssl.SSLSocket):
            return self._socket.sendmsg(contents)
        if sum(map(len, contents)) <= _SHORT:
            return self._socket.send(b"".join(contents))
        return self._socket.send(contents[0])

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

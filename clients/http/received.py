"""A response that has been received whole, where its tensors can stay."""

from __future__ import annotations

from collections.abc import Iterator

import httpx


class Received(httpx.Response):
    """A response whose body is in memory of its own; as httpx's, it makes bytes of it if asked.

    Args:
        status: HTTP's.
        headers: Names and values.
        memory: The body, not encoded. It may be written to.
    """

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], memory: memoryview) -> None:
        super().__init__(status, headers=headers, stream=_Memory(memory))
        self.memory = memory

    @property
    def content(self) -> bytes:
        """The body, copied when it is first asked for."""
        return self.read()


class _Memory(httpx.SyncByteStream):
    def __init__(self, memory: memoryview) -> None:
        self._memory = memory

    def __iter__(self) -> Iterator[bytes]:
        yield bytes(self._memory)


def body_of(response: httpx.Response) -> bytes | memoryview:
    """The body, to be read once: where that may be written to, it is the caller's."""
    return response.memory if isinstance(response, Received) else response.content

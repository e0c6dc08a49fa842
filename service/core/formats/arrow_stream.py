"""Arrow IPC streams of strangers: what they ask for is looked up before Arrow takes any memory.

Arrow allocates what a stream says that its compressed buffers hold, and a stream that was cut off
between two messages ends well for it. So the messages are gone through here first, by their
metadata, which are flatbuffers (`Message.fbs` and `Schema.fbs` of Arrow's format).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.variants.errors import HetuneError, MalformedError

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
_MARKER = b"\xff\xff\xff\xff"
_MOST_MESSAGES = 1 << 16
_MOST_METADATA = 1 << 24
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_LITTLE = 0
_RAW = -1
"""In place of the length of a buffer that is not compressed after all."""
_U8, _I16, _U16 = struct.Struct("<B"), struct.Struct("<h"), struct.Struct("<H")
_I32, _U32, _I64 = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<q")
_FAILURES = (pa.ArrowException, OSError, ValueError)


@contextmanager
def opened(path: Path, limits: ServiceLimits) -> Iterator[pa.RecordBatchReader]:
    """The batches of a stream in a file, to be read one after the other and validated by the user.

    Errors of Arrow in the block are turned into ours.

    Args:
        path: The file, which has to stay as it is.
        limits: `edges` bounds rows, `types` entries of dictionaries, and `body_bytes` what buffers
            take when they are decompressed.

    Raises:
        MalformedError: It is no whole stream, or has what is not supported.
        TooLargeError: It is over a limit.
    """
    try:
        if path.stat().st_size == 0:
            raise _malformed("it is empty")
        with pa.memory_map(str(path)) as file:
            content = file.read_buffer()
            check(memoryview(content).cast("B"), limits)
            options = pa.ipc.IpcReadOptions(use_threads=False, ensure_native_endian=False)
            with pa.ipc.open_stream(pa.BufferReader(content), options=options) as reader:
                yield reader
    except HetuneError:
        raise
    except _FAILURES as error:
        raise _malformed(str(error).partition("\n")[0]) from None


def check(content: memoryview, limits: ServiceLimits) -> None:
    """Goes through the messages of a stream by what they say of themselves.

    Raises:
        MalformedError: They are no whole stream, or have what is not supported.
        TooLargeError: Their rows, dictionaries or decompressed buffers are over a limit.
    """
    try:
        _check(content, limits)
    except struct.error:
        raise _malformed("it ends early, or its metadata point out of it") from None


def _check(content: memoryview, limits: ServiceLimits) -> None:
    at = rows = unpacked = count = 0
    while True:
        if content[at : at + 4] != _MARKER:
            raise _malformed("a message does not begin where it has to, or the end is missing")
        length = _number(_I32, content, at + 4)
        at += 8
        if length == 0:
            break
        if not 0 < length <= _MOST_METADATA:
            raise _malformed(f"a message has {length} bytes of metadata")
        root = _number(_U32, content, at)
        message = _Table(content[at : at + length], root)
        body = message.number(3, _I64)
        at += length
        if not 0 <= body <= len(content) - at:
            raise _malformed("a message is cut off")
        kind, header = message.number(1, _U8), message.table(2)
        if header is None or (kind == _SCHEMA) != (count == 0):
            raise _malformed("it has not one schema, at its begin")
        if kind == _SCHEMA:
            if header.number(0, _I16) != _LITTLE:
                raise _malformed("it is big-endian")
        else:
            batch = _batch_of(kind, header)
            size = batch.number(0, _I64)
            if size < 0:
                raise _malformed(f"a batch has {size} rows")
            if kind == _BATCH:
                rows += size
                check_limit("edges", rows, limits.edges)
            else:
                check_limit("edge types", size, limits.types)
            unpacked += _unpacked(batch, content[at : at + body])
            check_limit("bytes of decompressed buffers", unpacked, limits.body_bytes)
        at += body
        count += 1
        check_limit("messages of an Arrow stream", count, _MOST_MESSAGES)
    if at != len(content):
        raise _malformed("something follows its end")
    if count == 0:
        raise _malformed("it has no schema")


def _batch_of(kind: int, header: _Table) -> _Table:
    """The record batch of a message, or that of its dictionary."""
    if kind == _BATCH:
        return header
    if kind != _DICTIONARY:
        raise _malformed("it has tensors")
    if header.number(2, _U8):
        raise _malformed("it has deltas of dictionaries: write them whole")
    batch = header.table(1)
    if batch is None:
        raise _malformed("a dictionary has no content")
    return batch


def _unpacked(batch: _Table, body: memoryview) -> int:
    """Bytes that the buffers of a batch take, where they are compressed."""
    if batch.table(3) is None:
        return 0
    total = 0
    for offset, length in batch.pairs(2):
        if not 0 <= length <= len(body) or not 0 <= offset <= len(body) - length:
            raise _malformed("a buffer is outside of its message")
        if length:
            size = _number(_I64, body, offset)
            if size < _RAW:
                raise _malformed(f"a buffer has {size} bytes")
            total += length if size == _RAW else size
    return total


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a flatbuffer; reading out of it is a `struct.error`."""

    data: memoryview
    at: int

    def number(self, field: int, form: struct.Struct) -> int:
        """A number, 0 if it is not there."""
        where = self._where(field)
        return 0 if where is None else _number(form, self.data, where)

    def table(self, field: int) -> _Table | None:
        """A table, if it is there."""
        where = self._where(field)
        return None if where is None else _Table(self.data, self._follow(where))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A vector of pairs of 64-bit numbers."""
        where = self._where(field)
        if where is None:
            return
        start = self._follow(where)
        for number in range(_number(_U32, self.data, start)):
            first = start + 4 + 16 * number
            yield _number(_I64, self.data, first), _number(_I64, self.data, first + 8)

    def _where(self, field: int) -> int | None:
        table = self.at - _number(_I32, self.data, self.at)
        slot = 4 + 2 * field
        if slot + 2 > _number(_U16, self.data, table):
            return None
        offset = _number(_U16, self.data, table + slot)
        return self.at + offset if offset else None

    def _follow(self, where: int) -> int:
        return where + _number(_U32, self.data, where)


def _number(form: struct.Struct, data: memoryview, at: int) -> int:
    if at < 0:
        raise struct.error("before the begin")
    found: int = form.unpack_from(data, at)[0]
    return found


def _malformed(reason: str) -> MalformedError:
    return MalformedError(
        f"this is no Arrow IPC stream that can be read ({reason}): write it with "
        "pyarrow.ipc.new_stream"
    )

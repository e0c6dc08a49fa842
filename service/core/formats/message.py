"""A JSON document and tensors in one safetensors container: on the wire, and on disk.

The document is the entry ``document`` of the container's metadata. Nothing that is read can run
code, and every offset is checked before a tensor is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from hetune.service.core.formats.container import (
    DTYPES,
    LENGTH_BYTES,
    MOST_TENSORS,
    Content,
    bytes_of,
    metadata_from,
    tensors_from,
    tensors_in,
)
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.graph.lazy_tensors import materialized

MEDIA_TYPE = "application/x-safetensors"
_DOCUMENT = "document"
_DIGEST = "sha256"
_ALIGNMENT = 8
_SHORT, _PIECE = 1 << 18, 1 << 19
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_encoded = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Message:
    """What a container holds.

    Attributes:
        document: JSON text; "{}" if the container has none.
        tensors: By name.
    """

    document: str
    tensors: dict[str, Tensor]

    def group(self, name: str) -> Tensor | dict[str, Tensor] | None:
        """The tensor of that name, or those whose names start with it and a slash, by the rest.

        Raises:
            MalformedError: There are both.
        """
        parts = {
            key.removeprefix(f"{name}/"): tensor
            for key, tensor in self.tensors.items()
            if key.startswith(f"{name}/")
        }
        whole = self.tensors.get(name)
        if whole is None:
            return parts or None
        if parts:
            raise MalformedError(f"there are {name} and {name}/{next(iter(parts))}: give one form")
        return whole

    def check_groups(self, *names: str) -> None:
        """Refuses tensors that `group` gives for none of the names.

        Raises:
            MalformedError: There is one.
        """
        for name in self.tensors:
            if name.partition("/")[0] not in names:
                raise MalformedError(
                    f"there is no use for the tensor {name!r}: give {', '.join(names)}"
                )


def grouped(name: str, rows: Tensor | Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """What `Message.group` reads, to be written."""
    if rows is None:
        return {}
    if isinstance(rows, Tensor):
        return {name: rows}
    return {f"{name}/{part}": tensor for part, tensor in rows.items()}


def pack(document: str, tensors: Mapping[str, Tensor]) -> bytes:
    """The container of a document and tensors, and of their digest. Tensors may share memory."""
    own: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = _plain(tensor)
        own[name] = plain.clone() if plain.data_ptr() in seen else plain
        seen.add(plain.data_ptr())
    content: bytes = save(own, {_DOCUMENT: document, _DIGEST: digest_of(document, own)})
    return content


def digest_of(document: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a document and tensors, however a container lays them out."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = _plain(tensors[name])
        found.update(json.dumps([name, str(tensor.dtype), tensor.shape]).encode())
        found.update(bytes_of(tensor))
    found.update(document.encode())
    return found.hexdigest()


class Pieces:
    """The container of a document and tensors, piece by piece: tensors are not copied as a whole.

    It can be gone through any number of times, while the tensors stay as they are.

    Args:
        document: JSON text.
        tensors: By name.

    Raises:
        InputError: A container cannot hold a tensor's dtype.
    """

    def __init__(self, document: str, tensors: Mapping[str, Tensor]) -> None:
        header: dict[str, Any] = {"__metadata__": {_DOCUMENT: document}}
        self._tensors: list[Tensor] = []
        end = 0
        # The largest numbers first, so that each is aligned.
        for name, given in sorted(
            tensors.items(), key=lambda item: (-item[1].element_size(), item[0])
        ):
            tensor = _plain(given)
            if tensor.dtype not in _NAMES:
                raise InputError(f"{name} is {tensor.dtype}, which cannot be sent: convert it")
            start, end = end, end + tensor.nbytes
            header[name] = {
                "dtype": _NAMES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [start, end],
            }
            self._tensors.append(tensor)
        text = _encoded(header).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        self._head = len(text).to_bytes(LENGTH_BYTES, "little") + text
        self._length = len(self._head) + end

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return in_pieces([memoryview(self._head), *map(bytes_of, self._tensors)])


def in_pieces(contents: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Contents one after the other, to be sent or written.

    What is short comes together, copied; what is long in pieces of half a megabyte, where it lies.
    """
    waiting: list[bytes | memoryview] = []
    length = 0
    for content in contents:
        if length + len(content) <= _SHORT:
            waiting.append(content)
            length += len(content)
            continue
        if length:
            yield b"".join(waiting)
            waiting, length = [], 0
        view = memoryview(content)
        yield from (view[first : first + _PIECE] for first in range(0, len(view), _PIECE))
    if length:
        yield b"".join(waiting)


def _plain(tensor: Tensor) -> Tensor:
    """A tensor on the host, its numbers one after the other, without gradients."""
    return materialized(tensor.detach().cpu())


def unpack(content: Content, most: int = MOST_TENSORS) -> Message:
    """Reads a container from memory, which tensors share if it is writable.

    Args:
        content: The container.
        most: How many tensors there is a use for.

    Raises:
        MalformedError: It is none.
        TooLargeError: It has more tensors.
    """
    metadata, tensors = tensors_in(content, most)
    return Message(metadata.get(_DOCUMENT, "{}"), tensors)


def read(path: Path, *, is_own: bool = False, most: int = MOST_TENSORS) -> Message:
    """Reads a container from a file; tensors have memory of their own.

    Args:
        path: Where it is.
        is_own: Whether we wrote it, and somebody else did not send it: its header may be longer,
            and the digest that it says, if any, has to be right.
        most: How many tensors of somebody else's there is a use for.

    Raises:
        MalformedError: It is none, or damaged.
        TooLargeError: It has more tensors.
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        RuntimeError: There is no memory for it.
    """
    with path.open("rb") as file:
        metadata, tensors = tensors_from(file, is_own=is_own, most=most)
    document, digest = metadata.get(_DOCUMENT, "{}"), metadata.get(_DIGEST) if is_own else None
    if digest is not None and digest != digest_of(document, tensors):
        raise MalformedError("its content has another SHA-256 than it says")
    return Message(document, tensors)


def read_document(path: Path) -> str:
    """The document of a container in a file of ours, whose tensors are not read.

    Raises:
        MalformedError: It is none.
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return metadata_from(file).get(_DOCUMENT, "{}")

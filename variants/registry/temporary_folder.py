"""The temporary folder that stands in for a registry's own where that cannot be used."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from hetune.variants.errors import CompileError, RegistryError
from hetune.variants.registry.atomic_files import ROOM

_FULL = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "File size limit exceeded",
)


def says_full(error: CompileError) -> bool:
    """Whether a compiler has failed for want of space."""
    return any(sign in str(error) for sign in _FULL)


def check_temporary_room() -> None:
    """Checks that a small file could be written to a temporary folder.

    Raises:
        RegistryError: it cannot.
    """
    with temporary_io(), tempfile.TemporaryFile(prefix="hetune-") as file:
        file.write(bytes(ROOM))


@contextmanager
def temporary_io() -> Iterator[None]:
    """Turns what goes wrong with a temporary folder, too, into our error."""
    try:
        try:
            yield
        except CompileError as error:
            if says_full(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise
    except OSError as error:
        raise RegistryError(
            "neither the kernel registry nor a temporary folder can be written "
            f"({error.strerror or error}): free some space, or set HETUNE_CACHE to another folder"
        ) from error

"""Binaries that are loaded into the process."""

import ctypes
import os
from pathlib import Path


class LoadError(Exception):
    """The dynamic linker refuses a binary."""


class GoneError(LoadError):
    """There is no binary: another process or thread has evicted it."""


def open_library(path: Path) -> ctypes.CDLL:
    """Load a shared object.

    Raises:
        LoadError: it cannot be loaded.
    """
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise (LoadError if path.exists() else GoneError)(str(error)) from error

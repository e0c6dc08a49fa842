"""Features in C++, or in NumPy where that cannot be compiled."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from hetune.variants.errors import CompileError, RegistryError

_log = logging.getLogger(__name__)
_Computes = TypeVar("_Computes", bound=Callable[..., object])


def native_or_numpy(
    what: str, library: Callable[[], object], native: _Computes, numpy: _Computes
) -> _Computes:
    """The native one if its library can be had, else NumPy's, with a line in the log.

    Args:
        what: They compute, for a reader.
        library: Compiles and loads what the native one calls.
        native: Computes in C++.
        numpy: Computes the same in NumPy.
    """
    try:
        library()
    except (CompileError, RegistryError) as error:
        _log.warning("%s come from NumPy, which is slower: %s", what, error)
        return numpy
    return native

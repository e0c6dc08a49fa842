"""How libraries say that memory could not be had."""

from __future__ import annotations

_OUT_OF_MEMORY = "can't allocate memory", "not enough memory", "bad_alloc", "out of memory"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory could not be had: other libraries' do so by words."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(sign in words for sign in _OUT_OF_MEMORY)

"""A launch on a graph: its code, and what that is called with."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from torch import Tensor

from hetune.variants.graph.threads import kernel_threads


class CppRunner:
    """Runs a launch on a graph.

    Args:
        function: Its code.
        buffers: Places of pointers that each run sets, and names of their buffers.
        pointers: What the code is called with, in order.
        counts: Likewise.
        kept: What the other pointers lead to.

    Attributes:
        buffers: As given.
        pointers: As given.
    """

    __slots__ = ("_counts", "_function", "_kept", "buffers", "pointers")

    def __init__(
        self,
        function: ctypes._NamedFuncPointer,
        buffers: tuple[tuple[int, str], ...],
        pointers: ctypes.Array[ctypes.c_void_p],
        counts: ctypes.Array[ctypes.c_int64],
        kept: object,
    ) -> None:
        self._function, self.buffers = function, buffers
        self.pointers, self._counts, self._kept = pointers, counts, kept

    def __call__(self, tensors: Mapping[str, Tensor]) -> bool:
        """Runs it on buffers, and says whether a number outgrew a float."""
        pointers = self.pointers
        for position, name in self.buffers:
            pointers[position] = tensors[name].data_ptr()
        return self.run(kernel_threads())

    def run(self, threads: int) -> bool:
        """The same on those of now."""
        return bool(self._function(self.pointers, self._counts, threads))

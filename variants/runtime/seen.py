"""Tensors as they were at one time: whether they still are."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from torch import Tensor

from hetune.variants.graph.lazy_tensors import is_lazy
from hetune.variants.graph.tensor_identity import sample_of


class SeenTensor:
    """A tensor as it was at one time: identity by weak reference, content by torch's write counter.

    Writes through NumPy or ``.data`` move no counter: on a CPU some elements are compared. Tensors
    made in inference mode have no counter either.

    Args:
        tensor: The tensor.
        forget: Called with `reference` when it dies.

    Attributes:
        reference: To the tensor.
    """

    def __init__(
        self, tensor: Tensor, forget: Callable[[weakref.ref[Tensor]], None] | None = None
    ) -> None:
        self.reference = weakref.ref(tensor, forget)
        self._version = None if tensor.is_inference() else tensor._version
        self._place = _place(tensor)
        is_plain = type(tensor) is Tensor and tensor.device.type == "cpu"
        self._sample = sample_of(tensor.detach()) if is_plain else None
        self._elements = self._read()

    def is_now(self, tensor: Tensor) -> bool:
        """Whether this is the tensor, unchanged as far as can be seen."""
        if self.reference() is not tensor or self._place != _place(tensor):
            return False
        is_counted = self._version is not None
        if is_counted and self._version != tensor._version:
            return False
        return self._elements == self._read()

    def _read(self) -> bytes:
        return b"" if self._sample is None else self._sample.tobytes()


def _place(tensor: Tensor) -> object:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, is_lazy(tensor)

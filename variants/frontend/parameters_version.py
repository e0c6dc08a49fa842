"""Whether a module's parameters and buffers still are what they were."""

from __future__ import annotations

from operator import attrgetter, is_

import torch
from torch import Tensor

from hetune.variants.graph.tensor_identity import sample_of

_LOOKS = (
    Tensor.data_ptr,
    attrgetter("shape"),
    Tensor.stride,
    Tensor.is_neg,
)
"""What replacing a tensor's content may change, its dtype aside: without memory, it lies at 0."""
_writes = attrgetter("_version")


class ParametersVersion:
    """A module's tensors at one time: identity, place, write counter, and some elements of each.

    It holds on to the memory, so that no other tensor can get its address meanwhile; of tensors
    that inference mode made, which count no writes, it has copies.

    Attributes:
        devices: Where they are, each device once.
    """

    __slots__ = (
        "_copied",
        "_counted",
        "_elements",
        "_kept",
        "_looks",
        "_samples",
        "_tensors",
        "_writes",
        "devices",
    )

    def __init__(self, tensors: list[Tensor]) -> None:
        self.devices = tuple(dict.fromkeys(tensor.device for tensor in tensors))
        self._tensors = tensors
        self._counted = [tensor for tensor in tensors if not tensor.is_inference()]
        self._kept = tuple(tensor.detach() for tensor in self._counted)
        self._copied = tuple((t, t.detach().clone()) for t in tensors if t.is_inference())
        self._looks, self._writes = self._looked(), [*map(_writes, self._counted)]
        self._samples = tuple(sample_of(t) for t in self._kept if t.device.type == "cpu")
        self._elements = self._read()

    def is_now(self, tensors: list[Tensor]) -> bool:
        """Whether these are the tensors, unchanged as far as can be seen."""
        # A layer may have a thousand parameters, and every call asks: the loops run in C.
        return (
            len(tensors) == len(self._tensors)
            and all(map(is_, tensors, self._tensors))
            and [*map(_writes, self._counted)] == self._writes
            and self._looked() == self._looks
            and self._read() == self._elements
            and all(torch.equal(copy, tensor) for tensor, copy in self._copied)
        )

    def _looked(self) -> list[list[object]]:
        return [[*map(look, self._tensors)] for look in _LOOKS]

    def _read(self) -> bytes:
        return b"".join([sample.tobytes() for sample in self._samples])

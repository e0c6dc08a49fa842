"""Whether a module's parameters and buffers still are what they were."""

from __future__ import annotations

import torch
from torch import Tensor

from hetune.variants.graph.lazy_tensors import is_lazy
from hetune.variants.graph.tensor_identity import sample_of


class ParametersVersion:
    """A module's tensors at one time: identity, place, write counter, and some elements of each.

    It holds on to the memory, so that no other tensor can get its address meanwhile; of tensors
    that inference mode made, which count no writes, it has copies.

    Attributes:
        devices: Where they are, each device once.
    """

    __slots__ = ("_copied", "_elements", "_kept", "_key", "_samples", "devices")

    def __init__(self, tensors: list[Tensor]) -> None:
        self.devices = tuple(dict.fromkeys(tensor.device for tensor in tensors))
        self._copied = tuple(i for i, tensor in enumerate(tensors) if tensor.is_inference())
        self._kept = tuple(t.detach().clone() if t.is_inference() else t.detach() for t in tensors)
        self._key = _identities(tensors)
        self._samples = tuple(sample_of(t) for t in self._kept if t.device.type == "cpu")
        self._elements = self._read()

    def is_now(self, tensors: list[Tensor]) -> bool:
        """Whether these are the tensors, unchanged as far as can be seen."""
        if _identities(tensors) != self._key or self._read() != self._elements:
            return False
        return all(torch.equal(self._kept[i], tensors[i]) for i in self._copied)

    def _read(self) -> bytes:
        return b"".join([sample.tobytes() for sample in self._samples])


def _identities(tensors: list[Tensor]) -> list[object]:
    writes = [None if tensor.is_inference() else tensor._version for tensor in tensors]
    return [
        (id(t), t.data_ptr(), t.shape, t.stride(), count, is_lazy(t))
        for t, count in zip(tensors, writes, strict=True)
    ]

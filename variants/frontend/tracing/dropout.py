"""Dropout while layers are traced: each call is a mask, which confirmations, in float64, fix."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hetune.variants.frontend.tracing.new_tensors import in_doubles
from hetune.variants.program.dropout import dropout_mask


@dataclass(frozen=True, slots=True)
class TracedMask:
    """A call of dropout.

    Attributes:
        shape: Of what it was given.
        axis: That of rows.
        share: Of elements that are dropped.
        number: Of calls of this shape and share before it.
    """

    shape: tuple[int, ...]
    axis: int
    share: float
    number: int

    def fixed(self) -> Tensor:
        """The mask that confirmations use, float64 [*shape]."""
        seed = zlib.crc32(repr((self.shape, self.share, self.number)).encode())
        return dropout_mask(self.shape, self.share, seed, torch.device("cpu")).double()

    def fixed_rows(self) -> Tensor:
        """The same with its rows first, [rows, elements]."""
        return self.fixed().movedim(self.axis, 0).reshape(self.shape[self.axis], -1)


class MaskNumbers:
    """Counts calls of dropout.

    Args:
        before: Those that were met.
    """

    def __init__(self, before: Iterable[TracedMask] = ()) -> None:
        self._met = Counter((mask.shape, mask.share) for mask in before)

    def next(self, shape: Iterable[int], axis: int, share: float) -> TracedMask:
        """The mask of the next call."""
        whole = tuple(map(int.__int__, shape))
        self._met[whole, share] += 1
        return TracedMask(whole, axis, share, self._met[whole, share] - 1)


class InDoubles(TorchFunctionMode):
    """While active, new floats are float64, and dropout has the masks of traces of the same calls.

    Args:
        before: Masks of calls that were met before.
    """

    def __init__(self, before: Iterable[TracedMask] = ()) -> None:
        super().__init__()
        self._numbers = MaskNumbers(before)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.dropout and is_training(*args, **kwargs):
            return self._fixed(*args, **kwargs)
        return func(*args, **in_doubles(func, args, kwargs))

    def _fixed(self, input: Tensor, p: float = 0.5, *_: object, **__: object) -> Tensor:
        return input * self._numbers.next(input.shape, 0, p).fixed().to(input)


def is_training(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> bool:
    """Whether dropout with these arguments drops something, and leaves its input as it is."""
    return training and p > 0 and not inplace

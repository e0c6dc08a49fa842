"""What tells functions and weights apart from those of another process."""

from __future__ import annotations

import hashlib
import os
import pickle
from io import BytesIO
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.partition.row_files import digest_of

_PLAIN = bool | int | float | str | Tensor


def content_digest(found: object) -> str:
    """Of a function's code and the values that it holds, a module's state, or tensors, in hex.

    Of globals, tensors and plain values count. What cannot be pickled equals nothing, itself
    neither.
    """
    content = BytesIO()
    try:
        _ContentPickler(content).dump(found)
    except (pickle.PicklingError, TypeError, ValueError, AttributeError, RecursionError):
        return os.urandom(16).hex()
    return hashlib.blake2b(content.getbuffer(), digest_size=16).hexdigest()


class _ContentPickler(pickle.Pickler):
    """Writes the contents of functions, modules and tensors, which nothing reads back."""

    def reducer_override(self, found: Any) -> Any:
        match found:
            case Tensor():
                flat = found.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
                content: tuple[Any, ...] = (
                    str(found.dtype),
                    [*found.shape],
                    digest_of(flat.numpy()),
                )
            case FunctionType():
                cells = [cell.cell_contents for cell in found.__closure__ or ()]
                values = {name: found.__globals__.get(name) for name in found.__code__.co_names}
                plain = {name: value for name, value in values.items() if isinstance(value, _PLAIN)}
                defaults = found.__defaults__, found.__kwdefaults__
                content = found.__code__, cells, plain, defaults
            case CodeType():
                content = found.co_code, found.co_consts, found.co_names
            case nn.Module():
                content = type(found).__qualname__, type(found).forward, vars(found)
            case _:
                return NotImplemented
        return tuple, (content,)

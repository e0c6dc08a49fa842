"""Tensors of the protocol: datatypes by name, numbers in JSON or as little-endian bytes."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from hetune.service.core.formats.json_arrays import JsonArray
from hetune.service.http.oip.documents import RequestInput
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.graph.lazy_tensors import materialized

FEATURES = "FP32"
IDS = "INT64"
Dtype: TypeAlias = np.dtype[Any]
_DTYPES: dict[str, Dtype] = {
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP32": np.dtype("<f4"),
}


def read_tensor(given: RequestInput, raw: memoryview | None) -> Tensor:
    """An input as a tensor.

    Args:
        given: Its description, and its numbers if they are in JSON.
        raw: Its bytes, if they follow the JSON. The tensor may share their memory.

    Raises:
        MalformedError: Numbers are missing, of another kind, or more or fewer than the shape's.
        InputError: It has a datatype that no input has.
    """
    what = f"the input {given.name[:64]!r}"
    dtype = _DTYPES.get(given.datatype)
    if dtype is None:
        raise InputError(
            f"{what} is {given.datatype[:16]!r}: features are {FEATURES}, ids and counts INT16, "
            "INT32 or INT64"
        )
    if (raw is None) == (given.data is None):
        raise MalformedError(f"{what} has to have either data, or binary_data_size and bytes")
    count = math.prod(given.shape)
    shape = list(given.shape)
    if given.data is not None:
        if given.data.count > max(count, given.data.rows):  # empty rows have no number
            raise _unequal(what, given.data.count, shape)
        found = _of_json(what, given.data, shape, dtype)
    else:
        assert raw is not None
        found = _of_bytes(what, raw, dtype)
    if found.size != count:
        raise _unequal(what, found.size, shape)
    try:
        return torch.from_numpy(found.reshape(shape))
    except (ValueError, RuntimeError):  # no numbers, but sizes beside the 0
        raise MalformedError(f"{what} has the shape {shape}, which is too large") from None


def to_bytes(tensor: Tensor) -> memoryview:
    """The numbers of a float32 tensor, row by row."""
    rows = materialized(tensor.detach()).numpy().astype(_DTYPES[FEATURES], copy=False)
    return rows.reshape(-1).view(np.uint8).data


def _of_bytes(what: str, raw: memoryview, dtype: Dtype) -> np.ndarray:
    if len(raw) % dtype.itemsize:
        raise MalformedError(
            f"{what} has {len(raw)} bytes: its numbers have {dtype.itemsize} bytes each"
        )
    found = np.frombuffer(raw, dtype)
    is_usable = found.flags.aligned and found.flags.writeable
    return found if is_usable else found.copy()


def _of_json(what: str, given: JsonArray, shape: list[int], dtype: Dtype) -> np.ndarray:
    """Numbers that are in one list, or in lists of lists as the shape says."""
    is_rows = given.is_nested and len(shape) == 2
    if given.is_nested and not (is_rows and [given.rows, given.width] == shape):
        raise MalformedError(f"{what} has data that are nested otherwise than {shape} says")
    if dtype.kind == "f":
        return given.matrix(what).reshape(-1) if is_rows else given.floats(what)
    wide = given.integers(what)
    found = wide.astype(dtype)
    if not (found == wide).all():
        raise MalformedError(f"{what} has a number that does not fit {dtype.name}: take another")
    return found


def _unequal(what: str, found: int, shape: list[int]) -> MalformedError:
    return MalformedError(
        f"{what} has {found} numbers, but the shape {shape} has {math.prod(shape)}: make them equal"
    )

"""Tensors of the protocol: datatypes by name, numbers in JSON or as little-endian bytes."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from hetune.service.http.oip.documents import RequestInput
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.graph.memory import materialized

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
    if given.data is not None:
        found = _of_json(what, _flat(what, given.data, given.shape), dtype)
    else:
        assert raw is not None
        found = _of_bytes(what, raw, dtype)
    if found.size != count:
        raise MalformedError(
            f"{what} has {found.size} numbers, but the shape {given.shape} has {count}: make them "
            "equal"
        )
    try:
        return torch.from_numpy(found.reshape(given.shape))
    except (ValueError, RuntimeError):  # no numbers, but sizes beside the 0
        raise MalformedError(f"{what} has the shape {given.shape}, which is too large") from None


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


def _of_json(what: str, values: list[Any], dtype: Dtype) -> np.ndarray:
    is_integer = dtype.kind == "i"
    if not {type(value) for value in values} <= ({int} if is_integer else {int, float}):
        raise MalformedError(f"{what} has data of another type than its datatype")
    try:
        with np.errstate(over="ignore"):
            wide = np.array(values, np.int64 if is_integer else np.float64)
            found = wide.astype(dtype)
        does_fit = bool((found == wide).all() if is_integer else np.isfinite(found).all())
    except OverflowError:
        does_fit = False
    if not does_fit:
        raise MalformedError(
            f"{what} has a number that is not finite, or does not fit its datatype: give another, "
            "or binary data"
        )
    return found


def _flat(what: str, data: list[Any], shape: list[int]) -> list[Any]:
    """Numbers that are in one list, or in lists of lists as the shape says."""
    for size in shape[1:]:
        if not any(isinstance(row, list) for row in data):
            break
        if not all(isinstance(row, list) and len(row) == size for row in data):
            raise MalformedError(f"{what} has data that are nested otherwise than {shape} says")
        data = [value for row in data for value in row]
    return data

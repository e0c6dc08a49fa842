"""Values of edges as arrays of `.npz` files, and as what other libraries' graphs keep."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import torch

from hetune.variants.errors import GraphError, GraphFileError

PREFIX = "edge_data/"
"""What the names of such arrays begin with."""
KEY = "hetune_edge_data"
"""The attribute of a converted graph that says which values of its edges are edge data."""
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.complex64, torch.complex128),
    )
}


def packed(data: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Arrays [E, ...] by the names that they have in a file.

    Raises:
        GraphFileError: NumPy lacks a dtype, or a name holds a zero byte.
    """
    found = {}
    for name, values in data.items():
        if "\0" in name:
            raise GraphFileError(f"edge_data has the name {name!r} with a zero byte: rename it")
        try:
            found[PREFIX + name] = values.detach().cpu().numpy()
        except TypeError as error:
            raise GraphFileError(
                f"edge_data[{name!r}] is {values.dtype}, which .npz files lack: convert it, "
                "for example with .float()"
            ) from error
    return found


def unpacked(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The values by name, of all that a file holds.

    Raises:
        GraphError: An array holds no numbers that torch has.
    """
    found = {}
    for key, array in arrays.items():
        if key.startswith(PREFIX):
            native = array.astype(array.dtype.newbyteorder("="), copy=False)
            try:
                found[key.removeprefix(PREFIX)] = torch.from_numpy(native)
            except TypeError as error:
                raise GraphError(
                    f"{key} is {array.dtype}: give numbers, such as float32 or int64"
                ) from error
    return found


def as_text(data: Mapping[str, torch.Tensor]) -> str:
    """Their names and dtypes, as JSON."""
    return json.dumps({name: str(values.dtype)[6:] for name, values in data.items()})


def from_text(text: object) -> dict[str, torch.dtype]:
    """The dtypes by name, of such a text; of another one none."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {n: _DTYPES[d] for n, d in found.items() if isinstance(d, str) and d in _DTYPES}


def check_free(data: Mapping[str, torch.Tensor], taken: frozenset[str], where: str) -> None:
    """Check that no name means something else to a library.

    Raises:
        GraphError: One does.
    """
    for name in data:
        if name in taken or name.startswith("_"):
            raise GraphError(
                f"edge_data has the name {name!r}, which {where} keeps for itself: rename it"
            )

"""Turning what callers give into checked int32 tensors."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import index_native
from hetune.variants.graph.lazy_tensors import materialized

IdArray: TypeAlias = torch.Tensor | np.ndarray

MAX_COUNT = 2**31 - 1
_FOUND = 1 << 24
_TORCH_DTYPES = (torch.int16, torch.int32, torch.int64)
_NUMPY_DTYPES = (np.dtype(np.int16), np.dtype(np.int32), np.dtype(np.int64))


def as_ids(name: str, values: object) -> torch.Tensor:
    """A 1-D integer tensor of what was given, not yet range-checked.

    Args:
        name: How error messages call the array.
        values: A torch tensor or NumPy array of int16, int32 or int64, shape [n].

    Raises:
        GraphError: Another type, dtype or rank; the message says how to convert.
    """
    if isinstance(values, np.ndarray):
        native = values.dtype.newbyteorder("=")
        if native not in _NUMPY_DTYPES:
            raise GraphError(
                f"{name} has dtype {values.dtype}: ids must be int16, int32 or int64; "
                f"convert with {name}.astype(numpy.int64)"
            )
        # A copy: read-only and byte-swapped arrays have no tensor view.
        tensor = torch.from_numpy(np.array(values, dtype=native))
    elif isinstance(values, torch.Tensor):
        if values.dtype not in _TORCH_DTYPES:
            raise GraphError(
                f"{name} has dtype {values.dtype}: ids must be int16, int32 or int64; "
                f"convert with {name}.to(torch.int64)"
            )
        if values.layout != torch.strided:
            raise GraphError(f"{name} is a sparse tensor: give its ids as a dense [n] tensor")
        tensor = materialized(values.detach())
    else:
        raise GraphError(
            f"{name} is a {type(values).__name__}: give a torch tensor or NumPy array; "
            f"convert with torch.as_tensor({name}, dtype=torch.int64)"
        )
    if tensor.dim() != 1:
        raise GraphError(
            f"{name} has shape {list(tensor.shape)}: it must be one-dimensional; "
            f"an edge_index of shape [2, E] is given as src=edge_index[0], dst=edge_index[1]"
        )
    return tensor


def check_count(name: str, count: int) -> None:
    """Refuse a count that is negative or does not fit int32."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise GraphError(f"{name} is a {type(count).__name__}: give an int")
    if not 0 <= count <= MAX_COUNT:
        raise GraphError(
            f"{name} is {count}: counts must be in 0..2**31-1; split a larger graph into parts"
        )


def check_found(what: str, count: int, entries: int, mend: str) -> None:
    """Refuse a count that the largest id tells alone if ids are of few of so many: a wrong id
    would take all memory.
    """
    if count > max(_FOUND, 64 * entries):
        raise GraphError(
            f"there would be {count} {what}, for {count - 1} is the largest id of {entries}: {mend}"
        )


def check_range(
    name: str, ids: torch.Tensor, limit: int, what: str, grow: str = "", base: int = 0
) -> None:
    """Check `0 <= ids < limit`.

    Args:
        name: How the message calls the array.
        ids: Integer tensor, shape [n].
        limit: Exclusive upper bound.
        what: What the ids count, plural: "nodes".
        grow: The argument that raises the bound: "num_nodes"; empty if none does.
        base: What the bound is without that argument.

    Raises:
        GraphError: Names the first offending position and value, and how to mend it.
    """
    if ids.numel() == 0:
        return
    low, high = torch.stack(torch.aminmax(ids)).tolist()  # a GPU is waited for once
    if low >= 0 and high < limit:
        return
    position = int(((ids < 0) | (ids >= limit)).int().argmax())
    value = int(ids[position])
    raised = f"pass {grow}={high + 1 - base} or more, or renumber" if grow else "renumber"
    mend = "number them from 0" if value < 0 else raised
    ids_are = f" (ids 0..{limit - 1})" if limit else ""
    raise GraphError(
        f"{name}[{position}] is {value}, but the graph has {limit} {what}{ids_are}: {mend}"
    )


def in_range(name: str, ids: torch.Tensor, limit: int, what: str, grow: str = "") -> torch.Tensor:
    """A contiguous int32 copy of ids that are checked as by `check_range`."""
    if ids.device.type == "cpu" and index_native.is_loaded():
        found = index_native.own_ids(ids, limit)
        if found is not None:
            return found
    check_range(name, ids, limit, what, grow)
    return ids.contiguous().to(torch.int32, copy=True)


def check_sorted(name: str, ids: torch.Tensor) -> None:
    """Check that node types do not decrease over node ids."""
    falls = ids[1:] < ids[:-1]
    if bool(falls.any()):
        position = int(falls.int().argmax()) + 1
        raise GraphError(
            f"{name}[{position}] is {int(ids[position])} after {int(ids[position - 1])}: nodes of "
            f"one type must be contiguous; relabel nodes by type, e.g. order = "
            f"torch.argsort({name}, stable=True), and renumber src and dst by its inverse"
        )


@lru_cache(maxsize=64)
def numbered(count: int) -> tuple[str, ...]:
    """Names of types that were given none."""
    return tuple(map(str, range(count)))


def check_names(kind: str, names: Sequence[str], count: int) -> None:
    """Check that there are `count` distinct names; `kind` is "ntype" or "etype"."""
    if len(names) != count:
        raise GraphError(
            f"{kind}_names has {len(names)} names but num_{kind}s is {count}: "
            "give one name per type"
        )
    if names is numbered(count):
        return
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphError(f"{kind}_names holds {name!r} twice: names must be distinct")
        seen.add(name)


def check_edge_data(data: Mapping[str, torch.Tensor], edges: int, device: torch.device) -> None:
    """Check that there is a row for each edge, on the device of the edges."""
    for name, values in data.items():
        if not isinstance(values, torch.Tensor) or values.dim() == 0 or len(values) != edges:
            shape = (
                list(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
            )
            raise GraphError(
                f"edge_data[{name!r}] is {shape} but there are {edges} edges: give a tensor with "
                "a row per edge"
            )
        if values.device != device:
            raise GraphError(
                f"edge_data[{name!r}] is on {values.device} but src is on {device}: "
                f"move it with .to({str(device)!r})"
            )


def device_of(name: str | torch.device) -> torch.device:
    """The device of a name.

    Raises:
        GraphError: There is none, or it is not here.
    """
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise GraphError(f"device is {name!r}: {error}; take 'cpu'") from error


def largest(ids: torch.Tensor) -> int:
    """The largest id, -1 where there is none."""
    return int(ids.max()) if ids.numel() else -1


def contiguous_int32(ids: torch.Tensor) -> torch.Tensor:
    """Contiguous int32: the ids themselves where they are that."""
    return ids.contiguous().to(torch.int32)

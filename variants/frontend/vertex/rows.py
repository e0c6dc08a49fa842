"""Values in a function of one vertex: tensors with one row, which stand for those of all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.tracing.interpreter import words


class ValuePlace(IntEnum):
    """What a value has a row for; values meet at the later one."""

    SHARED = 0
    VERTEX = 1
    RELATION = 2
    EDGE = 3


class Neighborhood(ABC):
    """Moves rows from vertices to their relations and incoming edges, and back."""

    @abstractmethod
    def take(self, rows: Tensor, at: ValuePlace, to: ValuePlace) -> Tensor:
        """For each row of a later place, the one that it belongs to."""

    @abstractmethod
    def reduce(self, rows: list[Tensor], at: ValuePlace, to: ValuePlace, fn: str) -> Tensor:
        """The sum, max or min of the rows that belong to each of an earlier place; 0 of none."""


class VertexValue:
    """A value at a place: ``[1, *row shape]``, or a weight's own shape where it is shared.

    Functions of torch take values of several places, and give one at the latest of them. Lists of
    values are reduced by ``sum``, ``max`` and ``min``.

    Args:
        tensor: Its rows.
        place: What they are of.
        within: Of rows of edges: where they are reduced to, a relation or a vertex.
        around: Moves rows; None of shared values.
    """

    __array_priority__ = 1000

    def __init__(
        self,
        tensor: Tensor,
        place: ValuePlace = ValuePlace.SHARED,
        within: ValuePlace = ValuePlace.VERTEX,
        around: Neighborhood | None = None,
    ) -> None:
        self.tensor, self.place, self.within, self.around = tensor, place, within, around

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        values = _values_in([args, *kwargs.values()])
        last = max(values, key=lambda value: value.place)
        within = max(value.within for value in values)
        args = _moved(args, last)
        kwargs = {name: _moved(value, last) for name, value in kwargs.items()}
        special = _SPECIAL.get(func.__name__)
        found = func(*args, **kwargs) if special is None else special(last.place, *args, **kwargs)
        if last.place is not ValuePlace.SHARED:
            _check_apart(func.__name__, args, kwargs, found, last.tensor.shape[0])
        return _valued(found, last, within)

    def __getattr__(self, name: str) -> Any:
        method = getattr(Tensor, name, None)
        if name.startswith("__") or method is None:
            raise AttributeError(f"a value of a vertex has no attribute {name!r}")
        if not callable(method):
            return getattr(self.tensor, name)
        return lambda *args, **kwargs: self.__torch_function__(method, (), (self, *args), kwargs)

    def __getitem__(self, index: Any) -> VertexValue:
        """Elements of each row; of a shared value, the row that a type or number chooses."""
        first = index[0] if isinstance(index, tuple) and index else index
        if self.place is not ValuePlace.SHARED and first not in (..., slice(None)):
            raise InputError("a vertex's value is one row: index its elements, as in x[:, 0]")
        chosen = index.tensor if isinstance(index, VertexValue) else index
        like = index if isinstance(index, VertexValue) else self
        return VertexValue(self.tensor[chosen], like.place, like.within, like.around)

    def __bool__(self) -> bool:
        raise InputError(
            "a vertex's value has no truth value: a function is run once for all vertices; use "
            "torch.where, or arguments that are no tensors"
        )

    def __iter__(self) -> Any:
        raise InputError("a vertex's value is one row: it cannot be iterated over")


def _operator(name: str) -> None:
    def operator(self: VertexValue, *args: Any) -> Any:
        return VertexValue.__torch_function__(getattr(Tensor, name), (), (self, *args))

    setattr(VertexValue, name, operator)


for _name in words(
    "add radd sub rsub mul rmul truediv rtruediv pow rpow neg matmul gt lt ge le abs"
):
    _operator(f"__{_name}__")


def _values_in(argument: Any) -> list[VertexValue]:
    if isinstance(argument, VertexValue):
        return [argument]
    if isinstance(argument, list | tuple):
        return [value for part in argument for value in _values_in(part)]
    return []


def _moved(argument: Any, last: VertexValue) -> Any:
    if isinstance(argument, VertexValue):
        is_there = argument.place in (ValuePlace.SHARED, last.place)
        return argument.tensor if is_there else _at(argument, last)
    if isinstance(argument, list | tuple) and _values_in(argument):
        return type(argument)(_moved(part, last) for part in argument)
    return argument


def _at(value: VertexValue, last: VertexValue) -> Tensor:
    assert last.around is not None
    return last.around.take(value.tensor, value.place, last.place)


def _check_apart(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], found: Any, rows: int
) -> None:
    """Raises `InputError` if a function has not left rows apart: each is another vertex's."""
    dims = kwargs.get("dim", args[1] if name in _ALONG and len(args) > 1 else None)
    over = dims if isinstance(dims, list | tuple) else [dims]
    rank = args[0].dim() if isinstance(args[0], Tensor) else 0
    is_one = isinstance(found, Tensor) and found.shape[:1] not in ((rows,), (1,))
    if is_one or any(type(dim) is int and dim in (0, -rank) for dim in over):
        raise InputError(f"{name} goes over vertices: a value is one row, name an axis after it")


_ALONG = words(
    "sum mean prod max min amax amin softmax log_softmax cumsum cumprod sort flip unsqueeze"
)


def _valued(found: Any, like: VertexValue, within: ValuePlace) -> Any:
    if isinstance(found, Tensor):
        return VertexValue(found, like.place, within, like.around)
    if isinstance(found, list | tuple):
        return type(found)(_valued(part, like, within) for part in found)
    return found


def _dot(place: ValuePlace, x: Tensor, y: Tensor) -> Tensor:
    """The inner product over the last axis, which stays, with one element."""
    return (x * y).sum(-1, keepdim=True)


def _product(place: ValuePlace, x: Tensor, y: Tensor) -> Tensor:
    """A product; of a row and its own matrix, where the matrix has a row, too."""
    if x.dim() == 2 and y.dim() == 3 and place is not ValuePlace.SHARED:
        return (x.unsqueeze(1) @ y).squeeze(1)
    return x @ y


_SPECIAL: dict[str, Callable[..., Tensor]] = {
    "dot": _dot,
    "matmul": _product,
    "__matmul__": _product,
    "mm": _product,
}


class VertexCount(VertexValue):
    """How many neighbours there are, as a number for each vertex and as the length of a list."""

    def __init__(self, value: VertexValue, length: int) -> None:
        super().__init__(value.tensor, value.place, value.within, value.around)
        self.length = length


class Neighbors(list[Any]):
    """Neighbours, incoming edges or relations of a vertex, with how many they are."""

    def __init__(self, entries: list[Any], count: Callable[[], VertexValue]) -> None:
        super().__init__(entries)
        self._count = count

    def count_value(self) -> VertexCount:
        """How many there are."""
        return VertexCount(self._count(), len(self))


def reduced(values: list[VertexValue], fn: str) -> VertexValue:
    """The sum, max or min of values of neighbours."""
    first = values[0]
    to = first.within if first.place is ValuePlace.EDGE else ValuePlace.VERTEX
    assert first.around is not None
    rows = first.around.reduce([value.tensor for value in values], first.place, to, fn)
    return VertexValue(rows, to, ValuePlace.VERTEX, first.around)

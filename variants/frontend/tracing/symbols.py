"""Symbols: tensors without numbers that a layer's own forward runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.expressions import Expression
from hetune.variants.frontend.tracing.not_traceable import (
    LocatedNotTraceable,
    NotTraceable,
)


@dataclass(frozen=True, slots=True)
class RowValue:
    """A value of the program as a tensor: one axis has a row for each node or edge.

    Attributes:
        name: Of the value; its row shape is the tensor's without that axis.
        axis: Which one, from the front.
    """

    name: str
    axis: int


@dataclass(frozen=True, slots=True)
class TailValue:
    """What torch makes of rows of nodes after the program has run.

    Attributes:
        expression: Of rows, parameters and arguments of the call.
        why: Why the program does not make it.
    """

    expression: Expression
    why: LocatedNotTraceable


Meaning = RowValue | Expression | TailValue


class Symbol(Tensor):
    """A tensor of known shape and dtype whose numbers depend on features or parameters.

    Attributes:
        meaning: What it is in the program.
        interpreter: Gives functions of it a meaning.
    """

    meaning: Meaning
    interpreter: Callable[[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]], Any]

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        symbol = next(iter(symbols_in((args, tuple((kwargs or {}).values())))))
        return symbol.interpreter(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        raise NotTraceable(f"the function {func.__name__} has no meaning in a program")

    def __repr__(self) -> str:  # type: ignore[override]
        with torch._C.DisableTorchFunctionSubclass():
            return f"Symbol{list(self.shape)}({self.meaning})"


def symbol(
    meaning: Meaning,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    interpreter: Callable[..., Any],
) -> Symbol:
    """A new symbol."""
    with torch._C.DisableTorchFunction():
        made: Symbol = torch.Tensor._make_wrapper_subclass(
            Symbol, shape, dtype=dtype, device=device
        )
    made.meaning, made.interpreter = meaning, interpreter
    return made


def symbols_in(value: Any) -> list[Symbol]:
    """All symbols in an argument, which may be a tuple or list."""
    if isinstance(value, Symbol):
        return [value]
    if isinstance(value, list | tuple):
        return [found for part in value for found in symbols_in(part)]
    return []


def replaced(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """An argument with each tensor in it changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, list | tuple):
        return type(value)(replaced(part, change) for part in value)
    return value

"""What follows from parameters alone: torch functions, recorded and run anew for new parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A tensor that depends on a layer's parameters and buffers, and on nothing else.

    Attributes:
        key: Equal for equal expressions.
        hint: The parameter that it is made of, for names.
        func: What makes it; None of a parameter and of a fixed tensor.
        args: Its arguments, expressions among them.
        kwargs: Likewise.
        item: Which of the function's results, if they are several.
        fixed: The tensor, where it depends on nothing.
    """

    key: str
    hint: str
    func: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    item: int | None = None
    fixed: Tensor | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether it depends on no parameter or buffer."""
        return all(each.func or each.fixed is not None for each in expressions_in(self))


def expressions_in(value: Any) -> Iterator[Expression]:
    """All expressions in a value, and those that they are made of, some several times."""
    match value:
        case Expression(args=args, kwargs=kwargs):
            yield value
            yield from expressions_in((args, kwargs))
        case list() | tuple():
            for part in value:
                yield from expressions_in(part)
        case dict():
            yield from expressions_in([*value.values()])


def parameter(name: str) -> Expression:
    """A parameter or buffer, by its name in the layer."""
    return Expression(name, name)


def fixed(tensor: Tensor) -> Expression:
    """A tensor that is always the same."""
    return Expression(_digest(tensor), "fixed", fixed=tensor)


def called(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    item: int | None = None,
) -> Expression:
    """A function of expressions and other values."""
    named = tuple(sorted(kwargs.items()))
    key = f"{func.__name__}({_key(args)},{_key(named)})[{item}]"
    return Expression(key, _hint((*args, *named)) or "fixed", func, args, named, item)


def evaluate(
    expression: Expression, parameters: Mapping[str, Tensor], known: dict[str, Any]
) -> Tensor:
    """The tensor, in the dtype of the parameters; float64 where there are none.

    Args:
        expression: What to compute.
        parameters: The layer's parameters and buffers by name.
        known: What was evaluated of these parameters before, by key; grows.
    """
    if expression.key not in known:
        known[expression.key] = _evaluated(expression, parameters, known)
    found: Tensor = known[expression.key]
    return found


def _evaluated(
    expression: Expression, parameters: Mapping[str, Tensor], known: dict[str, Any]
) -> Any:
    if expression.fixed is not None:
        return _like(expression.fixed, parameters)
    if expression.func is None:
        return parameters[expression.key]
    args = _given(expression.args, parameters, known)
    kwargs = {name: _given(value, parameters, known) for name, value in expression.kwargs}
    found = expression.func(*args, **kwargs)
    return found if expression.item is None else found[expression.item]


def _given(value: Any, parameters: Mapping[str, Tensor], known: dict[str, Any]) -> Any:
    # No function inside another: one that calls itself keeps what it refers to in a cycle.
    if isinstance(value, Expression):
        return evaluate(value, parameters, known)
    if isinstance(value, Tensor):
        return _like(value, parameters)
    if isinstance(value, list | tuple):
        return type(value)(_given(part, parameters, known) for part in value)
    return value


def _like(tensor: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    some = next((p for p in parameters.values() if p.is_floating_point()), None)
    if not tensor.is_floating_point():
        return tensor if some is None else tensor.to(some.device)
    return tensor.double() if some is None else tensor.to(some.device, some.dtype)


def _key(value: Any) -> str:
    if isinstance(value, Expression):
        return value.key
    if isinstance(value, Tensor):
        return _digest(value)
    if isinstance(value, list | tuple):
        return f"({','.join(map(_key, value))})"
    return repr(value)


def _hint(value: Any) -> str | None:
    if isinstance(value, Expression):
        return None if value.hint == "fixed" else value.hint
    if isinstance(value, list | tuple):
        return next((hint for hint in map(_hint, value) if hint), None)
    return None


def _digest(tensor: Tensor) -> str:
    if has_torch_function_unary(tensor):  # what is traced has to be the same the next time
        return handle_torch_function(_digest, (tensor,), tensor)
    plain = tensor.detach().cpu().contiguous()
    plain = plain.float() if plain.is_floating_point() else plain
    content = plain.numpy().tobytes()
    return f"{tuple(tensor.shape)}{hashlib.blake2b(content, digest_size=8).hexdigest()}"

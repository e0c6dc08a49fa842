"""Tensors that a layer reads but does not own, whose changes nobody would see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import Symbol, replaced


class OwnTensors(TorchFunctionMode):
    """While active, functions take symbols, what is given, and what functions made of them.

    Raises:
        NotTraceable: A function takes another tensor, such as a global one.
    """

    def __init__(self, given: Iterable[object]) -> None:
        super().__init__()
        self._known = {id(value) for value in given}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        for kind in types:
            if not issubclass(kind, Tensor):  # it calls functions of tensors in its turn
                with self:
                    return kind.__torch_function__(func, types, args, kwargs)  # type: ignore[attr-defined]
        replaced((args, [*kwargs.values()]), self._checked)
        found = func(*args, **kwargs)
        replaced(found, self._made)
        return found

    def _checked(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, Symbol) and id(tensor) not in self._known:
            kind = "parameter" if isinstance(tensor, nn.Parameter) else "tensor"
            raise NotTraceable(f"a {kind} is none of the module's own: register it there")
        return tensor

    def _made(self, tensor: Tensor) -> Tensor:
        self._known.add(id(tensor))
        return tensor

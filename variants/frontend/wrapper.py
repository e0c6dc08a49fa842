"""A module that stands for another one: it has that one's attributes, methods and state dict."""

from __future__ import annotations

import copy
import pickle
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Self

from torch import nn

from hetune.variants.errors import InputError

_ATTRIBUTES = vars(nn.Module()).keys()
_SHARED = tuple(
    name
    for name in _ATTRIBUTES
    if name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
    or "state_dict" in name
)
"""Attributes of every module that are, of a wrapper, the module's own."""
_HOOKS = tuple(_ATTRIBUTES - {"training", *_SHARED})
"""Attributes of every module that hold what is registered on it."""


class ModuleWrapper(nn.Module):
    """Behaves as the module that it holds, but for what subclasses define.

    Attributes that it does not have itself are read from the module, and written and deleted
    there: what a subclass keeps for itself has to be set before the module is. Its parameters,
    buffers and parts are the module's, under the same names. Its type is its own: code that asks
    for the module's type finds the module among its `modules`, as "module".

    Attributes:
        module: What it stands for.
    """

    module: nn.Module

    def __getattr__(self, name: str) -> Any:
        if "module" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "module":
            self.__dict__.update({"module": value, **{key: vars(value)[key] for key in _SHARED}})
        elif self._is_own(name):
            super().__setattr__(name, value)
        else:
            setattr(self.module, name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_own(name):
            super().__delattr__(name)
        else:
            delattr(self.module, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self.module)})

    def _is_own(self, name: str) -> bool:
        if name in self.__dict__ or "module" not in self.__dict__:
            return True
        return isinstance(getattr(type(self), name, None), property)

    @property
    def parametrizations(self) -> nn.ModuleDict:
        """The module's, if any. They belong to its class: nobody finds or adds one by name here."""
        return _Parametrizations(getattr(self.module, "parametrizations", None))

    @abstractmethod
    def _around(self, module: nn.Module) -> Self:
        """An equal wrapper of another module."""

    def __copy__(self) -> Self:
        return self._with(copy.copy(self.module), copy.copy)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        module = copy.deepcopy(self.module, memo)
        return self._with(module, lambda value: copy.deepcopy(value, memo))

    def _with(self, module: nn.Module, copied: Callable[[Any], Any]) -> Self:
        """An equal wrapper of another module, with copies of this one's hooks."""
        twin = self._around(module)
        for name in _HOOKS:
            twin.__dict__[name] = copied(self.__dict__[name])
        return twin

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Adds a parameter to the module."""
        self.module.register_parameter(name, param)

    def register_buffer(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Adds a buffer to the module."""
        self.module.register_buffer(name, *args, **kwargs)

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Adds a part to the module."""
        self.module.add_module(name, module)

    def named_modules(
        self,
        memo: set[nn.Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, nn.Module]]:
        """This one and the module's parts, by name; last, where none comes twice, the module."""
        memo = set() if memo is None else memo
        yield from super().named_modules(memo, prefix, remove_duplicate)
        if remove_duplicate and self.module not in memo:
            memo.add(self.module)
            yield f"{prefix}.module" if prefix else "module", self.module

    def train(self, mode: bool = True) -> Self:
        """Sets the mode of both."""
        self.training = mode
        self.module.train(mode)
        return self

    def apply(self, fn: Callable[[nn.Module], None]) -> Self:
        """Calls a function on the module's parts, the module, and this one."""
        self.module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        self.module._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __reduce__(self) -> Any:
        raise pickle.PicklingError(
            "compiled code is not pickled: save the state dict, which has the module's names, or "
            "pickle the attribute `module`, and compile it again where it is loaded"
        )

    def _replicate_for_data_parallel(self) -> Any:
        # Replicas get parameters of their own.
        return self.module._replicate_for_data_parallel()  # type: ignore[no-untyped-call]

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's: a wrapped model loads what it saved before."""
        return self.module.state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.module._load_from_state_dict(*args)

    def __repr__(self) -> str:
        lines = [self.extra_repr(), f"(module): {self.module!r}"]
        inside = "\n".join(lines).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {inside}\n)"


class _Parametrizations(nn.ModuleDict):
    """Parametrizations of what a wrapper stands for, as the wrapper shows them."""

    def __contains__(self, key: str) -> bool:
        raise InputError(
            f"parametrizations of {key} belong to the layer's class: call torch with the compiled "
            "layer's attribute `module`"
        )


def unwrapped(module: nn.Module) -> nn.Module:
    """What a wrapper stands for, or the module itself."""
    return module.module if isinstance(module, ModuleWrapper) else module

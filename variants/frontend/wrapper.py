"""A module that stands for another one: it has that one's attributes, methods and state dict."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

from torch import nn

_HOOKS = tuple(vars(nn.Module()).keys() - {"training", "_parameters", "_buffers", "_modules"})
"""Attributes of every module that hold what is registered on it."""


class ModuleWrapper(nn.Module):
    """Behaves as the module that it holds, but for what subclasses define.

    Attributes that it does not have itself are read from the module, and written and deleted
    there: what a subclass keeps for itself has to be set before the module is. Its type is its
    own: code that asks for the module's type finds the module among its `children`.

    Attributes:
        module: What it stands for.
    """

    module: nn.Module

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__.get("_modules", {})
        if "module" not in own:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return own["module"] if name == "module" else getattr(own["module"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_own(name):
            super().__setattr__(name, value)
        else:
            setattr(self.module, name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_own(name):
            super().__delattr__(name)
        else:
            delattr(self.module, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._modules, *dir(self.module)})

    def _is_own(self, name: str) -> bool:
        if name == "module" or name in self.__dict__ or "module" not in self._modules:
            return True
        return isinstance(getattr(type(self), name, None), property)

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

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's, under its own names: a wrapped model loads what it saved before.

        `load_state_dict` takes the same names; `torch.func.functional_call` takes those of
        `named_parameters`, which begin with "module.".
        """
        return self.module.state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        own = [prefix + name for name in self.module.state_dict(keep_vars=True)]
        found = {key: state.pop(key) for key in own if key in state}
        state.update((f"{prefix}module.{key.removeprefix(prefix)}", found[key]) for key in found)
        super()._load_from_state_dict(state, prefix, *rest)


def unwrapped(module: nn.Module) -> nn.Module:
    """What a wrapper stands for, or the module itself."""
    return module.module if isinstance(module, ModuleWrapper) else module

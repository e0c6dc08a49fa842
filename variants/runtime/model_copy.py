"""A shallow copy of a model, with other modules in the places of its layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any

from torch import nn

from hetune.variants.fork_locks import new_lock


class ModelCopy:
    """A model with some of its parts replaced; the model itself stays as it is.

    Parts that hold none of these are shared. Those that do are copied, without their parameters,
    buffers and hooks, which are shared as well. What is assigned to the model later is seen.

    Attributes:
        original: The model.
        module: Its copy.
    """

    def __init__(
        self, original: nn.Module, replacement: Callable[[nn.Module], nn.Module | None]
    ) -> None:
        """Copies.

        Args:
            original: The model.
            replacement: What stands for a part; None where that is looked into.
        """
        self.original = original
        self._replacement = replacement
        self._copied: dict[nn.Module, _Copied] = {}
        self._lock = new_lock()
        self.module = self._copy(original)

    def follow(self) -> None:
        """Takes over what was assigned to the model, or to its parts, since the last time."""
        for copied in (*self._copied.values(),):
            if copied.is_outdated():
                with self._lock:
                    self._copy(self.original)
                return

    def _copy(self, part: nn.Module) -> nn.Module:
        replaced = self._replacement(part)
        if replaced is not None:
            return replaced
        parts = {name: child and self._copy(child) for name, child in part._modules.items()}
        known = self._copied.get(part)
        if known is None:
            if all(child is part._modules[name] for name, child in parts.items()):
                return part
            known = self._copied[part] = _Copied(part)
        known.update(parts)
        return known.copy


@dataclass(slots=True)
class _Copied:
    """A part, its copy, and the attributes and parts that it had when it was copied last."""

    original: nn.Module
    copy: nn.Module
    attributes: dict[str, Any]
    parts: dict[str, nn.Module | None]

    def __init__(self, original: nn.Module) -> None:
        self.original = original
        # Not by the class: some make a class for each instance.
        self.copy = object.__new__(type(original))
        self.copy.__dict__["_modules"] = {}
        self.attributes, self.parts = {}, {}

    def is_outdated(self) -> bool:
        now = vars(self.original)
        if type(self.copy) is not type(self.original):  # as parametrizations change it
            return True
        if len(now) != len(self.attributes) or self.parts != now["_modules"]:
            return True
        known = self.attributes
        return any(known.get(name, self) is not value for name, value in now.items())

    def update(self, parts: dict[str, nn.Module | None]) -> None:
        own, now = self.copy.__dict__, vars(self.original)
        object.__setattr__(self.copy, "__class__", type(self.original))
        for name in self.attributes.keys() - now.keys():
            own.pop(name, None)
        for name, value in now.items():
            if self.attributes.get(name, self) is not value and name != "_modules":
                is_own = isinstance(value, MethodType) and value.__self__ is self.original
                own[name] = value.__func__.__get__(self.copy) if is_own else value
        own["_modules"] = parts  # at once: others may be calling it
        self.attributes, self.parts = dict(now), dict(now["_modules"])

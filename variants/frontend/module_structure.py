"""What a module is made of, compared with what it was in less time than a layer takes to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter, is_, methodcaller

from torch import Tensor, nn

_dtype, _groups = attrgetter("dtype"), attrgetter("_modules", "_parameters", "_buffers")
_values = methodcaller("values")


class ModuleStructure:
    """A module's parts, parameters and buffers at one time, with their names and dtypes.

    Args:
        module: Of which.
        parts: It, and all modules in it.
    """

    def __init__(self, module: nn.Module, parts: Sequence[nn.Module]) -> None:
        self._own, self._parts = vars(module), parts
        self._names, self._held = self._now()
        self._tensors = [value for value in self._held if isinstance(value, Tensor)]
        self._dtypes = [*map(_dtype, self._tensors)]

    def is_now(self, options: Mapping[str, object]) -> bool:
        """Whether the module still has it all, and these attributes.

        A module may have a thousand parameters, and every call asks: the loops run in C.
        """
        names, held = self._now()
        return (
            [*map(self._own.get, options)] == [*options.values()]
            and names == self._names
            and all(map(is_, held, self._held))
            and [*map(_dtype, self._tensors)] == self._dtypes
        )

    def _now(self) -> tuple[list[str], list[object]]:
        groups = [*chain.from_iterable(map(_groups, self._parts))]
        names = [*chain.from_iterable(groups)]
        return names, [*chain.from_iterable(map(_values, groups))]

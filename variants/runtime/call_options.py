"""What a call of a compiled layer asks for beside its result."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import is_wrapper
from hetune.variants.runtime.choice import check_demands


class CallOptions(NamedTuple):
    """What a call asks for; None where it leaves the choice to the layer.

    Attributes:
        variant: Id of what to run.
        memory_limit: Most bytes of a run.
        out: Where to write.
    """

    variant: str | None = None
    memory_limit: int | None = None
    out: Tensor | None = None

    @property
    def are_none(self) -> bool:
        """Whether nothing is asked for."""
        return self.variant is None and self.memory_limit is None and self.out is None

    def check(self) -> None:
        """Checks their kinds.

        Raises:
            InputError: The memory limit is no integer, or out is no tensor that has memory.
        """
        check_demands(self.memory_limit)
        if self.out is not None and (not isinstance(self.out, Tensor) or is_wrapper(self.out)):
            kind = type(self.out).__name__
            raise InputError(f"out is a {kind}: give a tensor that has memory")

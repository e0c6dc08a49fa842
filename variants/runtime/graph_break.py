"""Functions that `torch.compile` leaves out of its graphs: what they run is compiled already."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from torch._C._dynamo import eval_frame

P = ParamSpec("P")
R = TypeVar("R")


def outside_of_graphs(reason: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: as `torch.compiler.disable`, which would import the compiler, and wrap each call.

    Args:
        reason: What torch says where a break of the graph is an error.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        # What the compiler looks at where it meets a call.
        function._torchdynamo_disable = True  # type: ignore[attr-defined]
        function._torchdynamo_disable_msg = reason  # type: ignore[attr-defined]
        # The call then runs with the compiler at work: here, and in what is called from here, it
        # is not. A torch that has this no more costs speed alone.
        if hasattr(eval_frame, "set_code_exec_strategy"):
            skip = eval_frame._FrameAction.SKIP
            strategy = eval_frame._FrameExecStrategy(skip, skip)
            eval_frame.set_code_exec_strategy(function.__code__, strategy)
        return function

    return decorate


def caller() -> int:
    """The `stacklevel`, for a warning in the calling function, of the code that called a layer."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("torch", "hetune")

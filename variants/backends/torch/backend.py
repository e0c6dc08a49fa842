"""Launches run by the kernel interpreter."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from hetune.variants.backends.base import Place, Runner
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import Launch, Schedule


class TorchBackend:
    """Plain torch operators; the schedule makes no difference."""

    name = "torch"

    def bind(self, launch: Launch, schedule: Schedule, place: Place) -> Runner:
        """A runner over tensors of any float dtype."""

        def run(buffers: Mapping[str, Tensor]) -> None:
            interpret(launch, buffers, place.index, place.graph)

        return run

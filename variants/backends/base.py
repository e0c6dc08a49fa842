"""What every backend offers the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.nodes import Launch, Rows

Runner = Callable[[Mapping[str, Tensor]], bool | None]
"""Runs a launch once over the given buffers: contiguous tensors [rows, ...] by name.

Says whether a number outgrew float32 meanwhile; None: it cannot tell.
Under `SCRATCH` it finds memory for its scratch buffers, at least a share for each thread, and under
`TERMS` for the terms of sums into types.
"""

SCRATCH = "scratch memory"
"""Name of the scratch memory among the buffers of a run; no program has such a name."""

TERMS = "terms of sums"
"""Name of the memory that all threads have for sums into types; no program has such a name."""


class Place(Protocol):
    """What a launch is bound to: a graph, its groups of edge types, and their indexes."""

    @property
    def graph(self) -> HeteroGraph:
        """The graph."""
        ...

    def index(self, group: str) -> GraphIndex:
        """The index of a group's edges."""
        ...

    def count(self, rows: Rows) -> int:
        """Rows of a loop's domain."""
        ...


class Backend(Protocol):
    """Turns launches into something that runs."""

    @property
    def name(self) -> str:
        """Short and stable, e.g. ``"cpp"``."""
        ...

    @property
    def target(self) -> Device:
        """What its variants are made for."""
        ...

    def is_ready(self, launch: Launch, schedule: AnySchedule) -> bool:
        """Whether binding would compile nothing."""
        ...

    @property
    def schedule(self) -> AnySchedule | None:
        """By which it runs all launches, in place of their variants'; None: by theirs."""
        ...

    @property
    def indexes_on_device(self) -> bool:
        """Whether it walks a `DeviceIndex` on the tensors' device, rather than the CPU's."""
        ...

    @property
    def keeps_indexes(self) -> bool:
        """Whether what it has bound holds on to the indexes that it reads."""
        ...

    def refusal(self, device: torch.device) -> str:
        """Why it does not run on tensors of a device; "" if it does."""
        ...

    def bind(self, launch: Launch, schedule: AnySchedule, place: Place) -> Runner:
        """Makes a launch ready to run on a graph; compiles it if that was not done before.

        Raises:
            CompileError: The launch cannot be compiled here.
        """
        ...


def only_on_cpu(device: torch.device) -> str:
    """The `Backend.refusal` of those that know the CPU alone."""
    if device.type == "cpu":
        return ""
    return (
        f"features are on {device}: this backend runs on cpu; compile the module once it is on the "
        "GPU, or with backend='triton'"
    )

"""What the parts of lowering know of the program that is lowered."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol

from hetune.variants.kernel.device import Device
from hetune.variants.program.nodes import Let, Op, Program, Type


class Context(Protocol):
    """The program being lowered, and the buffers of its values."""

    program: Program
    types: Mapping[str, Type]
    ops: Mapping[str, Op]
    users: Mapping[str, tuple[Let, ...]]
    """The values that read a value."""
    given: Set[str]
    """Buffers that are there before the first kernel: parameters, weights, constants."""
    device: Device
    fuse_sums: bool
    """Whether a sum that only one product reads is computed in that product's kernel."""
    scatters: bool
    """Whether products of destination pairs add their rows up at nodes."""

    def only_user(self, name: str) -> bool:
        """Whether exactly one value reads ``name``, and the program does not return it."""
        ...

    def accumulates(self, name: str) -> bool:
        """Whether a node value is a sum that kernels add up in a buffer of its own."""
        ...

    def buffer(self, name: str) -> str:
        """The buffer that holds a value; emits the kernels that fill it, once."""
        ...

"""Which names of a launch's buffers are the same memory, and which kernels may change places.

Scratch tells by its name. What is no scratch may have a second name for another row shape of the
same width, of which a launch knows nothing. But nobody overwrites under one name what an earlier
kernel has read under another: plans fill a buffer before they read it.
"""

from __future__ import annotations

from collections.abc import Iterable

from hetune.variants.kernel.nodes import Buffer, Kernel, Launch
from hetune.variants.kernel.walk import touched, writes


def memory_of(buffer: str, launch: Launch) -> set[str]:
    """The names of a scratch buffer's memory; none if it is no scratch."""
    scratch = _buffer(buffer, launch).scratch
    return {b.name for b in launch.buffers if b.scratch == scratch} if scratch else set()


def names_of(buffer: str, launch: Launch) -> set[str]:
    """All names that are known to be a buffer's memory, its own among them."""
    return memory_of(buffer, launch) or {buffer}


def may_share(x: str, y: str, launch: Launch) -> bool:
    """Whether two names may be the same memory."""
    a, b = _buffer(x, launch), _buffer(y, launch)
    if x == y or a.scratch or b.scratch:
        return x == y or a.scratch == b.scratch
    of, other = a.type, b.type
    alike = (of.space, of.group, of.width) == (other.space, other.group, other.width)
    return alike and of.shape != other.shape


def independent(kernel: Kernel, other: Kernel, launch: Launch) -> bool:
    """Whether two kernels may change places: neither touches what the other writes."""
    written = [(w, t) for w in writes(kernel) for t in touched(other)]
    written += [(w, t) for w in writes(other) for t in touched(kernel)]
    return not any(may_share(*pair, launch) for pair in written)


def with_kernels(launch: Launch, kernels: Iterable[Kernel]) -> Launch:
    """The launch with other kernels, and the buffers that they name."""
    found = tuple(kernels)
    named = {name for kernel in found for name in touched(kernel)}
    return Launch(found, tuple(b for b in launch.buffers if b.name in named))


def _buffer(name: str, launch: Launch) -> Buffer:
    return next(b for b in launch.buffers if b.name == name)

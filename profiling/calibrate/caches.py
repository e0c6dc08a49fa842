"""Sizes of this machine's caches, as far as what the system tells is plausible."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from hetune.costmodel import system
from hetune.variants.runtime.roofline import MachineModel

_log = logging.getLogger(__name__)

_LEAST_OWN, _MOST_SHARED = 16 << 10, 4 << 30


@dataclass(frozen=True, slots=True)
class Caches:
    """Sizes in bytes.

    Attributes:
        own: The second level, or the first one where there is no other.
        shared: The last level.
    """

    own: int
    shared: int


DEFAULT = Caches(MachineModel().own_bytes, MachineModel().shared_bytes)
"""Where the system tells nothing plausible."""


def detect(root: Path = system.ROOT) -> Caches:
    """What the system says of the first processor's caches, or `DEFAULT`.

    Args:
        root: The root of the file system.
    """
    sizes = {name: size for name, size in system.read_caches(root) if name != "L1i"}
    own = sizes.get("L2", sizes.get("L1d", 0))
    shared = sizes[max(sizes)] if sizes else 0
    if not _LEAST_OWN <= own <= shared <= _MOST_SHARED:
        _log.info("took default sizes of caches: the system says %s", sizes or "nothing")
        return DEFAULT
    return Caches(own, shared)

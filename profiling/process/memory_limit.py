"""A bound on the memory of this process."""

from __future__ import annotations

import resource

import psutil


def limit_memory(nbytes: int) -> None:
    """Allocating more than that beside what is held now raises an error, where the system can."""
    held = int(psutil.Process().memory_info().vms)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = held + nbytes
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


def lift_memory_limit() -> None:
    """Takes the bound away: CUDA reserves more addresses than there is memory."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))

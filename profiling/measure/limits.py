"""How often, how long and in how much memory units are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import psutil
import torch

from hetune.costmodel.system import read_memory_limit
from hetune.variants.errors import CampaignError

LEAST_ROUNDS = 7
"""No median is taken of fewer runs than this."""

_MEMORY_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Limits:
    """What measuring may cost. A candidate gets at least `rounds` rounds or no times at all.

    Attributes:
        rounds: Rounds of every candidate of a problem.
        most_rounds: Rounds of candidates that are nearly as fast as the fastest, as far as the
            problem's seconds and their own reach.
        repeats: How many rounds of a problem may be repeated because the machine changed, as far
            as the seconds of all candidates reach.
        unit_seconds: Longest time for one candidate, all its runs together.
        problem_seconds: Time for the rounds of a problem; where it does not suffice, candidates
            much slower than the fastest are given up, the slowest first.
        setup_seconds: Longest time for a step before candidates run, such as making the graph.
        memory_bytes: Most that a problem may take; by default a share of what is free.
    """

    rounds: int = LEAST_ROUNDS
    most_rounds: int = 15
    repeats: int = 7
    unit_seconds: float = 30.0
    problem_seconds: float = 120.0
    setup_seconds: float = 600.0
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.rounds < LEAST_ROUNDS or self.most_rounds < self.rounds:
            raise CampaignError(
                f"rounds={self.rounds} and most_rounds={self.most_rounds}: take at least "
                f"{LEAST_ROUNDS}, and no fewer at most than at least"
            )
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "repeats" else 1e-9
            if value is not None and not least <= value < math.inf:
                raise CampaignError(f"{field.name}={value}: give a positive, finite number")


def usable_memory() -> int:
    """Bytes that a problem may take where no limit is given: 0.7 of what is free."""
    free = int(psutil.virtual_memory().available)
    limit = read_memory_limit()
    if limit is not None:
        free = min(free, limit - int(psutil.Process().memory_info().rss))
    return int(_MEMORY_SHARE * max(free, 0))


def usable_gpu_memory(device: torch.device) -> int:
    """Bytes of a GPU that a problem may take where no limit is given: 0.7 of what is free.

    What torch's allocator keeps, and nobody uses, is free.
    """
    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(_MEMORY_SHARE * (free + kept))

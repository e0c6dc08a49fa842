"""What the service accepts and holds at most."""

from __future__ import annotations

from dataclasses import dataclass, field

import psutil

from hetune.costmodel.system import read_memory_limit
from hetune.variants.errors import TooLargeError


def _share_of_memory(parts: int) -> int:
    """Of what the process may have: a container's limit, or the machine's memory."""
    total = int(psutil.virtual_memory().total)
    return min(total, read_memory_limit() or total) // parts


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Checked before memory is taken.

    Attributes:
        json_bytes: Of a request's body in JSON, which takes several times as much when read.
        json_elements: Numbers in an answer in JSON.
        body_bytes: Of a request's body in safetensors.
        body_seconds: Until a request's body has to be there.
        nodes: Of a graph.
        edges: Of a graph.
        types: Of a graph's nodes, and of its edges.
        run_bytes: What temporaries, scratch and result of each layer's run may take, and apart from
            that what a request's features and outputs may; half of the memory there is.
        loaded_bytes: Graphs held in memory, by estimate; a quarter of the memory there is.
        feature_bytes: Features of graphs held in memory; an eighth of the memory there is.
        stored_bytes: Graphs and their features held on disk.
        device_bytes: Held on a GPU; nine tenths of its memory if None.
        waiting: Computations that wait or run at the same time.
        waiting_bytes: Bodies that are received, or whose requests wait or run, together; a quarter
            of the memory there is.
        uploads: Uploads that are worked on at the same time; on disk there are as many bytes of
            others, at most, as so many bodies may have.
    """

    json_bytes: int = 8 << 20
    json_elements: int = 1_000_000
    body_bytes: int = 1 << 30
    body_seconds: float = 120.0
    nodes: int = 50_000_000
    edges: int = 500_000_000
    types: int = 100_000
    run_bytes: int = field(default_factory=lambda: _share_of_memory(2))
    loaded_bytes: int = field(default_factory=lambda: _share_of_memory(4))
    feature_bytes: int = field(default_factory=lambda: _share_of_memory(8))
    stored_bytes: int = 16 << 30
    device_bytes: int | None = None
    waiting: int = 64
    waiting_bytes: int = field(default_factory=lambda: _share_of_memory(4))
    uploads: int = 4


def check_limit(what: str, value: float, limit: int) -> None:
    """Checks that a number is within a limit.

    Raises:
        TooLargeError: It is not.
    """
    if value > limit:
        raise TooLargeError(f"{value} {what} are more than the {limit} that this service allows")

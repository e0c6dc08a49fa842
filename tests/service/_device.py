"""A device that is none: it copies as one does, and notes what is asked of it."""

import torch

from hetune.service.core.models.device import ComputeDevice, Usage


class RecordedDevice(ComputeDevice):
    """On the CPU, where everything is copied all the same.

    Args:
        total: Bytes that it has.

    Attributes:
        said: What was asked of it, in order.
        fetched: Where the rows lie that came back from it.
        gone: Whether it gives no sign of life.
    """

    is_host = False

    def __init__(self, total: int = 12 << 20) -> None:
        self.total = total
        self.said: list[str] = []
        self.fetched: set[int] = set()
        self.gone = False
        self._seconds = 0.0

    def put(self, rows):
        self.said.append("put")
        return rows.clone()

    def place(self, graph):
        self.said.append("place")
        return graph.unindexed()

    def fetch(self, rows):
        self.said.append("fetch")
        copy = rows.clone()
        self.fetched.add(copy.untyped_storage().data_ptr())
        return copy

    def now(self):
        """A second passes between two looks."""
        self._seconds += 1
        return self._seconds

    def usage(self):
        return Usage(held=1, reserved=2, total=self.total)

    def release(self):
        self.said.append("release")

    def check(self):
        if self.gone:
            raise torch.AcceleratorError("CUDA error: it has fallen off the bus\nmore")

    def holds(self, answer):
        """Whether all rows of an answer came back from it."""
        parts = []
        for rows in answer.outputs.values():
            parts += [rows] if isinstance(rows, torch.Tensor) else rows.values()
        return {part.untyped_storage().data_ptr() for part in parts} <= self.fetched

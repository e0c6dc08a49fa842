"""A made-up GPU, as far as events tell of it."""

from __future__ import annotations

from hetune.profiling.measure.stopwatch import CudaStopwatch


class FakeGpu:
    """Does what it is given at once, and notes what is asked of it.

    Attributes:
        now_ms: What its events note when they are recorded.
        said: What was asked, in order: "flush", "wait", "record", "synchronize", and what a test
            adds.
    """

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.said: list[str] = []

    def work(self, milliseconds: float) -> None:
        """Something that takes so long."""
        self.said.append("work")
        self.now_ms += milliseconds

    def event(self) -> FakeEvent:
        """An event, not recorded yet."""
        return FakeEvent(self)

    def stopwatch(self) -> CudaStopwatch:
        """Times by the card's events."""
        return CudaStopwatch(
            self.event, lambda: self.said.append("wait"), lambda: self.said.append("flush")
        )


class FakeEvent:
    """As `torch.cuda.Event`."""

    def __init__(self, card: FakeGpu) -> None:
        self._card = card
        self._at_ms = 0.0

    def record(self) -> None:
        """Notes the card's time."""
        self._card.said.append("record")
        self._at_ms = self._card.now_ms

    def synchronize(self) -> None:
        """Waits for nothing."""
        self._card.said.append("synchronize")

    def elapsed_time(self, end: FakeEvent) -> float:
        """Milliseconds until another event."""
        return end._at_ms - self._at_ms

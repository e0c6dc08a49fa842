"""Where work is done: beside the event loop, and no more of it at a time than is allowed."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Self, TypeVar

from fastapi import Request

from hetune.profiling.jobs.activity import Activity
from hetune.service.core.brief import Experience, Times
from hetune.service.core.deadline import check_deadline, missed
from hetune.service.core.service import Service
from hetune.service.core.steps import waited
from hetune.service.http.asgi import UNDER_WAY
from hetune.service.http.computer import Computer
from hetune.service.http.gate import Gate

T = TypeVar("T")
_CHANGING = 2
_WATCHING = 32
_ASKING = 8
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Work:
    """What routes need.

    Attributes:
        service: What they serve.
        experience: How long its requests took.
        computing: Entered before a computation's request is read.
        uploading: Entered before an upload is read.
        changing: Entered before jobs are submitted, and cost models judged.
        watching: Entered while events are sent.
        stopping: Set when the service is told to stop.
        activity: Tells the worker of jobs that something is computed; None if there is none.
    """

    service: Service
    experience: Experience
    computing: Gate
    uploading: Gate
    changing: Gate
    watching: Gate
    stopping: threading.Event
    activity: Activity | None
    _computer: Computer
    _asking: ThreadPoolExecutor

    @classmethod
    def of(
        cls,
        service: Service,
        stopping: threading.Event | None = None,
        activity: Activity | None = None,
    ) -> Self:
        """One computation at a time, for its kernels use all threads.

        Args:
            service: What routes serve.
            stopping: Set by whoever ends the service: streams end then.
            activity: Marked while something is computed.
        """
        length, limits = service.metrics.queue_length, service.limits
        computing = Gate(
            "computations",
            limits.waiting,
            length,
            limits.waiting_bytes,
            most_kept=limits.run_bytes,
            in_crowds=max(1, limits.waiting // 2),
        )
        return cls(
            service,
            Experience(service),
            computing,
            Gate("uploads", service.limits.uploads, length),
            Gate("changes of jobs and cost models", _CHANGING, length),
            Gate("streams of events", _WATCHING, length),
            stopping or threading.Event(),
            activity,
            Computer(),
            ThreadPoolExecutor(_ASKING, "hetune-database"),
        )

    def is_idle_for(self, request: Request) -> bool:
        """Whether nothing is computed, or waits for it, and no other request has come.

        Where many come, the loop has to read and refuse; and who computes beside it uses a core
        that it does not.
        """
        others = len(request.scope.get("state", {}).get(UNDER_WAY, ())) - self.watching.inside
        return self._computer.is_idle and others <= 1

    async def compute(
        self, do: Callable[[], T], deadline: float | None = None, times: Times | None = None
    ) -> T:
        """Does something in the thread that computes, or here if that is known to be brief.

        Args:
            do: What; once begun it is waited for.
            deadline: Time of `time.monotonic()` until which it has to be begun.
            times: Of the same, as it was done before; None for what is not done here.

        Raises:
            DeadlineError: It was not.
            NotReadyError: Kernels cannot be compiled.
        """
        if times is not None and times.are_brief and self._computer.is_idle:
            check_deadline(deadline)
            return self._begun(do, time.perf_counter(), times)
        if not self.service.warm_up.is_prepared:
            await self._until_prepared()
        asked = time.perf_counter()
        task = self._computer.submit(lambda: self._begun(do, asked, times))
        doing = asyncio.wrap_future(task)
        if deadline is not None:
            await asyncio.wait((doing,), timeout=max(deadline - time.monotonic(), 0.0))
            if task.cancel():
                raise missed()
        return await doing

    async def _until_prepared(self) -> None:
        """Waits while the service compiles what every run needs."""
        warm_up = self.service.warm_up
        while not warm_up.is_prepared:
            warm_up.check_prepared()
            await asyncio.sleep(_LOOK_SECONDS)

    async def aside(self, do: Callable[[], T]) -> T:
        """Does something in a thread of its own, beside computations."""
        return await asyncio.to_thread(self._marked, do)

    async def ask(self, do: Callable[[], T]) -> T:
        """Asks the database, in threads for that alone: where it hangs, nothing else does."""
        run, watched = contextvars.copy_context().run, self.service.measurements.outage.watched
        return await asyncio.get_running_loop().run_in_executor(self._asking, run, watched, do)

    async def change(self, do: Callable[[], T]) -> T:
        """Changes what is in the database, beside computations."""
        return await self.ask(lambda: self._marked(do))

    def is_quiet(self) -> bool:
        """Whether nobody waits for a computation or an upload, and the service is not stopping."""
        inside = self.computing.inside + self.uploading.inside
        return inside == 0 and not self.stopping.is_set()

    async def between(self, do: Callable[[], T]) -> T:
        """Does something that nobody waits for in the thread that computes."""
        return await asyncio.wrap_future(self._computer.submit(lambda: self._marked(do)))

    def close(self) -> None:
        """Begins nothing more. What is under way is not waited for."""
        self.stopping.set()
        self._computer.close()
        self._asking.shutdown(wait=False, cancel_futures=True)
        self.service.close()

    def _begun(self, do: Callable[[], T], asked: float, times: Times | None) -> T:
        begun = time.perf_counter()
        self.service.metrics.queue_seconds.observe(begun - asked)
        waited("queue", begun - asked)
        found = self._marked(do)
        if times is not None:
            times.note(time.perf_counter() - begun)
        return found

    def _marked(self, do: Callable[[], T]) -> T:
        with nullcontext() if self.activity is None else self.activity.marked():
            return do()

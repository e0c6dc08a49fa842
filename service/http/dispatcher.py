"""Where work is done: beside the event loop, and no more of it at a time than is allowed."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Self, TypeVar

from fastapi import Request

from hetune.profiling.workers.activity import Activity
from hetune.service.core.formats.container import Content
from hetune.service.core.inference.deadline import missed
from hetune.service.core.inference.steps import waited
from hetune.service.core.service import Service
from hetune.service.http.body import Media, Upload, chunks, limit_of, media_of, read
from hetune.service.http.gate import Gate
from hetune.service.http.receiving import Bodies

T = TypeVar("T")
_CHANGING = 2
_WATCHING = 32
_DATABASE_THREADS = 8
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """What routes need.

    Attributes:
        service: What they serve.
        bodies: Of requests, in memory.
        staged: Of uploads, on disk.
        computing: Entered when a computation's request is there.
        uploading: Entered when an upload is there.
        changing: Entered when jobs are submitted, and cost models judged.
        watching: Entered while events are sent.
        stopping: Set when the service is told to stop.
        activity: Tells the worker of jobs that something is computed; None if there is none.
    """

    service: Service
    bodies: Bodies
    staged: Bodies
    computing: Gate
    uploading: Gate
    changing: Gate
    watching: Gate
    stopping: threading.Event
    activity: Activity | None
    _computing: ThreadPoolExecutor
    _database: ThreadPoolExecutor

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
            most_kept=limits.run_bytes,
            in_crowds=max(1, limits.waiting // 2),
        )
        return cls(
            service,
            Bodies("bodies of requests", limits.waiting_bytes),
            Bodies("uploads", max(limits.uploads, 1) * limits.body_bytes),
            computing,
            Gate("uploads", service.limits.uploads, length),
            Gate("changes of jobs and cost models", _CHANGING, length),
            Gate("streams of events", _WATCHING, length),
            stopping or threading.Event(),
            activity,
            ThreadPoolExecutor(1, "hetune-compute"),
            ThreadPoolExecutor(_DATABASE_THREADS, "hetune-database"),
        )

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[Content]:
        """A body in memory, of so many bytes at most, which counts as long as the block lasts.

        Raises:
            TooLargeError: It has more.
            BusyError: Other bodies hold too much.
            HTTPException: It comes too slowly (408).
        """
        with self.bodies.held() as held:
            yield await read(request, held, most, self.service.limits)

    @asynccontextmanager
    async def received(self, request: Request, most: int) -> AsyncIterator[Content]:
        """A body, as `body` gives it, and a place among computations as long as the block lasts.

        Raises:
            BusyError: Other bodies hold too much, or as many computations wait as may.
            TooLargeError: It has more.
            HTTPException: It comes too slowly (408).
        """
        self.computing.check()
        with self.bodies.held() as held:
            body = await read(request, held, most, self.service.limits)
            with self.computing.entered():
                yield body

    @asynccontextmanager
    async def uploaded(self, request: Request, *allowed: Media) -> AsyncIterator[Upload]:
        """A body in a file, and a place among uploads as long as the block lasts.

        Raises:
            TooLargeError: It is over the limit of its type.
            BusyError: As many uploads are under way as may be, or others hold too much.
            HTTPException: Its type is none of those allowed (415), or it comes too slowly (408).
            FolderError: It cannot be written.
        """
        self.uploading.check()
        media, limits = media_of(request, *allowed), self.service.limits
        with self.service.folder.staged() as path, self.staged.held() as held:
            with path.open("xb") as file:
                path.chmod(0o600)
                async for chunk in chunks(request, held, limit_of(media, limits), limits):
                    await asyncio.to_thread(file.write, chunk)
            async with self.uploading.turn():
                yield Upload(media, path)

    async def compute(self, do: Callable[[], T], deadline: float | None = None) -> T:
        """Does something in the thread that computes.

        Args:
            do: What; once begun it is waited for.
            deadline: Time of `time.monotonic()` until which it has to be begun.

        Raises:
            DeadlineError: It was not.
            NotReadyError: Kernels cannot be compiled.
        """
        if not self.service.warm_up.is_prepared:
            await self._until_prepared()
        asked = time.perf_counter()
        context = contextvars.copy_context()
        task = self._computing.submit(context.run, self._begun, do, asked)
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

    async def in_thread(self, do: Callable[[], T]) -> T:
        """Does something in a thread of its own, beside computations."""
        return await asyncio.to_thread(self._busy, do)

    async def in_database(self, do: Callable[[], T]) -> T:
        """Asks the database, in threads for that alone: where it hangs, nothing else does."""
        run, watched = contextvars.copy_context().run, self.service.measurements.outage.watched
        return await asyncio.get_running_loop().run_in_executor(self._database, run, watched, do)

    async def change_in_database(self, do: Callable[[], T]) -> T:
        """Changes what is in the database, beside computations."""
        return await self.in_database(lambda: self._busy(do))

    def is_idle(self) -> bool:
        """Whether nothing is computed or uploaded, runs in parts included, or about to stop."""
        inside = self.computing.inside + self.uploading.inside + self.service.runs.is_performing
        return inside == 0 and not self.stopping.is_set()

    async def compute_in_background(self, do: Callable[[], T]) -> T:
        """Does something that nobody waits for in the thread that computes."""
        return await asyncio.wrap_future(self._computing.submit(self._busy, do))

    def compute_from_thread(self, do: Callable[[], T]) -> T:
        """As `compute_in_background`, for a thread beside the event loop, which waits."""
        return self._computing.submit(self._busy, do).result()

    def close(self) -> None:
        """Begins nothing more. What is under way is not waited for."""
        self.stopping.set()
        self._computing.shutdown(wait=False, cancel_futures=True)
        self._database.shutdown(wait=False, cancel_futures=True)
        self.service.close()

    def _begun(self, do: Callable[[], T], asked: float) -> T:
        begun = time.perf_counter()
        self.service.metrics.queue_seconds.observe(begun - asked)
        waited("queue", begun - asked)
        with self._marked():
            return do()

    def _busy(self, do: Callable[[], T]) -> T:
        with self._marked():
            return do()

    def _marked(self) -> AbstractContextManager[None]:
        return nullcontext() if self.activity is None else self.activity.marked()

"""The application on a socket, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import uvicorn

from hetune.service.http.asgi import App
from hetune.service.server.connections import READ_BYTES, BufferedConnection
from hetune.variants.errors import InputError

_BACKLOG = 128
_CONNECTIONS = 256
_LOOK_SECONDS = 0.1
_IDLE_SECONDS = 0.5
"""Until threads that have nothing to do have ended."""
_SWITCH_SECONDS = 5e-4
"""The thread that computes gives the interpreter away in every kernel. By default it would get it
back only after up to 5 ms of the event loop's work, each time."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        InputError: The address cannot be had.
    """
    if not 0 <= port < 1 << 16:
        raise InputError(f"{port} is no port: take one from 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot listen on {host} port {port} ({error}): name another --host or --port"
        ) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """The URL of a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn's, that ends in order on SIGINT and SIGTERM: what has begun is finished.

    Args:
        app: What to serve.
        grace: Seconds that requests under way have to finish.
        stopping: Set when it begins to stop, so that streams end and requests are refused.
    """

    def __init__(
        self, app: App, grace: float = 30.0, stopping: threading.Event | None = None
    ) -> None:
        self._stopping = stopping or threading.Event()
        self._grace = int(grace)
        buffer = memoryview(bytearray(READ_BYTES))
        super().__init__(
            uvicorn.Config(
                app,
                # Whatever others are installed: they have no limit on the size of a head.
                http=partial(BufferedConnection, buffer),  # type: ignore[arg-type]  # it asks for a class
                ws="none",
                access_log=False,
                log_config=None,  # its lines go where the process's go
                log_level="warning",
                server_header=False,
                # Of proxies that FORWARDED_ALLOW_IPS names, this machine's by default: whether a
                # browser came over TLS, and from where.
                proxy_headers=True,
                limit_concurrency=_CONNECTIONS,
                timeout_graceful_shutdown=self._grace,
                lifespan="on",
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends in order: what has begun is finished, while what comes is refused."""
        self._stopping.set()
        begun = asyncio.get_running_loop().time()
        await self._finish(set(self.server_state.tasks))
        spent = int(asyncio.get_running_loop().time() - begun)
        self.config.timeout_graceful_shutdown = max(self._grace - spent, 1)
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves the application as it is then
            await self.lifespan.shutdown()

    async def _finish(self, tasks: set[asyncio.Task[None]]) -> None:
        end = asyncio.get_running_loop().time() + self._grace
        while tasks and not self.force_exit and asyncio.get_running_loop().time() < end:
            _, tasks = await asyncio.wait(tasks, timeout=_LOOK_SECONDS)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to `run_until_told`: uvicorn's own would kill the process afterwards."""
        yield


def run_until_told(
    server: Server, listener: socket.socket, started: Callable[[], None] = lambda: None
) -> None:
    """Serves until SIGINT or SIGTERM; a second one does not wait for requests under way.

    Threads may be at work still when it returns. A further signal ends the process at once.

    Args:
        server: What runs.
        listener: Where it listens.
        started: Called once it answers.
    """

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(_Threads())
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop)
        running = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not running.done():
            await asyncio.sleep(0.01)
        if server.started:
            # What is there now stays: the collector need not look at it again and again.
            gc.collect()
            gc.freeze()
            started()
        await running

    sys.setswitchinterval(_SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as SIGTERM is now


def leave_threads() -> None:
    """Ends the process here if threads are at work still: the interpreter would wait for them.

    Nobody else does. Files are published by renaming, so that none is torn.
    """
    end = time.monotonic() + _IDLE_SECONDS
    others = [t for t in threading.enumerate() if t is not threading.current_thread()]
    for thread in others:
        if not thread.daemon:
            thread.join(max(end - time.monotonic(), 0.0))
    if any(thread.is_alive() and not thread.daemon for thread in others):
        logging.shutdown()
        os._exit(0)


class _Threads(ThreadPoolExecutor):
    """Those of the event loop, which does not wait for them in the end."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Begins nothing more."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop where there is one, for it takes less time for each event."""
    try:
        import uvloop
    except ModuleNotFoundError:  # it has no wheels for Windows
        return None
    return uvloop.new_event_loop

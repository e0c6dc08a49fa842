"""The load of `service.py`, in a process of its own: plain HTTP/1.1 over asyncio's transports.

A library's client would take more of a core than the server that it measures. What is asked comes
as JSON on standard input, what was answered goes as JSON to standard output.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

_STATUS = slice(9, 12)
_OK = 200
_BUSY = 429


@dataclass(frozen=True, slots=True)
class Shot:
    """What is asked.

    Attributes:
        url: Whom; a POST.
        body: File of the body.
        headers: Beside those of every request.
        seconds: For how long.
        clients: That each ask again once they are answered, or connections there are. Who is
            refused comes back with the same when the answer says.
        rate: Requests a second, at times of their own whoever has been answered; None for clients
            that wait for their answers.
    """

    url: str
    body: str
    headers: dict[str, str]
    seconds: float
    clients: int
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What was answered.

    Attributes:
        seconds: From the first request to the last answer.
        times: Seconds of each answer with status 200, from when it was first due to be asked for,
            or from when it was, should a timer have fired before that.
        busy_times: Seconds of each answer with status 429.
        without_retry_after: How many of those did not say when to come back.
        others: Other statuses, and failed connections (0), by how often they came.
        unsent: Requests that were due while all connections were in use.
    """

    seconds: float
    times: list[float]
    busy_times: list[float]
    without_retry_after: int
    others: dict[str, int]
    unsent: int


def shoot(shot: Shot) -> Report:
    """Sends a load from a process of its own, and waits for what was answered."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(asdict(shot)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=shot.seconds + 120,
    )
    return Report(**json.loads(done.stdout))


class _Load:
    def __init__(self, shot: Shot) -> None:
        self._shot = shot
        split = urlsplit(shot.url)
        assert split.hostname is not None
        self._address = split.hostname, split.port
        body = Path(shot.body).read_bytes()
        lines = {"Host": split.netloc, "Content-Length": str(len(body)), **shot.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._request = f"POST {split.path} HTTP/1.1\r\n{head}\r\n".encode() + body
        self._times: list[float] = []
        self._busy: list[float] = []
        self._without = self._unsent = 0
        self._others: dict[str, int] = {}

    async def run(self) -> Report:
        start = time.perf_counter()
        await (self._closed() if self._shot.rate is None else self._open(self._shot.rate))
        return Report(
            time.perf_counter() - start,
            self._times,
            self._busy,
            self._without,
            self._others,
            self._unsent,
        )

    async def _closed(self) -> None:
        end = time.perf_counter() + self._shot.seconds

        async def client() -> None:
            connection = _Connection(self._address)
            due: float | None = None
            while (now := time.perf_counter()) < end:
                due = due or now
                pause = await self._ask(connection, due)
                if pause is None:
                    due = None
                else:
                    await asyncio.sleep(min(pause, max(end - time.perf_counter(), 0)))
            connection.close()

        await asyncio.gather(*(client() for _ in range(self._shot.clients)))

    async def _open(self, rate: float) -> None:
        draw = random.Random(0)
        idle = deque(_Connection(self._address) for _ in range(self._shot.clients))
        asked: set[asyncio.Task[None]] = set()
        start = due = time.perf_counter()

        async def ask(connection: _Connection, due: float) -> None:
            await self._ask(connection, due)
            idle.append(connection)

        while (due := due + draw.expovariate(rate)) < start + self._shot.seconds:
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            if not idle:
                self._unsent += 1
                continue
            task = asyncio.ensure_future(ask(idle.popleft(), due))
            asked.add(task)
            task.add_done_callback(asked.discard)
        await asyncio.gather(*asked)
        for connection in idle:
            connection.close()

    async def _ask(self, connection: "_Connection", due: float) -> float | None:
        """Seconds after which to come back, if it is refused."""
        due = min(due, time.perf_counter())  # uvloop's timers fire up to half a millisecond early
        try:
            status, head = await connection.ask(self._request)
        except OSError:
            connection.close()
            status, head = 0, b""
        seconds = time.perf_counter() - due
        if status == _OK:
            self._times.append(seconds)
        elif status == _BUSY:
            self._busy.append(seconds)
            pause = head.partition(b"retry-after:")[2].partition(b"\r\n")[0]
            self._without += not pause
            return float(pause or 1)
        else:
            self._others[str(status)] = self._others.get(str(status), 0) + 1
        return None


class _Connection(asyncio.Protocol):
    """One request at a time. Of an answer the head is read, and the body counted."""

    def __init__(self, address: tuple[str, int | None]) -> None:
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._head, self._left = b"", 0

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        if self._transport is None:
            self._transport, _ = await loop.create_connection(lambda: self, *self._address)
        self._answer, self._head, self._left = loop.create_future(), b"", -1
        self._transport.write(request)
        status, head = await self._answer
        if b"connection: close" in head:
            self.close()
        return status, head

    def data_received(self, data: bytes) -> None:
        if self._left < 0:  # the head is not whole
            self._head += data
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            self._head, data = head.lower(), body
            self._left = int(self._head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        self._left -= len(data)
        if self._left <= 0 and self._answer is not None and not self._answer.done():
            self._answer.set_result((int(self._head[_STATUS]), self._head))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("closed by the service"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._transport = None


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        json.dump(asdict(runner.run(_Load(Shot(**json.load(sys.stdin))).run())), sys.stdout)

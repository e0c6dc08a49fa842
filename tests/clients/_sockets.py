"""A server that does with its connections what a test says, byte by byte."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

SECONDS = 60


@dataclass
class Played:
    """A server that plays.

    Attributes:
        url: Where it is.
        heads: Of the requests that `heard` has read.
        connections: That it has accepted.
    """

    url: str
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0

    def heard(self, peer: socket.socket) -> bytes | None:
        """The body of the next request; None where there is none to come."""
        got = b""
        while b"\r\n\r\n" not in got:
            more = peer.recv(1 << 16)
            if not more:
                return None
            got += more
        head, _, body = got.partition(b"\r\n\r\n")
        self.heads.append(head)
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        content = bytearray(body)
        while len(content) < length:
            more = peer.recv(1 << 20)
            if not more:
                return None
            content += more
        return bytes(content)


@contextmanager
def playing(talk: Callable[[Played, socket.socket], None]) -> Iterator[Played]:
    """A server each of whose connections is talked to in a thread, and closed in the end."""
    peers: list[tuple[threading.Thread, socket.socket]] = []

    def meet(peer: socket.socket) -> None:
        with peer, suppress(OSError):
            peer.settimeout(SECONDS)
            talk(played, peer)

    def accept() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                played.connections += 1
                peers.append((threading.Thread(target=meet, args=(peer,)), peer))
                peers[-1][0].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        played = Played(f"http://127.0.0.1:{listener.getsockname()[1]}")
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield played
        finally:
            _hang_up(listener)
            accepting.join(SECONDS)
            for thread, peer in peers:
                _hang_up(peer)
                thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in (accepting, *(thread for thread, _ in peers)))


@contextmanager
def refusing() -> Iterator[str]:
    """The URL of a port where nobody listens, and which nobody else can get meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def _hang_up(peer: socket.socket) -> None:
    with suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)


def answering(*answers: bytes) -> Callable[[Played, socket.socket], None]:
    """Gives each request of a connection the next of these answers, then hangs up."""

    def talk(played: Played, peer: socket.socket) -> None:
        for answer in answers:
            if played.heard(peer) is None:
                return
            peer.sendall(answer)

    return talk


def echo(played: Played, peer: socket.socket) -> None:
    """Gives each request's body back."""
    while (body := played.heard(peer)) is not None:
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        peer.sendall(body)

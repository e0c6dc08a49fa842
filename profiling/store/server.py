"""Connections to PostgreSQL that wait for no answer without bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
_CONNECT_SECONDS = 5.0
_PING_SECONDS = 2.0
_GRACE_SECONDS = 1.0
"""How much longer than the server the client waits: the server's word says more."""


def server_engine(url: URL, seconds: float) -> Engine:
    """An engine for a server; options in its URL go before those that are set here.

    The server ends statements, and waits for locks, that take longer. A server that does not
    answer is hung up on: one that was stopped keeps its limits no more than its promises.

    Args:
        url: With the driver psycopg.
        seconds: The longest that a statement may take.

    Raises:
        ImportError: The driver is not installed.
    """
    given = url.query
    limit = max(1, round(1000 * seconds))
    limits = f"-c statement_timeout={limit} -c lock_timeout={limit}"
    own = given.get("options", "")
    arguments: dict[str, Any] = {
        "client_encoding": "utf8",
        "connect_timeout": max(1, round(min(seconds, _CONNECT_SECONDS))),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": limit,
    }
    arguments = {name: value for name, value in arguments.items() if name not in given}
    arguments["options"] = " ".join([limits, *((own,) if isinstance(own, str) else own)]).strip()
    engine = create_engine(url, connect_args=arguments, hide_parameters=True, pool_timeout=seconds)
    connect = _bounded(seconds + _GRACE_SECONDS)
    event.listen(engine, "do_connect", lambda _d, _r, _args, given: connect(**given))
    event.listen(engine, "checkout", _ping)
    return engine


def _bounded(seconds: float) -> Callable[..., psycopg.Connection[Any]]:
    """Connects; each answer on the connection has to come within so many seconds."""
    import psycopg  # an extra

    class Bounded(psycopg.Connection[Any]):
        """Closes itself when an answer does not come, or nobody waits for it any more."""

        seconds_left = seconds

        def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
            try:
                return super().wait(_until(gen, self.seconds_left), *arguments, **options)
            except (TimeoutError, KeyboardInterrupt) as error:
                self.pgconn.finish()
                if isinstance(error, KeyboardInterrupt):
                    raise
                raise psycopg.OperationalError(str(error)) from None

        def _try_cancel(self, **_: Any) -> None:
            """Not on Ctrl-C, for that is an answer to wait for, too: `wait` closes it."""
            raise KeyboardInterrupt

    return Bounded.connect


def _until(steps: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """The same steps, until so many seconds are over; the driver looks in several times in each.

    Raises:
        TimeoutError: They are.
    """
    end = time.monotonic() + seconds
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                raise TimeoutError(f"the server has not answered for {seconds:g} s")
            wanted = steps.send(ready)
    except StopIteration as last:
        found: T = last.value
        return found


def _ping(connection: Any, *_: Any) -> None:
    """Looks whether a connection is alive before it is used; else all of the pool are replaced."""
    usual = connection.seconds_left
    connection.seconds_left = min(usual, _PING_SECONDS)
    try:
        connection.execute("SELECT 1")
        connection.rollback()
    except Exception as error:
        raise InvalidatePoolError(str(error)) from error
    finally:
        connection.seconds_left = usual

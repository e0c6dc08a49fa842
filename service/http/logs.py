"""Lines of the log: as JSON or as text, each with the id of the request that it belongs to."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

FIELDS = ("method", "route", "status", "seconds", "bytes", "failure", "key")
"""What the line about a request has beside its message, in JSON."""
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Of the request that is being worked on; also in threads that work for it."""


class LogStyle(StrEnum):
    """How lines are written."""

    json = "json"
    text = "text"


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        found: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (id := request_id.get()) is not None:
            found["request_id"] = id
        found |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


class TextFormatter(logging.Formatter):
    """One line for a reader, and the lines of its exception. No message can begin a new line."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as text."""
        message = record.getMessage()
        if not message.isprintable():
            message = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
        id = request_id.get()
        whose = "" if id is None else f" [{id}]"
        line = f"{_time(record)} {record.levelname}{whose} {record.name}: {message}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(style: LogStyle) -> None:
    """Sends the process's log to standard error, warnings included, in place of what was set up."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style is LogStyle.json else TextFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    logging.captureWarnings(True)
    # Nothing that no line has is found out for each of them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    own = logging.getLogger("hetune")
    if own.level == logging.NOTSET:
        own.setLevel(logging.INFO)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

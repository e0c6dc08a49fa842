"""The log of a service, as what reads it in production would."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hetune.service.http.logs import JsonFormatter


class Log:
    """What was logged.

    Attributes:
        text: As it was written.
    """

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.handler = logging.StreamHandler(self._stream)
        self.handler.setFormatter(JsonFormatter())

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def requests(self) -> list[dict]:
        """The lines about requests."""
        return [line for line in self.lines if line["logger"] == "hetune.access"]


@contextmanager
def logged(level: int = logging.DEBUG) -> Iterator[Log]:
    """Collects what hetune and its server log. It is complete once the server has ended."""
    log, loggers = Log(), [logging.getLogger(name) for name in ("hetune", "uvicorn")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(log.handler)
        logger.setLevel(level)
    try:
        yield log
    finally:
        for logger, before in zip(loggers, levels, strict=True):
            logger.removeHandler(log.handler)
            logger.setLevel(before)

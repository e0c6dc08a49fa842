"""The command line called in-process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from typer.testing import CliRunner, Result

from hetune.clients.cli.app import app


def call(*arguments: object, typed: str | None = None) -> Result:
    """What a command answers: exit_code, stdout and stderr."""
    with _set_back():
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed)


@contextmanager
def _set_back() -> Iterator[None]:
    """What a command sets in its process is as before: where logs go to, and threads."""
    root, own = logging.getLogger(), logging.getLogger("hetune")
    handlers, level = root.handlers[:], own.level
    threads = torch.get_num_threads()
    whence = logging.logThreads, logging.logProcesses, logging.logMultiprocessing
    try:
        yield
    finally:
        root.handlers[:] = handlers
        own.setLevel(level)
        logging.captureWarnings(False)
        logging.logThreads, logging.logProcesses, logging.logMultiprocessing = whence
        torch.set_num_threads(threads)

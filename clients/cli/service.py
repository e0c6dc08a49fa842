"""The service that commands of `hetune remote` speak to, and what they send it."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from torch import Tensor

from hetune.clients.cli.files import read_arrays
from hetune.variants.errors import InputError

if TYPE_CHECKING:
    from hetune.clients import Client

URL = "http://127.0.0.1:8000"
Url = Annotated[
    str | None,
    typer.Option(help=f"Of the service; also before the command. By default HETUNE_URL, or {URL}."),
]
_given = ContextVar("url", default=URL)


def remember(
    url: Annotated[str, typer.Option(envvar="HETUNE_URL", help="Of the service.")] = URL,
) -> None:
    """Keeps what was given before the command, for `connected`."""
    _given.set(url)


def remember_here(url: Url = None) -> None:
    """Keeps what was given before a command of a group, if anything was."""
    if url is not None:
        _given.set(url)


def connected(url: str | None) -> Client:
    """A client of the service.

    Args:
        url: As it was given behind the command; if None, what `remember` was given.

    Raises:
        InputError: The URL is none, or the extra is missing.
    """
    try:
        from hetune.clients import Client
    except ImportError as error:
        raise InputError(str(error)) from error
    return Client(url or _given.get())


def read_features(path: Path) -> Tensor | dict[str, Tensor]:
    """The features of a file as float32: one array, or one for each node type.

    Raises:
        InputError: It cannot be read, or holds something else.
    """
    arrays = {name: rows.float() for name, rows in read_arrays(path).items()}
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays

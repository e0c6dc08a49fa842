"""`hetune keys`: who may use a service, and for what."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hetune.clients.cli import console
from hetune.clients.cli.options import importing_the_service
from hetune.clients.cli.serve import Config, Data
from hetune.service.core.keys.scopes import KeyScope
from hetune.variants.errors import InputError

if TYPE_CHECKING:
    from hetune.service.core.keys.keys import Keys

_LIFETIME = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

app = typer.Typer(
    no_args_is_help=True,
    help="Make, list and revoke the keys of a service; one that runs need not be started again.",
)


@app.command("create")
def create(
    scope: Annotated[list[KeyScope], typer.Option(help="What it is for; may be given repeatedly.")],
    name: Annotated[str, typer.Option(help="What lists and the service's log call it.")],
    expires: Annotated[
        str | None,
        typer.Option(help="Refuse it after so long, such as 12h, 90d or 2w; never by default."),
    ] = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Make a key and print it. It is shown this once: only its digest is kept."""
    keys = _keys(data, config)
    is_first = not keys.all()
    key, secret = keys.create(name, scope, _lifetime(expires))
    if is_first:
        console.err().print(
            "this is the service's first key: unless it has HETUNE_API_KEY, it was open, and lets "
            "nobody in without a key from now on",
            markup=False,
            soft_wrap=True,
        )
    until = f", until {_minute(key.expires)}" if key.expires else ""
    console.err().print(
        f"the key {key.name}, for {', '.join(key.scopes)}{until}; it is shown this once:",
        markup=False,
        soft_wrap=True,
    )
    typer.echo(secret)


@app.command("list")
def list_keys(data: Data = None, config: Config = None) -> None:
    """List all keys, the oldest first; their secrets are not kept."""
    keys = _keys(data, config)
    found = keys.all()
    columns = ("key", "id", "scopes", "created", "expires", "state")
    rows = console.table(*columns, left=columns)
    for key in found:
        rows.add_row(
            key.name,
            key.id,
            ", ".join(key.scopes),
            _minute(key.created),
            _minute(key.expires) if key.expires else "never",
            (key.trouble(keys.now()) or "good").removeprefix("was "),
        )
    if found:
        console.out().print(rows)
    console.out().print(
        f"{console.counted(len(found), 'key')} in {keys.path}", markup=False, soft_wrap=True
    )


@app.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its name or id.")],
    data: Data = None,
    config: Config = None,
) -> None:
    """Refuse a key from now on."""
    revoked = _keys(data, config).revoke(key)
    console.out().print(f"revoked {revoked.name} ({revoked.id})", markup=False, soft_wrap=True)


def _keys(data: Path | None, config: Path | None) -> Keys:
    with importing_the_service():
        from hetune.service.core.keys.keys import FILE, Keys
        from hetune.service.settings import Settings
    return Keys(Settings.load(config, service_data=data).service_data / FILE)


def _lifetime(text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = _LIFETIME.fullmatch(text)
    if match is None:
        raise InputError(f"--expires {text!r} is no time: give e.g. 90d (of m, h, d, w)")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _minute(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")

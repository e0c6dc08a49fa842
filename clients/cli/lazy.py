"""Commands whose modules are imported when one of them runs: torch alone takes seconds."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


@dataclass(frozen=True, slots=True)
class Source:
    """Where a command is.

    Attributes:
        module: Of `hetune.clients.cli`.
        attribute: A function, or a `typer.Typer` of further commands.
        help: The first paragraph of the command's own help.
    """

    module: str
    attribute: str
    help: str


class LazyGroup(TyperGroup):
    """Knows the names of its commands and what they are for; loads the one that runs.

    Attributes:
        sources: By the command's name.
    """

    sources: ClassVar[Mapping[str, Source]] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run, with its module imported."""
        if args:
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Puts a command in the place of its name; nothing where there is no such name."""
        source = self.sources.get(name)
        if source is None:
            return
        found = getattr(importlib.import_module(source.module, __package__), source.attribute)
        alone = typer.Typer(add_completion=False)
        alone.callback()(_of_a_group)  # keeps a single command below the group
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=name)
        else:
            alone.command(name)(found)
        group = typer.main.get_command(alone)
        assert isinstance(group, TyperGroup)
        self.commands[name] = group.commands[name]


def register(app: typer.Typer, sources: Mapping[str, Source]) -> None:
    """Gives an application of a `LazyGroup` its commands' names and summaries."""
    for name, source in sources.items():
        app.command(name, help=source.help)(_not_loaded)


def _of_a_group() -> None:
    pass


def _not_loaded() -> None:
    raise AssertionError("the group loads a command before it runs")

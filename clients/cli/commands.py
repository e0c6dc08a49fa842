"""The commands of `hetune`. Their modules are imported when one runs: torch alone takes seconds."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

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


SOURCES = {
    "build": Source(
        ".build",
        "build",
        "Compile every promoted variant of layers with default options, ahead of time.",
    ),
    "run": Source(
        ".run",
        "run",
        "Run a layer on a graph: load, index, choose, run, and time variants beside each other.",
    ),
    "bench": Source(
        ".run",
        "bench",
        "Compare variants on several graphs: the best of each, and what the choice loses.",
    ),
    "variants": Source(
        ".variants",
        "variants",
        "List the promoted variants of a layer with default options, or show one of them.",
    ),
    "explain": Source(
        ".variants",
        "explain",
        "Say which variant would run on a graph, and why; no kernel is compiled.",
    ),
    "kge": Source(".kge", "app", "Judge knowledge-graph models that score triples."),
    "profile": Source(
        ".profile",
        "profile",
        "Measure layers and single kernels on graphs, as a campaign asks, and keep the records.",
    ),
    "train": Source(
        ".models",
        "train",
        "Fit cost models to what was profiled, judge them, and make them the candidate.",
    ),
    "evaluate": Source(
        ".models",
        "evaluate_",
        "Judge a cost model on measured graphs whose families it was not trained on.",
    ),
    "promote": Source(
        ".models",
        "promote",
        "Make a model the champion, unless it loses to the present one or to a fixed variant.",
    ),
    "rollback": Source(
        ".models", "rollback", "Make the champion before the present one the champion again."
    ),
    "models": Source(".models", "models", "List the cost models in the model registry."),
    "calibrate": Source(
        ".calibrate",
        "calibrate",
        "Measure this machine's rates and correct the cost model for it, in under a minute.",
    ),
    "serve": Source(
        ".serve",
        "serve",
        "Serve graphs, models, inference and profiling jobs over HTTP, until it is interrupted.",
    ),
    "worker": Source(
        ".worker", "worker", "Measure what profiling jobs ask for, until it is interrupted."
    ),
    "keys": Source(
        ".keys",
        "app",
        "Make, list and revoke the keys of a service; one that runs need not be started again.",
    ),
    "registry": Source(".registry", "app", "List, check and evict compiled kernels."),
    "store": Source(
        ".store",
        "app",
        "Back up measurements and jobs, restore them, take in others', and remove some.",
    ),
    "remote": Source(
        ".remote", "app", "Use a service that runs somewhere; its key is that of HETUNE_API_KEY."
    ),
}


class LazyGroup(TyperGroup):
    """Knows the names of its commands and what they are for; loads the one that runs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run, with its module imported."""
        if args:
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Puts a command in the place of its name; nothing where there is no such name."""
        source = SOURCES.get(name)
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


def register(app: typer.Typer) -> None:
    """Gives an application of a `LazyGroup` its commands' names and summaries."""
    for name, source in SOURCES.items():
        app.command(name, help=source.help)(_not_loaded)


def _of_a_group() -> None:
    pass


def _not_loaded() -> None:
    raise AssertionError("the group loads a command before it runs")

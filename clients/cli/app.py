"""The command line's entry: its commands, and what it makes of errors."""

from __future__ import annotations

import logging
import traceback
from typing import Annotated, Any

import typer

from hetune.clients.cli import console
from hetune.clients.cli.commands import SOURCES, LazyGroup, register
from hetune.costmodel.version import release
from hetune.variants.errors import (
    CampaignError,
    ConflictError,
    GraphError,
    HetuneError,
    InputError,
    MalformedError,
    NotFoundError,
    ProgramError,
    TooLargeError,
    VariantError,
)
from hetune.variants.exhaustion import is_out_of_memory

_BAD_INPUT = (
    CampaignError,
    ConflictError,
    GraphError,
    InputError,
    MalformedError,
    NotFoundError,
    ProgramError,
    TooLargeError,
    VariantError,
)


_SHOWN = 200
"""Characters of a path in a message."""


class _Commands(LazyGroup):
    """Commands whose errors are one message on standard error."""

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; exits with 2 for bad input, 1 for failures, 130 if interrupted."""
        try:
            return super().invoke(ctx)
        except HetuneError as error:
            if ctx.params.get("verbose"):
                traceback.print_exc()
            console.flush()
            console.err().print(f"error: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(2 if isinstance(error, _BAD_INPUT) else 1) from error
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            console.flush()
            reason = next(iter(str(error).splitlines()), "the machine has too little")
            console.err().print(f"error: out of memory: {reason}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        except BrokenPipeError:
            raise
        except OSError as error:  # of a path that a user named: too long, not theirs, ...
            if ctx.params.get("verbose"):
                traceback.print_exc()
            console.flush()
            where = str(error.filename or "a file")
            where = where if len(where) <= _SHOWN else f"{where[:_SHOWN]}..."
            console.err().print(
                f"error: cannot use {where} ({error.strerror or error}): name another one, or "
                "make it accessible",
                markup=False,
                soft_wrap=True,
            )
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Compiles every worthwhile way of running a relational GNN layer, and picks per graph.",
)
register(app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hetune {release()}")
        raise typer.Exit


@app.callback()
def _settings(
    threads: Annotated[
        int | None, typer.Option(help="Threads that kernels use; torch's number by default.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log details; show where an error came from.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if threads is not None:
        from hetune.clients.cli.options import use_threads

        use_threads(threads)
    if verbose:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("hetune").setLevel(logging.DEBUG)


def everything() -> LazyGroup:
    """The application with all its commands imported, for who looks at their options."""
    group = typer.main.get_command(app)
    assert isinstance(group, LazyGroup)
    for name in SOURCES:
        group.load(name)
    return group

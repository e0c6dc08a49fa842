"""What hetune offers those who run it: commands, options, environment variables."""

import functools
import re

from hetune.clients.cli.app import everything
from hetune.service.settings import Settings, variable_of

from ._files import DEPLOY, ROOT

_FOLDERS = ("variants", "costmodel", "profiling", "service", "clients")


@functools.cache
def options(command: str) -> dict[str, bool]:
    """The options of a command, and whether each takes a value."""
    found = everything().commands[command]
    return {
        name: not parameter.is_flag
        for parameter in found.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def check_command(words: list[str]) -> None:
    """Asserts that words are a command of hetune's with options that it has."""
    command, *rest = words
    known = options(command)
    while rest:
        name, given, _ = rest.pop(0).partition("=")
        assert name in known, f"hetune {command} has no option {name}"
        if known[name] and not given:
            assert rest, name
            rest.pop(0)


@functools.cache
def variables() -> frozenset[str]:
    """Environment variables that hetune or the entrypoint reads."""
    found = set()
    for folder in _FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r'"(HETUNE_[A-Z_]+)"', path.read_text(encoding="utf-8")))
    entrypoint = (DEPLOY / "entrypoint").read_text(encoding="utf-8")
    files = {f"{name}_FILE" for name in re.findall(r"^from_file (\w+)", entrypoint, re.M)}
    return frozenset(found | files | {variable_of(name) for name in Settings.model_fields})

"""`hetune variants`, the version, and that the documentation has every option."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hetune as library
from hetune.clients.cli.app import everything
from hetune.clients.cli.commands import SOURCES
from hetune.clients.cli.console import seconds, size
from hetune.clients.cli.options import size_of
from hetune.clients.cli.variants import pass_text
from hetune.variants.errors import InputError
from hetune.variants.frontend.presets import LAYERS, preset_programs
from hetune.variants.kernel.parse import parse
from hetune.variants.passes.aggregate_first import AggregateFirst
from hetune.variants.passes.compact import Compact
from hetune.variants.passes.weights_first import WeightsFirst
from hetune.variants.plan.variants import variants_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


@pytest.mark.parametrize("layer", LAYERS)
def test_every_plan_is_listed(layer, hetune):
    result = hetune("variants", "--layer", layer, "--width", 8)
    assert result.exit_code == 0, result.output
    found = variants_of(*preset_programs(layer, 8), "cpu")
    listed = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert {variant.id.rpartition("/")[0] for variant in found} <= listed
    assert f"{len(found)} variants" in result.stdout


def test_a_variant_is_shown_as_text_that_can_be_parsed(hetune):
    (program,) = preset_programs("rgat", 8)
    variant = variants_of(program, "cpu")[-1]
    shown = hetune("variants", "--layer", "rgat", "--width", 8, "--show", variant.id)
    assert shown.exit_code == 0, shown.output
    texts = re.findall(r"^(launch\n.*?)^schedule", shown.stdout, re.M | re.S)
    assert tuple(parse(text) for text in texts) == variant.plan.launches
    assert "hetune_launch" not in shown.stdout
    arguments = ("--layer", "rgat", "--width", 8, "--show", variant.id, "--source")
    assert hetune("variants", *arguments).stdout.count("int hetune_launch(") == len(texts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--show", "best"), "no variant 'best': `hetune variants --layer rgcn` lists them"),
        (("--source",), "--source needs --show ID: it prints the code of one variant"),
    ],
)
def test_bad_input(arguments, message, hetune):
    result = hetune("variants", "--layer", "rgcn", *arguments)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


def test_version(hetune):
    assert hetune("--version").stdout == f"hetune {library.__version__}\n"


def test_the_help_names_every_command(hetune):
    text = hetune("--help").stdout
    for path, _ in commands(everything()):
        assert path.split()[:1] == [] or path.split()[0] in text


def test_the_help_says_of_commands_what_their_own_help_says():
    for name, command in everything().commands.items():
        assert SOURCES[name].help == " ".join(command.help.split("\n\n")[0].split())


def test_the_help_needs_no_torch():
    code = (
        "import sys, runpy; sys.argv = ['hetune', '--help']\n"
        "from hetune.clients.cli.start import main\n"
        "try: main()\n"
        "except SystemExit as end: sys.exit(end.code or 'torch' in sys.modules)"
    )
    command = (sys.executable, "-c", code)
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by what is typed after `hetune`."""
    yield path, command
    for name, part in getattr(command, "commands", {}).items():
        yield from commands(part, f"{path} {name}".strip())


@pytest.mark.parametrize(
    ("path", "command"),
    [pytest.param(*found, id=found[0] or "hetune") for found in commands(everything())],
)
def test_every_command_and_option_is_documented(path, command):
    """Under the heading of the command, or among the options that several share."""
    heading = f"hetune {path}".strip()
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)
    (own,) = (s for s in sections if s.startswith(f"`{heading}`\n"))
    (shared,) = (s for s in sections if s.startswith("Options that several commands take\n"))
    for parameter in command.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("--"):
                assert f"`{option}" in own or f"`{option}" in shared, (heading, option)


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("7", 7), ("500MB", 500_000_000), ("2 GiB", 2 << 30), ("1.5kb", 1500), ("0.5g", 5 * 10**8)],
)
def test_sizes(text, bytes_):
    if text == "0.5g":
        with pytest.raises(InputError):
            size_of(text, "--quota")
    else:
        assert size_of(text, "--quota") == bytes_


def test_numbers_read_well():
    assert [seconds(s) for s in (12e-6, 3.2149e-3, 0.25, 83.21)] == [
        "12 µs",
        "3.21 ms",
        "250 ms",
        "83.2 s",
    ]
    assert [size(b) for b in (12, 3456, 3.4567e6, 2e9)] == ["12 B", "3.46 KB", "3.46 MB", "2 GB"]


def test_passes_read_as_their_names_and_options():
    assert pass_text(WeightsFirst()) == "weights-first"
    assert pass_text(AggregateFirst("d")) == "aggregate-first(d)"
    assert pass_text(Compact("s", scores=False)) == "compact(s, False)"

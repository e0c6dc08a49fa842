"""The programs of a campaign's file: presets by widths and heads, and programs of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path

from hetune.profiling.campaign.config_table import ConfigTable, is_count
from hetune.variants.errors import CampaignError, InputError, ProgramError
from hetune.variants.frontend.presets import (
    HOMOGENEOUS,
    KERNELS,
    LAYERS,
    PRESETS,
    SCORES,
    labeled_preset,
)
from hetune.variants.program.labeled import LabeledProgram


def programs_of(table: ConfigTable, folder: Path | None) -> tuple[LabeledProgram, ...]:
    """What a campaign runs: its layers and kernels by its widths by its heads, then its programs.

    Args:
        table: With ``layers`` and ``kernels`` (names of presets), ``widths``, ``squared``,
            ``heads``; ``homogeneous`` and ``scores``: tables of layers for one type of edges, and
            of scores of triples, with widths and heads of their own; and ``programs``: tables with
            a ``name``, and a ``text`` or a ``file``.
        folder: What relative paths start from; None refuses files.

    Raises:
        CampaignError: Something is unknown, missing, of the wrong kind, or refused.
    """
    own = tuple(
        _own(ConfigTable(entry, f"{table.where}, programs[{number}]"), folder)
        for number, entry in enumerate(table.entries("programs"))
    )
    inner = *_inner(table, "homogeneous", HOMOGENEOUS), *_inner(table, "scores", SCORES)
    is_all = not (own or inner or table.data.get("gradients") or "kernels" in table.data)
    names = table.choices("layers", [*LAYERS], [*LAYERS] if is_all else ())
    names += table.choices("kernels", [*KERNELS], ())
    return *_presets(table, names), *inner, *own


def gradients_of(table: ConfigTable) -> tuple[LabeledProgram, ...]:
    """The layers whose gradients a campaign runs: those of its table ``gradients``.

    Raises:
        CampaignError: As `programs_of`.
    """
    return _inner(table, "gradients", (*LAYERS, *HOMOGENEOUS))


def _inner(table: ConfigTable, key: str, known: Iterable[str]) -> tuple[LabeledProgram, ...]:
    """Layers with widths and heads of their own, in a table of their own; by default all known."""
    inner, names = ConfigTable(table.data.get(key, {}), f"{table.where}, {key}"), [*known]
    inner.check(("layers", "widths", "squared", "heads"))
    return _presets(inner, inner.choices("layers", names, names if inner.data else ()))


def _presets(table: ConfigTable, names: list[str]) -> tuple[LabeledProgram, ...]:
    """Presets by a table's widths by its heads."""
    if not names:
        return ()
    widths, heads = _widths(table), table.counts("heads", [1])
    _check_widths(table.where, names, widths, heads)
    return tuple(
        _preset(name, d_in, d_out, count)
        for name, (d_in, d_out), count in product(names, widths, heads)
    )


def _preset(name: str, d_in: int, d_out: int, heads: int) -> LabeledProgram:
    try:
        return labeled_preset(name, d_in, d_out, heads)
    except InputError as error:
        raise CampaignError(f"{name}: {error}") from error


def _own(table: ConfigTable, folder: Path | None) -> LabeledProgram:
    table.check(("name", "text", "file"))
    name = table.text("name")
    if ("text" in table.data) == ("file" in table.data):
        raise CampaignError(f"{table.where}: give the program's text, or a file that holds it")
    text = table.text("text") if "text" in table.data else _read(table, folder)
    try:
        return LabeledProgram.parse(text, name)
    except ProgramError as error:
        raise CampaignError(f"{table.where}: {error}") from error


def _read(table: ConfigTable, folder: Path | None) -> str:
    if folder is None:
        raise CampaignError(f"{table.where}: files are not read here: give the program's text")
    path = folder / Path(table.text("file")).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CampaignError(f"{table.where}: {path} cannot be read: {error}") from error


def _widths(table: ConfigTable) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = [(width, width) for width in table.counts("squared")]
    for entry in table.entries("widths"):
        pair = entry if isinstance(entry, list) else [entry, entry]
        if len(pair) != 2 or not all(map(is_count, pair)):
            raise table.wrong("widths", "give widths such as 64, or pairs such as [64, 16]")
        found.append((pair[0], pair[1]))
    if not found:
        raise CampaignError(f"{table.where}: it has no widths: give squared or widths")
    return found


def _check_widths(
    where: str, names: list[str], widths: list[tuple[int, int]], heads: list[int]
) -> None:
    """Checks that every preset can have all widths and heads."""
    keeping = [name for name in names if PRESETS[name].keeps_width]
    with_heads = any(PRESETS[name].has_heads for name in names)
    for d_in, d_out in widths:
        if keeping and d_in != d_out:
            raise CampaignError(
                f"{where}: rows of width {d_in} are as wide after {keeping[0]!r}, not {d_out}: "
                "take equal widths, or a campaign of its own"
            )
        for count in heads:
            if with_heads and d_out % count:
                raise CampaignError(
                    f"{where}: width {d_out} does not divide into {count} heads: take others"
                )

"""Model cards as parts that a template prints: their Markdown is read, and nothing else of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

_PICTURE = re.compile(r"!\[(.*)\]\(([a-z_-]+\.png)\)")
_RULE = re.compile(r"[|\s:-]+")
_ESCAPED = re.compile(r"\\([\\`*_<>\[\]|#])")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading below the card's own."""

    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the card, by the name of its file."""

    title: str
    file: str


@dataclass(frozen=True, slots=True)
class Cells:
    """A table; rows that are marked stand out."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[int]


Part: TypeAlias = Heading | Fact | Paragraph | Picture | Cells


def parts_of(markdown: str) -> tuple[Part, ...]:
    """A card's parts in order, without its title. What is not known is text."""
    found: list[Part] = []
    table: list[str] = []
    for line in [*markdown.splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
            continue
        if table:
            found.append(_table(table))
            table = []
        if line.startswith("## "):
            found.append(Heading(_plain(line[3:])))
        elif line.startswith("- "):
            name, _, value = line[2:].partition(": ")
            found.append(Fact(_plain(name), _plain(value)))
        elif match := _PICTURE.fullmatch(line):
            found.append(Picture(_plain(match[1]), match[2]))
        elif line and not line.startswith("# "):
            found.append(Paragraph(_plain(line)))
    return tuple(found)


def _table(lines: list[str]) -> Cells:
    rows = [
        [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split(" | ")]
        for line in lines
        if not _RULE.fullmatch(line)
    ]
    bold = [all(cell.startswith("**") and cell.endswith("**") for cell in row) for row in rows]
    plain = [tuple(_plain(cell.strip("*")) for cell in row) for row in rows]
    marked = frozenset(number - 1 for number, is_bold in enumerate(bold) if number and is_bold)
    return Cells(plain[0] if plain else (), tuple(plain[1:]), marked)


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)

"""Plots with logarithmic axes as plain numbers, which a template draws as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 380, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 46
_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Box:
    """A bar, in the picture's units."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture, in its own units.

    Attributes:
        id: Unique on its page.
        title: What it shows.
        description: The same in words, for who does not see it.
        x_label: Of the axis below.
        y_label: Of the axis at the left.
        x_ticks: On it.
        y_ticks: On it.
        bars: If it has any.
        dots: Their centres, if it has any.
    """

    id: str
    title: str
    description: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bars: tuple[Box, ...] = ()
    dots: tuple[tuple[float, float], ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM


@dataclass(frozen=True, slots=True)
class LogAxis:
    """From numbers to places: equal factors are equally far apart.

    Args:
        low: Least number, above 0.
        high: Greatest.
        start: Where the least is.
        end: Where the greatest is.
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a number is, to a hundredth."""
        whole = math.log(self.high / self.low)
        part = math.log(value / self.low) / whole if whole else 0.0
        return round(self.start + part * (self.end - self.start), 2)

    def ticks(self) -> tuple[Tick, ...]:
        """Powers of ten, and 2 and 5 times these where there are few; no more than fit."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for steps in ((1, 2, 5), (1,)):
            found = [
                step * 10.0**power
                for power in range(first, last + 1)
                for step in steps
                if self.low <= step * 10.0**power <= self.high
            ]
            if len(found) <= _MOST_TICKS:
                break
        every = max(1, math.ceil(len(found) / _MOST_TICKS))
        return tuple(Tick(self.at(value), short(value)) for value in found[::every])


def short(value: float) -> str:
    """A round number on an axis: 500, 20k, 1M."""
    for unit, text in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{text}"
    return f"{value:g}"


def histogram(
    id: str, title: str, description: str, labels: tuple[str, str], bins: Sequence[tuple[int, int]]
) -> Plot:
    """How many things have a number from a power of two up to the next.

    Args:
        id: Unique on the page.
        title: What it shows.
        description: In words.
        labels: Of both axes.
        bins: First number of a bin, a power of two, and how many are in it, at least 1.
    """
    x = LogAxis(1, 2 * max(first for first, _ in bins), _LEFT, WIDTH - _RIGHT)
    y = LogAxis(0.5, 2 * max(count for _, count in bins), HEIGHT - _BOTTOM, _TOP)
    bars = tuple(
        Box(
            x.at(first),
            y.at(count),
            round(max(x.at(2 * first) - x.at(first) - 1, 1), 2),
            round(HEIGHT - _BOTTOM - y.at(count), 2),
        )
        for first, count in bins
    )
    return Plot(id, title, description, *labels, x.ticks(), y.ticks(), bars=bars)


def ranking(
    id: str, title: str, description: str, labels: tuple[str, str], sizes: Sequence[int]
) -> Plot:
    """Sizes by their rank.

    Args:
        id: Unique on the page.
        title: What it shows.
        description: In words.
        labels: Of both axes.
        sizes: All at least 1, the greatest first.
    """
    x = LogAxis(0.8, 1.25 * len(sizes), _LEFT, WIDTH - _RIGHT)
    y = LogAxis(0.5, 2 * sizes[0], HEIGHT - _BOTTOM, _TOP)
    places = {(x.at(rank), y.at(size)): None for rank, size in enumerate(sizes, 1)}
    return Plot(id, title, description, *labels, x.ticks(), y.ticks(), dots=tuple(places))

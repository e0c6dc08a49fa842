"""Numbers for readers: with units, few digits, and as wide as their neighbours."""

from __future__ import annotations

from datetime import UTC, datetime

NOTHING = "–"
_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1000.0
_MOST_TEXT = 400


def count(value: float) -> str:
    """A whole number: 12,345."""
    return f"{value:,.0f}"


def milliseconds(seconds: float | None) -> str:
    """Milliseconds without their unit: 0.046, 1.204, 1,503."""
    if seconds is None:
        return NOTHING
    value = seconds * 1e3
    return f"{value:,.3f}" if value < 100 else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Bytes with their unit: 0 B, 12.3 kB, 1.20 GB."""
    if value is None:
        return NOTHING
    unit = 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    digits = 0 if unit == 0 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {_UNITS[unit]}"


def share(value: float) -> str:
    """A part of one: 12.3%; what is there but tiny is not zero."""
    return "<0.1%" if 0 < value < 0.001 else f"{value:.1%}"


def factor(value: float | None) -> str:
    """A ratio: 1.06×."""
    return NOTHING if value is None else f"{value:.2f}×"


def when(value: datetime | str | None) -> str:
    """A time to the second, in UTC."""
    if value is None:
        return NOTHING
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return f"{found:%Y-%m-%d %H:%M:%S} UTC"


def number(value: float) -> str:
    """A number of an output: four digits and a sign, aligned by them."""
    return f"{value:+.4g}"


def cut(text: str) -> str:
    """A text up to a length that a page bears."""
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


FILTERS = {
    "cut": cut,
    "count": count,
    "ms": milliseconds,
    "size": size,
    "share": share,
    "factor": factor,
    "when": when,
    "number": number,
}
"""What templates call them."""

"""Reading a table of a campaign's file: what is there, of the right kind, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard, TypeVar

from hetune.profiling.corpus.options import read
from hetune.variants.errors import CampaignError

_Made = TypeVar("_Made")


class ConfigTable:
    """Keys and values from TOML or JSON.

    Args:
        data: What the file holds there.
        where: How messages call the place.

    Raises:
        CampaignError: It is no table; methods raise it for values of the wrong kind.
    """

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise CampaignError(f"{where} is {data!r}: give a table of keys and values")
        self.data: dict[str, Any] = data
        self.where = where

    def check(self, known: Sequence[str]) -> None:
        """Refuses keys that nobody reads."""
        for key in self.data:
            if key not in known:
                raise CampaignError(f"{self.where}: unknown key {key!r}; known are {_some(known)}")

    def text(self, key: str, default: str | None = None) -> str:
        """A text."""
        if key not in self.data and default is not None:
            return default
        value = self.data.get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "give a text")
        return value

    def entries(self, key: str, default: Sequence[object] = ()) -> list[Any]:
        """A list; one value stands for a list of one."""
        value = self.data.get(key, list(default))
        return value if isinstance(value, list) else [value]

    def counts(self, key: str, default: Sequence[int] = ()) -> list[int]:
        """Whole numbers of 1 or more, at least one where there is a default."""
        found = self.entries(key, default)
        if not all(is_count(value) for value in found) or len(found) < bool(default):
            raise self.wrong(key, "give whole numbers of 1 or more")
        return found

    def choices(self, key: str, known: Sequence[str], default: Sequence[str]) -> list[str]:
        """Some of the known texts, at least one; the default where nothing is said."""
        if key not in self.data:
            return list(default)
        found = self.entries(key)
        if not found or not all(value in known for value in found):
            raise self.wrong(key, f"take of {_some(known)}")
        return found

    def fields(self, key: str, kind: type[_Made]) -> _Made | None:
        """A dataclass of what the table of that key holds; None where there is none."""
        if key not in self.data:
            return None
        inner = ConfigTable(self.data[key], f"{self.where}, {key}")
        return read(kind, inner.data, inner.where)

    def wrong(self, key: str, mend: str) -> CampaignError:
        """The error that a value is not of the right kind."""
        return CampaignError(f"{self.where}: {key} is {self.data.get(key)!r}: {mend}")


def is_count(value: object) -> TypeGuard[int]:
    """Whether it is a whole number of 1 or more."""
    return type(value) is int and value >= 1


def _some(known: Sequence[str]) -> str:
    return ", ".join(sorted(known))

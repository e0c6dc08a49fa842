"""Which stored model is the candidate and which the champion, and who made it so."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hetune.variants.errors import ModelError
from hetune.variants.registry.atomic_files import write_atomically
from hetune.variants.registry.sealed_json import sealed, unsealed

CANDIDATE = "candidate"
"""The alias of the model that was added last."""
CHAMPION = "champion"
"""The alias of the model that answers."""
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class AliasChange:
    """An alias that was set.

    Attributes:
        alias: `CANDIDATE` or `CHAMPION`.
        before: Id of the model that it named; None if none.
        after: Id of the model that it names since; None if none.
        who: Name of the user.
        when: UTC, ISO 8601.
        why: What was done: "add", "promote", "rollback".
    """

    alias: str
    before: str | None
    after: str | None
    who: str
    when: str
    why: str


@dataclass(frozen=True, slots=True)
class Aliases:
    """What the aliases name, now and before.

    Attributes:
        candidate: Id of the candidate; None if there is none.
        champions: Ids of the champions, the present one last, without those that were rolled back.
        history: Every change, in order.
    """

    candidate: str | None = None
    champions: tuple[str, ...] = ()
    history: tuple[AliasChange, ...] = ()

    @property
    def champion(self) -> str | None:
        """Id of the champion; None if there is none."""
        return self.champions[-1] if self.champions else None

    def as_dict(self) -> dict[str, str]:
        """Ids by alias, of those that are set."""
        both = {CANDIDATE: self.candidate, CHAMPION: self.champion}
        return {alias: key for alias, key in both.items() if key is not None}

    def added(self, key: str) -> Aliases:
        """With a new candidate."""
        return self._with(key, self.champions, CANDIDATE, "add")

    def promoted(self, key: str) -> Aliases:
        """With a new champion."""
        return self._with(self.candidate, (*self.champions, key), CHAMPION, "promote")

    def rolled_back(self) -> Aliases:
        """With the champion before; there must be a champion."""
        return self._with(self.candidate, self.champions[:-1], CHAMPION, "rollback")

    def write(self, path: Path) -> None:
        """Replaces the file in one step. Raises OSError."""
        record = {
            "format": _FORMAT,
            "candidate": self.candidate,
            "champions": self.champions,
            "history": [asdict(change) for change in self.history],
        }
        write_atomically(path, json.dumps(sealed(record), indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> Aliases:
        """What `write` wrote; nothing is set where there is no file.

        Raises:
            ModelError: The file is damaged.
        """
        try:
            record: Any = unsealed(json.loads(path.read_text(encoding="utf-8")))
            if record["format"] != _FORMAT:
                raise ValueError(f"format {record['format']}, not {_FORMAT}")
            history = tuple(AliasChange(**change) for change in record["history"])
            candidate, champions = record["candidate"], record["champions"]
            if not isinstance(candidate, str | None) or not isinstance(champions, list):
                raise ValueError("the candidate is no text, or the champions are no list")
            if not all(isinstance(key, str) for key in champions):
                raise ValueError("a champion is no text")
            return cls(candidate, tuple(champions), history)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise ModelError(
                f"{path} cannot be read ({error.strerror or error}): let this user read it, or set "
                "HETUNE_MODELS to another folder"
            ) from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(
                f"{path} cannot be read as aliases of cost models ({error}): delete it, and "
                "promote the model that shall be the champion again"
            ) from None

    def _with(
        self, candidate: str | None, champions: tuple[str, ...], alias: str, why: str
    ) -> Aliases:
        after = Aliases(candidate, champions)
        change = AliasChange(
            alias=alias,
            before=self.as_dict().get(alias),
            after=after.as_dict().get(alias),
            who=_user(),
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            why=why,
        )
        return Aliases(candidate, champions, (*self.history, change))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"

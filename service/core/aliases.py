"""Names for versions of a model that can be moved: "production" is version 3 today."""

from __future__ import annotations

import re
from pathlib import Path

from hetune.service.core.folder import Folder
from hetune.variants.errors import FolderError, MalformedError, NotFoundError

SEPARATOR = "@"
"""Between a model's name and an alias; neither contains it."""
ALIAS_PATTERN = r"[A-Za-z][A-Za-z0-9._-]{0,63}"
_SUFFIX = ".alias"


class Aliases:
    """The aliases of models, a file each beside the versions.

    Args:
        folder: Of the models.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def of(self, model: Path) -> dict[str, int]:
        """Alias and version, sorted by alias, of the model in a folder.

        Raises:
            FolderError: An alias cannot be read.
        """
        with self._folder.io("read"):
            paths = sorted(model.glob(f"*{_SUFFIX}"))
        return {path.name.removesuffix(_SUFFIX): self._read(path) for path in paths}

    def version(self, model: Path, alias: str) -> int:
        """The version that an alias names.

        Raises:
            MalformedError: It is no alias.
            NotFoundError: There is none.
            FolderError: It cannot be read.
        """
        try:
            return self._read(_path(model, alias))
        except FileNotFoundError:
            raise _unknown(alias) from None

    def set(self, model: Path, alias: str, version: int) -> None:
        """Lets an alias name a version. The models' lock must be held.

        Raises:
            MalformedError: It is no alias.
            FolderError: It cannot be written.
        """
        self._folder.publish(str(version).encode(), _path(model, alias))

    def remove(self, model: Path, alias: str) -> None:
        """Deletes an alias. The models' lock must be held.

        Raises:
            MalformedError: It is no alias.
            NotFoundError: There is none.
            FolderError: The folder cannot be written.
        """
        try:
            self._folder.remove(_path(model, alias))
        except FileNotFoundError:
            raise _unknown(alias) from None

    def _read(self, path: Path) -> int:
        with self._folder.io("read"):
            text = path.read_text("ascii", "replace")
        if not text.isdecimal():
            raise FolderError(f"the alias {path} is damaged: set it again")
        return int(text)


def _path(model: Path, alias: str) -> Path:
    if not re.fullmatch(ALIAS_PATTERN, alias):
        raise MalformedError(
            f"{alias[:64]!r} is no alias: take up to 64 letters, digits, dots, dashes and "
            "underscores, first a letter"
        )
    return model / f"{alias}{_SUFFIX}"


def _unknown(alias: str) -> NotFoundError:
    return NotFoundError(f"the model has no alias {alias}: set it first")

"""Names for versions of a model that can be moved: "production" is version 3 today."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

from hetune.service.core.storage.folder import Folder
from hetune.variants.errors import ConflictError, FolderError, MalformedError, NotFoundError
from hetune.variants.registry.sealed_json import sealed, unsealed

SEPARATOR = "@"
"""Between a model's name and an alias; neither contains it."""
ALIAS_PATTERN = r"[A-Za-z][A-Za-z0-9._-]{0,63}"
_SUFFIX = ".alias"
_VERSION = "version"
_log = logging.getLogger(__name__)


class ModelAliases:
    """The aliases of models, a file each beside the versions.

    Args:
        folder: Of the models.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def of(self, model: Path) -> dict[str, int]:
        """Alias and version, sorted by alias, of the model in a folder.

        What is damaged is left out, and the log says so.

        Raises:
            FolderError: The folder cannot be read.
        """
        found = {}
        for path in self._paths(model):
            try:
                found[path.name.removesuffix(_SUFFIX)] = self._read(path)
            except FolderError as error:
                _log.warning("left out an alias: %s", error)
        return found

    def check_unnamed(self, model: Path, version: int) -> None:
        """Checks that no alias names a version, or may do so.

        Raises:
            ConflictError: One does.
            FolderError: One is damaged.
        """
        for path in self._paths(model):
            if self._read(path) == version:
                raise ConflictError(
                    f"the alias {path.name.removesuffix(_SUFFIX)} names version {version}: delete "
                    "the alias, or let it name another version"
                )

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
        content = json.dumps(sealed({_VERSION: version}))
        self._folder.publish(content.encode(), _path(model, alias))

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

    def _paths(self, model: Path) -> list[Path]:
        with self._folder.io("read"):
            return sorted(model.glob(f"*{_SUFFIX}"))

    def _read(self, path: Path) -> int:
        with self._folder.io("read"):
            text = path.read_text("ascii", "replace")
        try:
            version = unsealed(json.loads(text))[_VERSION]
        except (ValueError, KeyError, TypeError, RecursionError):
            version = None
        if type(version) is not int:
            raise FolderError(
                f"the alias {path} is damaged: let it name a version again, or delete it"
            )
        return version


def _path(model: Path, alias: str) -> Path:
    if not re.fullmatch(ALIAS_PATTERN, alias):
        raise MalformedError(
            f"{alias[:64]!r} is no alias: take up to 64 letters, digits, dots, dashes and "
            "underscores, first a letter"
        )
    return model / f"{alias}{_SUFFIX}"


def _unknown(alias: str) -> NotFoundError:
    return NotFoundError(f"the model has no alias {alias}: set it first")

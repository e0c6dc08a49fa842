"""Models by name and version: on disk, and compiled in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from hetune.service.core.formats.documents import parse
from hetune.service.core.formats.message import Message, digest_of, pack, read
from hetune.service.core.formats.safe_names import check_plain
from hetune.service.core.models.aliases import SEPARATOR, ModelAliases
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.epilogue import Epilogue
from hetune.service.core.models.program_limits import CompileTime, check_kernels
from hetune.service.core.models.stack import epilogues_of, modules_of
from hetune.service.core.models.triple_scores import score_model_of
from hetune.service.core.models.wiring import Wiring, wiring_of
from hetune.service.core.storage.cache import BytesCache
from hetune.service.core.storage.folder import Folder
from hetune.variants.errors import (
    ConflictError,
    FolderError,
    InputError,
    MalformedError,
    NotFoundError,
)
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.program.canonical import digest
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.score_model import ScoreModel

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
LATEST = 2**31 - 1
_ENDING = ".safetensors"
_PREFIX = "model-"  # no name can meet the folder's own files


@dataclass(frozen=True, slots=True)
class Model:
    """A version of a model, ready to run.

    Attributes:
        name: Its name.
        version: Its number.
        description: Its layers.
        modules: The layers with their weights, which are where they run.
        adapters: What each layer is made for.
        programs: Digest of each layer's program.
        compiled: The same layers, compiled; runs name the variant.
        epilogues: What follows each layer.
        nbytes: Of its weights.
        wiring: What layers read and give.
        tables: Inputs that belong to the model, by name, float32 [nodes, width].
        scores: The model itself, on the host, if it scores triples; else None.
        compiling: How long its kernels took to compile.
    """

    name: str
    version: int
    description: ModelDescription
    modules: tuple[RelationalLayer, ...]
    adapters: tuple[Adapter, ...]
    programs: tuple[str, ...]
    compiled: tuple[CompiledLayer, ...]
    epilogues: tuple[Epilogue, ...]
    nbytes: int
    wiring: Wiring
    tables: Mapping[str, Tensor]
    scores: ScoreModel | None
    compiling: CompileTime


class ModelStore:
    """Models that were given to the service. A version never changes.

    Args:
        root: Folder of the models.
        engine: What runs them.
        loaded_bytes: Most bytes of weights to hold in memory.

    Raises:
        FolderError: The folder cannot be used.
    """

    def __init__(self, root: Path, engine: Engine, loaded_bytes: int) -> None:
        self.folder = Folder(root)
        self._aliases = ModelAliases(self.folder)
        self._engine = engine
        self._loaded: BytesCache[tuple[str, int, int], Model] = BytesCache(
            loaded_bytes, lambda model: model.nbytes
        )

    def add(
        self,
        name: str,
        version: int,
        description: ModelDescription,
        weights: Mapping[str, Tensor],
    ) -> bool:
        """Keeps a version of a model, and says whether it is new.

        Args:
            name: Letters, digits, dots, dashes, underscores; at most 64, first a letter or digit.
            version: At least 1.
            description: Its layers.
            weights: What `modules_of` takes.

        Raises:
            MalformedError: The name or the number is none.
            InputError: Weights do not fit the description, or a name holds a control character.
            TooLargeError: Its programs have more kernels than are compiled for a model.
            ConflictError: The version is there, and differs.
            FolderError: It cannot be written, or is there and damaged.
        """
        path = self._path(name, version)
        modules = modules_of(description, weights)
        check_kernels([m.program() for m in modules if isinstance(m, ProgramLayer)])
        if (types := description.metadata) is not None:
            check_plain("node type", types.ntypes)
            check_plain("edge type", (name for names in types.etypes for name in names))
        document = description.model_dump_json()
        with self.folder.locked():
            if path.exists():
                kept = self._kept(name, version)
                if digest_of(kept.document, kept.tensors) != digest_of(document, weights):
                    raise ConflictError(
                        f"version {version} of {name} is there already and differs: give it the "
                        "next number"
                    )
                return False
            self.folder.publish(pack(document, weights), path)
        return True

    def make(
        self,
        name: str,
        version: int,
        description: ModelDescription,
        weights: Mapping[str, Tensor],
    ) -> Model:
        """A model that is ready to run, and not kept.

        Args:
            name: What to call it.
            version: Its number.
            description: Its layers.
            weights: What `modules_of` takes.

        Raises:
            InputError: Weights do not fit the description.
        """
        modules = modules_of(description, weights)
        vocabulary = description.vocabulary
        given = vocabulary, description.precision
        compiled = tuple(self._engine.compiled(module, *given) for module in modules)
        epilogues = self._engine.epilogues(epilogues_of(description, weights))
        nbytes = sum(tensor.nbytes for tensor in weights.values())
        return Model(
            name,
            version,
            description,
            modules,
            adapters=tuple(module.adapter() for module in modules),
            programs=tuple(digest(module.program()) for module in modules),
            compiled=compiled,
            epilogues=epilogues,
            nbytes=nbytes,
            wiring=wiring_of(description, [module.program() for module in modules]),
            tables={name: weights[f"tables.{name}"] for name in description.tables},
            scores=score_model_of(description, modules[0].program(), weights),
            compiling=CompileTime(),
        )

    def get(self, name: str, version: int | None = None) -> Model:
        """A model.

        Args:
            name: Of a model, or ``name@alias`` for the version that an alias names.
            version: Its number; the latest if None.

        Raises:
            MalformedError: There is an alias, and a number as well.
            NotFoundError: There is none.
            FolderError: It cannot be read, or is damaged.
        """
        try:
            return self._get(self._key(name, version))
        except NotFoundError:
            if version is not None or SEPARATOR in name:
                raise
        return self._get(self._key(name, None))  # another process may have removed the latest

    def _get(self, key: tuple[str, int, int]) -> Model:
        return self._loaded.get(key) or self._loaded.add(key, self._read(*key[:2]))

    def _key(self, name: str, version: int | None) -> tuple[str, int, int]:
        name, at, alias = name.partition(SEPARATOR)
        if at and version is not None:
            raise MalformedError(f"there is a version beside the alias {alias}: give one of them")
        files = self._files(name)
        if at:
            version = self._aliases.version(Path(self._folder_of(name)), alias)
        elif version is None:
            version = max(files)
        return name, version, self._stamp_of(files, name, version)

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        with self.folder.io("read"):
            found = [p.parent.name for p in self.folder.root.glob(f"{_PREFIX}*/*{_ENDING}")]
        return tuple(sorted({name.removeprefix(_PREFIX) for name in found}))

    def versions(self, name: str) -> tuple[int, ...]:
        """The versions of a model, ascending.

        Raises:
            NotFoundError: There is none of that name.
        """
        return tuple(sorted(self._files(name)))

    def aliases(self, name: str) -> dict[str, int]:
        """A model's aliases, sorted, and the versions that they name, without damaged ones.

        Raises:
            NotFoundError: There is none of that name.
        """
        self.versions(name)
        return self._aliases.of(Path(self._folder_of(name)))

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Lets an alias name a version, whichever it named before.

        Raises:
            MalformedError: It is no alias.
            NotFoundError: There is no such version.
            FolderError: It cannot be written.
        """
        with self.folder.locked():
            self.stamp(name, version)
            self._aliases.set(Path(self._folder_of(name)), alias, version)

    def remove_alias(self, name: str, alias: str) -> None:
        """Deletes an alias; its version stays.

        Raises:
            NotFoundError: There is no such alias.
        """
        with self.folder.locked():
            self._aliases.remove(Path(self._folder_of(name)), alias)

    def is_loaded(self, name: str, version: int) -> bool:
        """Whether a version is in memory.

        Raises:
            NotFoundError: There is none.
        """
        return (name, version, self.stamp(name, version)) in self._loaded

    def unload(self, name: str) -> None:
        """Lets go of a model's versions in memory; who asks for one gets it from disk again.

        Raises:
            NotFoundError: There is none of that name.
        """
        files = self._files(name)
        for version in files:
            with suppress(NotFoundError):  # another process has just removed it
                self._loaded.discard((name, version, self._stamp_of(files, name, version)))

    def remove(self, name: str, version: int) -> None:
        """Deletes a version.

        Raises:
            NotFoundError: There is none.
            ConflictError: An alias names it.
            FolderError: An alias is damaged, or the version cannot be deleted.
        """
        path = self._path(name, version)
        with self.folder.locked():
            self._aliases.check_unnamed(path.parent, version)
            self._loaded.discard((name, version, self.stamp(name, version)))
            self.folder.remove(path)

    def _folder_of(self, name: str) -> str:
        if not re.fullmatch(NAME_PATTERN, name):
            raise MalformedError(
                f"{name[:64]!r} is no name of a model: take up to 64 letters, digits, dots, dashes "
                "and underscores, first a letter or digit"
            )
        return f"{self.folder.root}/{_PREFIX}{name}"

    def _path(self, name: str, version: int) -> Path:
        folder = self._folder_of(name)
        _check_version(version)
        return Path(folder, f"{version}{_ENDING}")

    def _files(self, name: str) -> dict[int, os.DirEntry[str]]:
        """The file of each version.

        Raises:
            NotFoundError: There is none of that name.
        """
        found = {}
        folder = self._folder_of(name)
        with self.folder.io("read"), suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(_ENDING):
                    found[int(entry.name.removesuffix(_ENDING))] = entry
        if not found:
            raise NotFoundError(f"there is no model {name}: give it to the service first")
        return found

    def stamp(self, name: str, version: int) -> int:
        """What tells a version from one that was there before it under the same number.

        That is when its file came there, in nanoseconds since 1970.

        Raises:
            NotFoundError: There is none.
        """
        return self._stamp_of(self._files(name), name, version)

    def _stamp_of(self, files: Mapping[int, os.DirEntry[str]], name: str, version: int) -> int:
        _check_version(version)
        try:
            with self.folder.io("read"):
                return files[version].stat().st_mtime_ns
        except (KeyError, FileNotFoundError):  # another process may have just removed it
            raise _unknown(name, version) from None

    def _read(self, name: str, version: int) -> Model:
        message = self._kept(name, version)
        try:
            description = parse(ModelDescription, message.document)
            return self.make(name, version, description, message.tensors)
        except (MalformedError, InputError) as error:
            raise _damaged(name, version, error) from error

    def _kept(self, name: str, version: int) -> Message:
        """A version's file, which is checked by its digest."""
        try:
            with self.folder.io("read"):
                return read(self._path(name, version), is_own=True)
        except FileNotFoundError:
            raise _unknown(name, version) from None
        except MalformedError as error:
            raise _damaged(name, version, error) from error


def _check_version(version: int) -> None:
    if not 1 <= version <= LATEST:
        raise MalformedError(f"{version} is no version: take a number from 1 to {LATEST}")


def _damaged(name: str, version: int, error: Exception) -> FolderError:
    return FolderError(
        f"version {version} of {name} is damaged on disk ({error}): delete it, and give it to the "
        "service again"
    )


def _unknown(name: str, version: int) -> NotFoundError:
    return NotFoundError(f"there is no version {version} of the model {name}")

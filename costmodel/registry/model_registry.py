"""The model registry: cost models by id, and the aliases of two of them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from hetune.costmodel.evaluate.report import MEASUREMENTS, Report
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.model import bundle
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.manifest import ModelManifest
from hetune.costmodel.registry.aliases import CANDIDATE, Aliases
from hetune.costmodel.registry.gate import objections
from hetune.variants.errors import ModelError, PromotionError
from hetune.variants.kernel.device import Device

_log = logging.getLogger(__name__)
_LOCK_SECONDS = 60.0
_ID = re.compile(r"[0-9]{8}-[0-9a-f]{12}")
_CALIBRATIONS = "calibrations"
_MORE_GRAPHS = (
    " (judged on {}). More graphs make better models: run `hetune profile default`, or a campaign "
    "of graphs like yours, train again, and promote that model"
)

Stamp = tuple[int, int, int] | None
"""Of a file, which differs when it was replaced; None where there is none that can be looked at."""

State = tuple[Stamp, Stamp]


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A stored model.

    Attributes:
        id: Its name in the model registry.
        aliases: "candidate", "champion", both or none.
        manifest: What it says of itself.
    """

    id: str
    aliases: tuple[str, ...]
    manifest: ModelManifest


class ModelRegistry:
    """A folder of cost models for one device. Creating the object does no I/O.

    ```
    <root>/             0700
        <id>/           a bundle; any other folder is none
        aliases.json    which is the candidate and which the champion, and all changes of that
        aliases.lock    held while that changes
        calibrations/   what `hetune calibrate` learned of machines
        cuda/           all of this for GPUs
    ```

    Args:
        root: The folder; by default $HETUNE_MODELS, or else `models` in the user's data folder.
        device: Of its models. Those for CPUs lie in the folder itself, those for another device in
            a folder of its name therein.

    Attributes:
        root: Where its models lie.
        device: What they are for.
    """

    def __init__(self, root: Path | None = None, device: Device = "cpu") -> None:
        self._base = _default_root() if root is None else Path(root)
        self.root = self._base if device == "cpu" else self._base / device
        self.device = device

    def of(self, device: Device) -> ModelRegistry:
        """The model registry for a device in the same folder."""
        return self if device == self.device else ModelRegistry(self._base, device)

    def add(self, model: CostModel) -> str:
        """Stores a model, and makes it the candidate.

        Returns:
            Its id; the same for the same model.

        Raises:
            ModelError: The model is for another device, or the folder cannot be written.
        """
        if model.manifest.device != self.device:
            raise ModelError(
                f"the cost model is for the device {model.manifest.device!r}, and the model "
                f"registry {self.root} for {self.device!r}: add it to that device's "
                "(`ModelRegistry.of`)"
            )
        key = f"{model.manifest.created_at[:10].replace('-', '')}-{bundle.digest(model)[:12]}"
        self.prepare()
        if not (self.root / key).exists():
            bundle.save(model, self.root / key)
        self._change(lambda aliases: aliases.added(key))
        return key

    def find(self, name: str) -> str:
        """The id that an alias stands for, or that is given.

        Raises:
            ModelError: There is no such model.
        """
        key = self.aliases().as_dict().get(name, name)
        known = self.ids()
        if key not in known:
            option = "" if self.device == "cpu" else f" --device {self.device}"
            there = (
                f"there are {', '.join(known)}"
                if known
                else (
                    f"there are none; run `hetune profile{option}` and `hetune train{option}` "
                    "to make one"
                )
            )
            raise ModelError(
                f"there is no cost model {name!r} in the model registry {self.root}: {there}"
            )
        return key

    def load(self, name: str) -> CostModel:
        """A model, by id or alias.

        Raises:
            ModelError: There is no such model, or it cannot be used.
        """
        return self._loaded(self.find(name))

    def ids(self) -> list[str]:
        """Of all models, whether they can be read or not, in order.

        Raises:
            ModelError: The model registry cannot be read.
        """
        try:
            return sorted(path.name for path in self.root.iterdir() if _ID.fullmatch(path.name))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._unusable("list", error) from error

    def entries(self) -> tuple[RegisteredModel, ...]:
        """All models whose manifests can be read, the newest first."""
        aliases = self.aliases()
        found = []
        for key in self.ids():
            try:
                found.append(self._entry(key, aliases))
            except ModelError as error:
                _log.warning("left out of the list: %s", error)
        return tuple(sorted(found, key=lambda e: (e.manifest.created_at, e.id), reverse=True))

    def entry(self, name: str) -> RegisteredModel | None:
        """A model by id or alias; None if there is none.

        Raises:
            ModelError: Its manifest cannot be read.
        """
        aliases = self.aliases()
        key = aliases.as_dict().get(name, name)
        # Compared with what is there: a request's name is never a part of a path.
        return self._entry(key, aliases) if key in self.ids() else None

    def aliases(self) -> Aliases:
        """What the aliases name, and the history of that.

        Raises:
            ModelError: Their file is damaged.
        """
        return Aliases.read(self.aliases_file)

    def promote(
        self,
        name: str = CANDIDATE,
        *,
        report: Report,
        champion_report: Report | None = None,
        champion: str | None = None,
    ) -> str:
        """Makes a model the champion, if it does not lose to the present one (`objections`).

        Args:
            name: Id or alias.
            report: Its evaluation.
            champion_report: The present champion's, on the same inputs. Not needed where there is
                no champion, or none that can be loaded.
            champion: Id of the model that this is of; the present champion's if None.

        Returns:
            The new champion's id.

        Raises:
            PromotionError: The model loses, or the champion was not evaluated, or is another one.
            ModelError: There is no such model, or it cannot be used.
        """
        key = self.find(name)
        self._loaded(key)

        def change(aliases: Aliases) -> Aliases:
            if aliases.champion == key:
                return aliases
            found = objections(report, champion_report)
            advice = _MORE_GRAPHS.format(_judged_on(report)) if found else ""
            if champion_report is None and self._usable(aliases.champion):
                found += (f"the champion, {aliases.champion}, was not evaluated: evaluate both",)
            if champion is not None and aliases.champion != champion:
                found += (f"the champion is {aliases.champion} by now, not {champion}: try again",)
            if found:
                reasons = "; ".join(found)
                raise PromotionError(f"the cost model {key} is not promoted: {reasons}{advice}")
            return aliases.promoted(key)

        self._change(change)
        return key

    def rollback(self) -> str | None:
        """Makes the champion before the present one the champion again.

        Returns:
            Its id; None if the first one was rolled back, so that there is no champion now.

        Raises:
            PromotionError: There is no champion.
        """

        def change(aliases: Aliases) -> Aliases:
            if aliases.champion is None:
                raise PromotionError(
                    f"there is no champion in the model registry {self.root} to roll back: promote "
                    "one first"
                )
            return aliases.rolled_back()

        return self._change(change).champion

    @property
    def aliases_file(self) -> Path:
        """The file of aliases; replaced when they change."""
        return self.root / "aliases.json"

    @property
    def calibrations(self) -> Path:
        """The folder of calibrations, which lies among the models."""
        return self.root / _CALIBRATIONS

    def _entry(self, key: str, aliases: Aliases) -> RegisteredModel:
        try:
            manifest = bundle.read_manifest(self.root / key, _digest(key))
        except ModelError as error:
            raise ModelError(f"the cost model {self.root / key} cannot be used: {error}") from error
        named = tuple(alias for alias, target in aliases.as_dict().items() if target == key)
        return RegisteredModel(key, named, manifest)

    def _loaded(self, key: str) -> CostModel:
        return bundle.load(self.root / key, _digest(key))

    def _usable(self, key: str | None) -> bool:
        if key is None:
            return False
        try:
            self._loaded(key)
        except ModelError as error:
            _log.warning("the champion does not count: %s", error)
            return False
        return True

    @property
    def state(self) -> State:
        """Differs when another champion or another calibration of this machine may be there."""
        calibration = self.calibrations / f"{this_machine().digest}.json"
        return _stamp(self.aliases_file), _stamp(calibration)

    def prepare(self) -> None:
        """Makes the folder, readable by its owner alone.

        Raises:
            ModelError: It cannot be made.
        """
        try:
            for folder in dict.fromkeys((self._base, self.root)):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if folder.stat().st_mode & 0o077:
                    folder.chmod(0o700)
        except OSError as error:
            raise self._unusable("create", error) from error

    def _change(self, change: Callable[[Aliases], Aliases]) -> Aliases:
        self.prepare()
        try:
            with FileLock(self.root / "aliases.lock", timeout=_LOCK_SECONDS):
                before = Aliases.read(self.aliases_file)
                after = change(before)
                if after is not before:
                    after.write(self.aliases_file)
                return after
        except Timeout:
            raise ModelError(
                f"the model registry {self.root} is busy: another process has held "
                f"aliases.lock for {_LOCK_SECONDS:g} s; end it, or set HETUNE_MODELS to another "
                "folder"
            ) from None
        except OSError as error:
            raise self._unusable("write", error) from error

    def _unusable(self, verb: str, error: OSError) -> ModelError:
        return ModelError(
            f"cannot {verb} the model registry {self.root} ({error.strerror or error}): make "
            "it writable, free some space, or set HETUNE_MODELS to another folder"
        )


def _default_root() -> Path:
    chosen = os.environ.get("HETUNE_MODELS")
    return Path(chosen) if chosen else platformdirs.user_data_path("hetune") / "models"


def _judged_on(report: Report) -> str:
    inputs, families = len(report.outcomes), len(report.by("family"))
    of = f"{inputs:,} inputs of {families:,} graph famil{'y' if families == 1 else 'ies'}"
    return "; ".join((of, *filter(None, [report.about.get(MEASUREMENTS)])))


def _digest(key: str) -> str:
    """What the SHA-256 of a model's manifest begins with: the end of its id."""
    return key.rpartition("-")[2]


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns

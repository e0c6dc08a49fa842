"""What `hetune calibrate` learned of this machine, kept on disk for every later process."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

from hetune.costmodel.features.devices import Rates, device_of, known, rates_from
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.finite import finite
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.variants.errors import ModelError
from hetune.variants.kernel.device import Device
from hetune.variants.registry.atomic_files import write_atomically
from hetune.variants.registry.sealed_json import sealed, unsealed

_log = logging.getLogger(__name__)

FORMAT = 1
"""Version of the files; those of another one are not read."""

ROOFLINE = "roofline"
"""The `model_id` of a calibration that was made where there was no cost model."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine as its own runs show it.

    Attributes:
        machine: Rates for the roofline model, of a core or of a GPU: measured ones, or those that
            the model of `model_id` was trained with, where it predicts better with them.
        offsets: By kernel family, what is added to the logarithm of a predicted time; made for
            the model of `model_id` with `machine`. Families that were not measured are missing.
        fingerprint: Digest of the machine's fingerprint.
        model_id: The cost model that the offsets correct: its manifest's digest, or `ROOFLINE`.
        created_at: When, in UTC.
        error_before: How far predictions were off before: the median over measured launches of
            the absolute log(measured / predicted). None if none was measured.
        error_after: The same with the rates and with offsets that the launch's own problem had no
            part in.
        measured: The measured rates, for all other models; None if `machine` holds them.
    """

    machine: Rates
    offsets: Mapping[str, float]
    fingerprint: str
    model_id: str
    created_at: datetime
    error_before: float | None
    error_after: float | None
    measured: Rates | None = None

    @property
    def device(self) -> Device:
        """What the variants are made for whose times it corrects."""
        return device_of(self.machine)

    def as_json(self) -> str:
        """The calibration as JSON text."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record["machine"] = asdict(self.machine)
        record["measured"] = None if self.measured is None else asdict(self.measured)
        record["offsets"] = dict(sorted(self.offsets.items()))
        record["created_at"] = self.created_at.isoformat()
        return (
            json.dumps(
                sealed({"format": FORMAT, "device": self.device, **record}),
                indent=1,
                allow_nan=False,
            )
            + "\n"
        )

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """The calibration that `as_json` made the text of.

        Raises:
            ValueError: The text is none, one of another format, or damaged.
        """
        try:
            record = unsealed(json.loads(text))
            if record.pop("format") != FORMAT:
                raise ValueError("written by another version of hetune")
            device = known(record.pop("device", "cpu"))
            record["machine"] = rates_from(device, record["machine"])
            if (measured := record.setdefault("measured", None)) is not None:
                record["measured"] = rates_from(device, measured)
            record["offsets"] = {str(k): finite(v) for k, v in record["offsets"].items()}
            record["created_at"] = datetime.fromisoformat(record["created_at"])
            for name in ("error_before", "error_after"):
                record[name] = None if record[name] is None else finite(record[name])
            if not all(isinstance(record[name], str) for name in ("fingerprint", "model_id")):
                raise ValueError("fingerprint and model_id are texts")
            return cls(**record)
        except (KeyError, TypeError, AttributeError, RecursionError, ModelError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None

    def save(self, folder: Path | None = None) -> Path:
        """Writes the calibration whole or not at all; the machine's earlier one is replaced.

        Args:
            folder: Where to; `calibrations_folder` of its device if None.

        Returns:
            The file.

        Raises:
            ModelError: It cannot be written.
        """
        if folder is None:
            ModelRegistry(device=self.device).prepare()
            folder = calibrations_folder(self.device)
        path = folder / f"{self.fingerprint}.json"
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(path, self.as_json().encode())
        except OSError as error:
            raise ModelError(
                f"cannot write the calibration {path} ({error.strerror or error}): free some "
                "space, make the folder writable, or set HETUNE_MODELS to another one"
            ) from error
        return path


def calibrations_folder(device: Device = "cpu") -> Path:
    """Beside the cost models of a device: in HETUNE_MODELS, or in the user's data folder."""
    return ModelRegistry(device=device).calibrations


def load_calibration(folder: Path | None = None, device: Device = "cpu") -> Calibration | None:
    """This machine's calibration; None if there is none, or none that can be used. Never fails.

    Args:
        folder: Where from; `calibrations_folder` of the device if None.
        device: What the variants are made for whose times it corrects.
    """
    digest = this_machine().digest
    path = (folder or calibrations_folder(device)) / f"{digest}.json"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("ignored the calibration %s, which cannot be read: %s", path, error)
        return None
    try:
        calibration = Calibration.from_json(text)
        if calibration.fingerprint != digest:
            raise ValueError(f"it is of the machine {calibration.fingerprint}")
        if calibration.device != device:
            raise ValueError(f"it is of the device {calibration.device!r}")
    except ValueError as error:
        _log.warning(
            "ignored the damaged calibration %s (%s): `hetune calibrate` makes a new one",
            path,
            error,
        )
        return None
    return calibration

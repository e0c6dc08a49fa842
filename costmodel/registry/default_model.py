"""The model that answers where nobody names one: the champion, else the one in the package."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

from hetune.costmodel.fingerprint import Fingerprint, difference, this_machine
from hetune.costmodel.model import bundle
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.manifest import ModelManifest
from hetune.costmodel.registry.calibration import load_calibration
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.errors import HetuneError, ModelError
from hetune.variants.kernel.device import Device
from hetune.variants.registry.vectors import WIDEST

_log = logging.getLogger(__name__)
_PACKAGED = Path(__file__).resolve().parents[1] / "bundle"
_logged: set[str] = set()


class ForeignModelWarning(UserWarning):
    """A cost model was trained on another machine than the one that it chooses for."""


def packaged(device: Device = "cpu") -> CostModel | None:
    """The model that ships in the package; None if none does.

    There is one for CPUs with AVX-512, and one for all others, trained on one with AVX2.

    Args:
        device: What its variants are made for.

    Raises:
        ModelError: It cannot be used.
    """
    folder = _PACKAGED / (_registers() if device == "cpu" else device)
    return bundle.load(folder) if folder.is_dir() else None


def load_best(registry: ModelRegistry | None = None, device: Device = "cpu") -> CostModel | None:
    """The champion of a model registry, else the model in the package, else None. Never fails.

    Takes what `best_and_failure` takes.
    """
    return best_and_failure(registry, device)[0]


def best_and_failure(
    registry: ModelRegistry | None = None, device: Device = "cpu"
) -> tuple[CostModel | None, bool]:
    """What `load_best` finds, and whether a model that should answer could not be loaded.

    What stands in the way is logged. A champion of another machine brings a `ForeignModelWarning`
    unless it was calibrated here; that the package's model is of another machine is the ordinary
    case, and logged once.

    Args:
        registry: The user's by default; one for another device stands for that device's beside it.
        device: What variants are made for.
    """
    here, failed = (registry or ModelRegistry()).of(device), False
    try:
        if here.aliases().champion is not None:
            champion = here.load("champion")
            if not calibrated(champion, here):
                warn_if_foreign(champion)
            return champion, False
    except (ModelError, OSError) as error:
        _log.warning("the champion does not answer: %s", error)
        failed = True
    try:
        model = packaged(device)
    except (ModelError, OSError) as error:
        _log.warning("the model in the package does not answer: %s", error)
        return None, True
    if model is None:
        _log_once(f"no cost model for the device {device!r}, so the roofline model answers")
    elif not calibrated(model, here) and (text := foreign(model)):
        _log_once(f"the model in the package answers; {text}")
    return model, failed


def calibrated(model: CostModel, registry: ModelRegistry | None = None) -> bool:
    """Whether `hetune calibrate` has adapted a model to this machine.

    Args:
        model: Any.
        registry: Where calibrations are kept; the user's by default.
    """
    device = model.manifest.device
    found = load_calibration((registry or ModelRegistry()).of(device).calibrations, device)
    return found is not None and found.model_id == model.manifest.digest


def is_trained_here(model: CostModel) -> bool:
    """Whether a model was trained on this machine, as far as that matters for its device."""
    manifest = model.manifest
    return not difference(manifest.fingerprint, this_machine(), manifest.device)


def warn_if_foreign(model: CostModel, machine: Fingerprint | None = None) -> None:
    """Warns where a model was trained on another machine (`ForeignModelWarning`).

    Args:
        model: It is about to be used.
        machine: Where; this one by default.
    """
    if text := foreign(model, machine):
        warnings.warn(text, ForeignModelWarning, stacklevel=3)


def foreign(model: CostModel, machine: Fingerprint | None = None) -> str:
    """What is to be said of a model of another machine; empty if it is of this one.

    Args:
        model: Any.
        machine: Where it is used; this machine by default.
    """
    device = model.manifest.device
    changes = difference(model.manifest.fingerprint, machine or this_machine(), device)
    if not changes:
        return ""
    option = "" if device == "cpu" else f" --device {device}"
    return (
        f"it was trained on another machine ({'; '.join(changes)}). It corrects this machine's "
        "roofline by what it learned on that one, so its choices may be slower than they could "
        f"be{_known_cost(model.manifest)}: run `hetune calibrate{option}` to adapt it"
    )


def _registers() -> str:
    """Folder of the model whose kernels have vector registers like this machine's."""
    try:
        lanes = CppBackend().vectors.lanes
    except (HetuneError, OSError):  # no compiler, and so no kernels that a model could choose among
        lanes = 0
    return "avx512" if lanes >= WIDEST.lanes else "avx2"


def _known_cost(manifest: ModelManifest) -> str:
    """What choices took where the model was judged; empty if it was not."""
    mine, roofline = (
        manifest.metrics.get(n, {}).get("regret") for n in (manifest.target, "roofline")
    )
    if mine is None or roofline is None:
        return ""
    return (
        ". What that costs here is not known; on graphs that were held out there they took "
        f"{mine:.3f} times the least time (the roofline model's {roofline:.3f})"
    )


def _log_once(text: str) -> None:
    """Says it in the log, once."""
    if text not in _logged:
        _logged.add(text)
        _log.info("%s", text)

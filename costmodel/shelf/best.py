"""The model that answers where nobody names one: the champion, else the one in the package."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

from hetune.costmodel.calibration import load_calibration
from hetune.costmodel.fingerprint import Fingerprint, difference, this_machine
from hetune.costmodel.model import bundle
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.shelf.shelf import Shelf
from hetune.variants.errors import ModelError

_log = logging.getLogger(__name__)
_PACKAGED = Path(__file__).resolve().parents[1] / "bundle"
_mentioned: set[str] = set()


class ForeignModelWarning(UserWarning):
    """A cost model was trained on another machine than the one that it chooses for."""


def packaged() -> CostModel | None:
    """The model that ships in the package; None if none does.

    Raises:
        ModelError: It cannot be used.
    """
    return bundle.load(_PACKAGED) if _PACKAGED.is_dir() else None


def load_best(shelf: Shelf | None = None) -> CostModel | None:
    """The champion of a shelf, else the model in the package, else None. Never fails.

    What stands in the way is logged. A champion of another machine brings a `ForeignModelWarning`
    unless it was calibrated here; that the package's model is of another machine is the ordinary
    case, and logged once.

    Args:
        shelf: The user's by default.
    """
    here = shelf or Shelf()
    try:
        if here.aliases().champion is not None:
            champion = here.load("champion")
            if not calibrated(champion, here):
                warn_if_foreign(champion)
            return champion
    except (ModelError, OSError) as error:
        _log.warning("the champion does not answer: %s", error)
    try:
        model = packaged()
    except (ModelError, OSError) as error:
        _log.warning("the model in the package does not answer: %s", error)
        return None
    if model is not None and not calibrated(model, here):
        text = foreign(model)
        if text and text not in _mentioned:
            _mentioned.add(text)
            _log.info("the model in the package answers; %s", text)
    return model


def calibrated(model: CostModel, shelf: Shelf | None = None) -> bool:
    """Whether `hetune calibrate` has adapted a model to this machine.

    Args:
        model: Any.
        shelf: Where calibrations are kept; the user's by default.
    """
    found = load_calibration((shelf or Shelf()).calibrations)
    return found is not None and found.model_id == model.manifest.data.digest


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
    changes = difference(model.manifest.fingerprint, machine or this_machine())
    if not changes:
        return ""
    scores = model.manifest.metrics.get(model.manifest.target)
    regret = f"; its regret of {scores['regret']:.3f} there says little here" if scores else ""
    return (
        f"it was trained on another machine ({'; '.join(changes)}). It corrects this machine's "
        f"roofline by what it learned on that one, so its choices may be slower than they could "
        f"be{regret}: run `hetune calibrate` to adapt it"
    )

"""A cost model as it chooses on a machine that it was calibrated on, by `Selector.adapted`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.calibration import load_calibration
from hetune.costmodel.features.devices import Rates
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.shelf.best import is_at_home


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated(CostModel):
    """A model whose predictions a calibration corrects.

    Attributes:
        offsets: By kernel family, what is added to the logarithm of seconds.
    """

    offsets: Mapping[str, float] = field(default_factory=dict)

    def predict(
        self,
        families: tuple[str, ...],
        columns: NDArray[np.float64],
        graph_features: NDArray[np.float64],
        machine: Rates,
        threads: int,
    ) -> NDArray[np.float64]:
        """As the model predicts, corrected."""
        found = CostModel.predict(self, families, columns, graph_features, machine, threads)
        scale: NDArray[np.float64] = np.exp([self.offsets.get(family, 0.0) for family in families])
        return found * scale


def calibrated(model: CostModel, measured_on: str) -> tuple[Calibrated, Rates]:
    """A model with its corrections for this machine, and the rates that it is asked with.

    Args:
        model: One that was trained elsewhere.
        measured_on: Digest of the machine that choices are judged by.

    Raises:
        SystemExit: No installation is in that state, so there is nothing to judge.
    """
    calibration = load_calibration()
    if measured_on != this_machine().digest:
        raise SystemExit(f"measured on {measured_on}: a calibration counts on its own machine only")
    if is_at_home(model):
        raise SystemExit("the model was trained on this machine, where no calibration counts")
    if calibration is None or calibration.model_id != model.manifest.digest:
        raise SystemExit("not calibrated for this model: run `hetune calibrate` where it answers")
    corrected = Calibrated(model.families, model.manifest, offsets=calibration.offsets)
    return corrected, calibration.machine

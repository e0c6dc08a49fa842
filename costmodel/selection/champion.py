"""The selector of a model registry's champion, also after that has changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.registry.default_model import calibrated, foreign, packaged
from hetune.costmodel.registry.model_registry import ModelRegistry, Stamp, State
from hetune.costmodel.selection.selector import LEARNED, RETRY_SECONDS, Selector
from hetune.variants.errors import ModelError
from hetune.variants.fork_locks import new_lock

PACKAGE, ROOFLINE, GIVEN = "package", "roofline", "given"
"""Names of what chooses where no champion does: the package's model, none, what a caller gave."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Active:
    """What chooses.

    Attributes:
        selector: It.
        model: Id of its cost model in the model registry, or `PACKAGE`, `ROOFLINE`, `GIVEN`.
        since: When it took over, UTC.
    """

    selector: Selector
    model: str
    since: datetime


class ChampionFollower:
    """Follows the champion of a model registry, else takes the package's model. Never fails.

    `refresh` looks for another champion, or another calibration of this machine, and puts a new
    selector in place of the old one. Who holds the old one goes on with it. A champion that
    cannot be read, or does not answer, changes nothing: its reason is in the log, and it is tried
    again after half a minute, or when the aliases change. At the start, where nothing is in place
    yet, the package's model stands in for such a champion, and the roofline model for that.

    Args:
        registry: Whose champion, for its device; also where calibrations are.
        selector: Chooses in place of any champion, for good.
        clock: Tells seconds.
        begins: Whether to look now, which compiles what choosing needs. If not, the roofline model
            is in place until `begin` is called.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        selector: Selector | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        begins: bool = True,
    ) -> None:
        self._registry, self._clock = registry, clock
        self._looking = new_lock()
        self._seen: State | None = None
        self._followed: tuple[str | None, Stamp] | None = None
        self._problem: str | None = None
        self._retry = 0.0
        self._is_fixed, self._has_begun = selector is not None, False
        name = GIVEN if selector else ROOFLINE
        self._active = Active(selector or Selector(device=registry.device), name, _now())
        if begins:
            self.begin()

    def begin(self) -> None:
        """Looks for the first time; does nothing if that was done."""
        if self._has_begun or self._is_fixed:
            return
        self._look()
        if self.problem is not None:
            self._stand_in()
        self._has_begun = True

    @property
    def active(self) -> Active:
        """What chooses now. Hold it for as long as choices have to agree."""
        return self._active

    @property
    def problem(self) -> str | None:
        """Why the champion is not what chooses; None if it is."""
        return self._problem

    def refresh(self) -> bool:
        """Looks whether something else should choose, and lets it. Costs two looks at files.

        Returns:
            Whether something else chooses now; it never does before `begin`.
        """
        return self._has_begun and self._look()

    def _look(self) -> bool:
        with self._looking:
            seen = self._registry.state
            is_due = self._problem is not None and self._clock() >= self._retry
            if seen == self._seen and not is_due:
                return False
            self._seen = seen
            try:
                return self._follow(seen[1])
            except Exception as error:  # whatever is wrong with it, the old one goes on
                self._keep(error)
                return False

    def _follow(self, calibration: Stamp) -> bool:
        champion = self._registry.aliases().champion
        wanted = champion, calibration
        if wanted != self._followed:
            model = self._registry.load(champion) if champion else packaged(self._registry.device)
            self._put(model, champion or PACKAGE)
            self._followed, self._problem = wanted, None
            return True
        if self._problem is not None:
            _log.info("the cost model %s is the one that should choose again", self._active.model)
        self._problem = None
        return False

    def _put(self, model: CostModel | None, name: str) -> None:
        if model is None:
            name = ROOFLINE
        selector = Selector.adapted(model, self._registry)
        if model is not None:
            _check(selector)
            if not calibrated(model, self._registry) and (text := foreign(model)):
                level = logging.INFO if name == PACKAGE else logging.WARNING
                _log.log(level, "the cost model %s: %s", name, text)
        before = self._active.model if self._has_begun else "none"
        self._active = Active(selector, name, _now())
        _log.info("the cost model %s chooses from now on; before: %s", name, before)

    def _keep(self, error: Exception) -> None:
        self._retry = self._clock() + RETRY_SECONDS
        reason = str(error) or type(error).__name__
        if reason != self._problem:
            text = "the cost model %s goes on choosing, for the champion cannot be used: %s"
            unexpected = None if isinstance(error, ModelError | OSError) else error
            _log.warning(text, self._active.model, reason, exc_info=unexpected)
        self._problem = reason

    def _stand_in(self) -> None:
        try:
            self._put(packaged(self._registry.device), PACKAGE)
        except Exception as error:
            _log.warning("the model in the package does not answer: %s", error)


def _check(selector: Selector) -> None:
    """Lets a model choose for a tiny graph, which also makes it ready to answer at once."""
    if selector.warm_up().source != LEARNED:
        raise ModelError(
            "the cost model gives no predictions for a graph of one edge, as the log says: "
            "promote another one, or roll back"
        )


def _now() -> datetime:
    return datetime.now(UTC)

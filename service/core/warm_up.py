"""Models that are ready to run before the service says that it is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from hetune.costmodel.following import Following, Given
from hetune.service.core.models import ModelStore
from hetune.variants.errors import HetuneError, NotReadyError
from hetune.variants.runtime.build import build

_log = logging.getLogger(__name__)


class WarmUp:
    """Loads models, compiles all of their variants' kernels that are not compiled yet, and chooses.

    What fails is logged, and the service does not become ready: whoever named the model wants it.

    Args:
        models: Where they are.
        following: Who chooses variants.
        names: Of models, or ``name@alias``.
        builds_for: What kernels are compiled for, as `build` takes it; None for nothing.
    """

    def __init__(
        self,
        models: ModelStore,
        following: Following | Given,
        names: Iterable[str],
        builds_for: str | None,
    ) -> None:
        self._models, self._following, self._builds_for = models, following, builds_for
        self._left = dict.fromkeys(names, "is being loaded")
        self._stopped = threading.Event()

    def run(self) -> None:
        """Does it, model by model; takes as long as compiling does."""
        for name in list(self._left):
            if self._stopped.is_set():
                return
            try:
                self._load(name)
            except HetuneError as error:
                _log.error("the model %s, which is wanted at the start, fails: %s", name, error)
                self._left[name] = "fails: the service's log has the reason"
            else:
                _log.info("the model %s is ready to run", name)
                del self._left[name]

    def stop(self) -> None:
        """Lets `run` end after the model that it is at."""
        self._stopped.set()

    def check(self) -> None:
        """Checks that all are ready.

        Raises:
            NotReadyError: One is not, or failed.
        """
        for name, state in list(self._left.items()):
            raise NotReadyError(f"the model {name}, which is wanted at the start, {state}")

    def _load(self, name: str) -> None:
        model = self._models.get(name)
        if self._builds_for is not None:
            programs = (module.program() for module in model.modules)
            report = build(programs, device=self._builds_for).report
            for kernel, reason in report.failed.items():
                raise NotReadyError(f"its kernel {kernel} does not compile: {reason}")
            _log.info(
                "%d kernels compiled for the model %s in %.1f s, beside %d that were there",
                report.built,
                name,
                report.seconds,
                report.reused,
            )
        for module in model.modules:
            self._following.active.selector.warm_up(module)

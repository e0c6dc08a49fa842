"""What is done before the service says that it is ready: compiling, and loading models."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from hetune.costmodel.selection.champion import ChampionFollower
from hetune.service.core.models.models import ModelStore
from hetune.variants.errors import CompileError, HetuneError, NotReadyError, RegistryError
from hetune.variants.runtime.build import build

RETRY_SECONDS = 30.0
"""Until what could not be compiled is tried again."""
_QUIET_SECONDS = 5.0
"""Compiling that takes longer has a line in the log."""
_log = logging.getLogger(__name__)


class WarmUp:
    """Compiles what every run needs; then loads models, compiles their kernels, and chooses.

    What cannot be compiled is tried again every half minute: until then nothing runs. A model that
    fails is logged, and the service does not become ready: whoever named the model wants it.

    Args:
        models: Where they are.
        follower: Who chooses variants.
        names: Of models, or ``name@alias``.
        builds_for: What kernels are compiled for, as `build` takes it; None for nothing.
        prepare: Compiles what every run needs; None where that was done. It raises `CompileError`
            or `RegistryError`.
    """

    def __init__(
        self,
        models: ModelStore,
        follower: ChampionFollower,
        names: Iterable[str],
        builds_for: str | None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._models, self._follower, self._builds_for = models, follower, builds_for
        self._left = dict.fromkeys(names, "is being loaded")
        self._stopped = threading.Event()
        self._prepare = prepare
        self._begun, self._trouble = time.monotonic(), ""

    @property
    def is_prepared(self) -> bool:
        """Whether layers can run."""
        return self._prepare is None

    def run(self) -> None:
        """Does it; takes as long as compiling does."""
        if self._is_prepared_now():
            self._load_all()

    def stop(self) -> None:
        """Lets `run` end after what it is at."""
        self._stopped.set()

    def check(self) -> None:
        """Checks that all is done.

        Raises:
            NotReadyError: It is not, or failed.
        """
        self.check_prepared()
        if not self.is_prepared:
            seconds = time.monotonic() - self._begun
            raise NotReadyError(f"warming up: compiling for {seconds:.0f} s")
        for name, state in list(self._left.items()):
            raise NotReadyError(f"the model {name}, which is wanted at the start, {state}")

    def check_prepared(self) -> None:
        """Checks that what every run needs was compiled, or is still being compiled.

        Raises:
            NotReadyError: It cannot be.
        """
        if self._trouble:
            raise NotReadyError(f"kernels cannot be compiled: {self._trouble}")

    def _is_prepared_now(self) -> bool:
        """Compiles what every run needs, again and again until it is done or `stop` is called."""
        while self._prepare is not None and not self._stopped.is_set():
            self._begun = time.monotonic()
            slow = threading.Timer(_QUIET_SECONDS, self._say_slow)
            slow.daemon = True
            slow.start()
            try:
                self._prepare()
            except (CompileError, RegistryError) as error:
                if (trouble := str(error).partition("\n")[0]) != self._trouble:
                    _log.error("the service is not ready: %s", error)
                self._trouble = trouble
            else:
                self._prepare, self._trouble = None, ""
                return True
            finally:
                slow.cancel()
            self._stopped.wait(RETRY_SECONDS)
        return not self._stopped.is_set()

    def _say_slow(self) -> None:
        _log.warning(
            "compiling what every run needs takes more than %.0f s; the service is not ready until "
            "that has ended",
            _QUIET_SECONDS,
        )

    def _load_all(self) -> None:
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

    def _load(self, name: str) -> None:
        model = self._models.get(name)
        precision = model.description.precision
        if self._builds_for is not None:
            programs = (module.program() for module in model.modules)
            report = build(programs, device=self._builds_for, tables=precision).report
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
            self._follower.active.selector.warm_up(module, precision)

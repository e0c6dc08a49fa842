"""One variant on one problem: bound, checked, warmed up, then run round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from hetune.profiling.measure.bench import Bench
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.oracle import Oracle
from hetune.profiling.measure.stopwatch import Mark, TimedRun
from hetune.profiling.records import Status
from hetune.variants.exhaustion import is_out_of_memory
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.executable import Executable
from hetune.variants.testing.conformance import TOLERANCE


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a candidate has no times."""

    status: Status
    error: str


class CandidateRun:
    """A variant that is measured.

    Args:
        variant: What.
        bind: Makes it ready to run on the graph.
        features: A tensor for each feature.
        weights: What `weights_of` gives for its plan.
        limits: A candidate that needs more has no times.
        bench: Where it runs, and what times it.

    Attributes:
        variant: What is measured.
        loss: Why it has no times; None as long as it can have some.
        relative_error: Largest difference from the oracle, as a share of the largest output.
        run_seconds: Seconds of a warm run.
        peak_bytes: Of a run's temporaries, scratch and result.
    """

    def __init__(
        self,
        variant: Variant,
        bind: Callable[[], Executable],
        features: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        limits: Limits,
        bench: Bench,
    ) -> None:
        self.variant = variant
        self.loss: Loss | None = None
        self.relative_error = 0.0
        self.run_seconds = 0.0
        self.peak_bytes = 0
        self._bind = bind
        self._features = features
        self._weights = weights
        self._limits = limits
        self._bench = bench
        self._spent = 0.0
        self._executable: Executable | None = None

    def admit(self, oracle: Oracle, memory_bytes: int) -> bool:
        """Binds, checks and warms up; whether it can have times."""
        try:
            self._executable = self._bind()
            self._weights = {**self._weights, **self._executable.constants(self._features)}
            self.peak_bytes = self._executable.layout.peak_bytes
            if self.peak_bytes > memory_bytes:
                self.give_up(
                    Status.MEMORY,
                    f"temporaries, scratch and result of a run take {self.peak_bytes} bytes, more "
                    f"than the limit of {memory_bytes}: raise memory_bytes",
                )
                return False
            if self._bench.compiles_late:
                self._run()
            self._check(oracle)
        except Exception as error:  # whatever a variant raises is its result
            self.fail(error)
        return self.loss is None

    @property
    def samples_left(self) -> int:
        """How many more samples it has time for."""
        left = self._limits.unit_seconds - self._spent
        return max(0, int(left / max(self._runs_each * self.run_seconds, 1e-9)))

    def sample(self) -> TimedRun | None:
        """Runs, and times the last run; None if it has no times from now on."""
        if not self.samples_left:
            limit = self._limits.unit_seconds
            self.give_up(Status.TIMEOUT, f"its runs take longer than the limit of {limit:g} s")
            return None
        try:
            for _ in range(self._runs_each - 1):
                self._timed()
            return self._timed()
        except Exception as error:  # as above
            self.fail(error)
            return None

    def sample_more(self) -> TimedRun | None:
        """As `sample`, but who has no time left keeps the times that it has."""
        return self.sample() if self.samples_left else None

    def give_up(self, status: Status, error: str) -> None:
        """It has no times, for this reason."""
        self.loss = Loss(status, error)

    def fail(self, error: Exception) -> None:
        """It has no times, for it raised this.

        Raises:
            WorkerError: The device is lost with it.
        """
        self.loss = loss_of(error)
        self._bench.check()

    @property
    def _runs_each(self) -> int:
        return 2 if self.run_seconds < self._bench.short_seconds else 1

    def _check(self, oracle: Oracle) -> None:
        first = self._timed(lambda found: oracle.error(tuple(rows.cpu() for rows in found))).seconds
        if not self.relative_error <= TOLERANCE:
            self.give_up(
                Status.WRONG,
                f"relative error {self.relative_error:.1e}, more than {TOLERANCE:g}",
            )
            return
        rounds, limit = self._limits.rounds, self._limits.unit_seconds
        # The first run also faults memory in; a candidate that is quick enough gets another one.
        self.run_seconds = first if rounds * first > limit else self._timed().seconds
        if self._spent + rounds * self.run_seconds > limit:
            self.give_up(
                Status.TIMEOUT,
                f"a run takes {self.run_seconds:.2g} s: {rounds} rounds take longer than the limit "
                f"of {limit:g} s",
            )

    def _timed(self, check: Callable[[tuple[Tensor, ...]], float] | None = None) -> TimedRun:
        results, sample = self._bench.watch.time(self._run)
        if check is not None:
            self.relative_error = check(results)
        self._spent += sample.seconds
        return sample

    def _run(self, mark: Mark | None = None) -> tuple[Tensor, ...]:
        assert self._executable is not None
        return self._executable.run(self._features, self._weights, mark=mark)


def loss_of(error: BaseException) -> Loss:
    """What an exception says of the candidate that raised it."""
    status = Status.MEMORY if is_out_of_memory(error) else Status.FAILED
    return Loss(status, f"{type(error).__name__}: {error}")

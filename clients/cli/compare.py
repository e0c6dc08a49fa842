"""Variants on a graph, beside each other: which to time, their times, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import hetune
from hetune.profiling.measure.rounds import interleave
from hetune.profiling.measure.timing import Timing
from hetune.variants.graph.threads import kernel_threads, using_threads
from hetune.variants.kernel.precision import Precision
from hetune.variants.plan.choices import VANILLA

TOLERANCE = 1e-4
"""Two variants, each within 1e-5 of the truth, never differ by this much."""
NARROW_TOLERANCE = 5e-2
"""Nor by this much where tables, or products on a GPU, may be bfloat16."""

_MEMORY_SHARE = 0.5
"""Of the free memory, for the hungriest variant that is timed: they take turns in one workspace."""


@dataclass(frozen=True, slots=True)
class TimedVariant:
    """A variant that was timed."""

    candidate: hetune.Candidate
    timing: Timing


@dataclass(frozen=True, slots=True)
class Comparison:
    """Variants that were timed together, the fastest first.

    Attributes:
        rows: The variants.
        chosen: Id of the one that was to run.
        difference: Largest difference between an output and the chosen one's, as a share of the
            chosen one's largest value.
        left_out: Variants that need more memory than is free.
    """

    rows: tuple[TimedVariant, ...]
    chosen: str
    difference: float
    left_out: int

    @property
    def best(self) -> TimedVariant:
        """The fastest."""
        return self.rows[0]

    @property
    def chosen_row(self) -> TimedVariant:
        """The chosen one."""
        return next(row for row in self.rows if row.candidate.id == self.chosen)

    @property
    def regret(self) -> float:
        """The chosen one's time over the fastest one's."""
        return self.chosen_row.timing.median / self.best.timing.median

    def check(self, precision: Precision) -> None:
        """Raises `WrongOutputError` if outputs differ by more than the precision allows."""
        most = TOLERANCE if precision == "float32" else NARROW_TOLERANCE
        if not self.difference <= most:
            raise WrongOutputError(
                f"outputs of variants differ by {self.difference:.1e} of their largest value, more "
                f"than {most:g}: this is a bug of hetune, or the features hold huge or "
                "non-finite values"
            )


class WrongOutputError(hetune.HetuneError):
    """Variants do not agree."""


def candidates(
    everything: Sequence[hetune.Candidate],
    chosen: str,
    top: int | None,
    limit: int | None,
    free: int,
) -> tuple[tuple[hetune.Candidate, ...], int]:
    """Which variants to time, and how many of these do not fit into memory.

    Args:
        everything: All candidates, fastest prediction first.
        chosen: Always among them.
        top: The best variant, by prediction, of so many plans, and of vanilla; None for all.
        limit: Most bytes that a run's temporaries, scratch and result may take.
        free: Bytes that are free where they run.
    """
    by_id = {c.id: c for c in everything}
    fitting = [c for c in everything if limit is None or c.peak_bytes <= limit]
    if top is not None:
        best: dict[str, hetune.Candidate] = {}
        for candidate in fitting:
            best.setdefault(candidate.plan, candidate)
        vanilla = [best[VANILLA]] if VANILLA in best else []
        fitting = [*list(best.values())[:top], *vanilla]
    wanted = list(dict.fromkeys([by_id[chosen], *fitting]))
    kept = list(_affordable(wanted, free))
    return tuple(kept), len(wanted) - len(kept)


def _affordable(wanted: list[hetune.Candidate], free: int) -> Iterator[hetune.Candidate]:
    for position, candidate in enumerate(wanted):
        if position == 0 or candidate.peak_bytes <= _MEMORY_SHARE * free:
            yield candidate


def compare(
    layer: hetune.CompiledLayer,
    x: Tensor,
    graph: hetune.HeteroGraph,
    wanted: tuple[hetune.Candidate, ...],
    left_out: int,
    *,
    rounds: int,
    seed: int,
    progress: Callable[[int, int], None],
    clock: Callable[[], float],
) -> tuple[Comparison, Tensor]:
    """Runs and times variants.

    Args:
        layer: Which layer.
        x: Features of all nodes in the graph's order, float32 [N, width].
        graph: What on.
        wanted: Variants; the chosen one first.
        left_out: How many others are not timed.
        rounds: How often each is timed.
        seed: Draws the order of timing.
        progress: Called after each run with how many there were, and how many there will be.
        clock: Seconds, once what was started has ended.

    Returns:
        The comparison, and the output of the first variant, the chosen one.
    """
    chosen = wanted[0].id

    def run(variant: str) -> Tensor:
        result = layer(x, graph, variant=variant)
        assert isinstance(result, Tensor)
        return result

    total = len(wanted) * (rounds + 1)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    with torch.no_grad(), using_threads(kernel_threads(), exactly=True):
        output = run(chosen)
        # NumPy's maximum keeps NaN, which Python's may lose.
        largest = float(np.max([_difference(run(c.id), output, step) for c in wanted]))
        timings = interleave(
            {c.id: lambda variant=c.id: run(variant) for c in wanted},  # type: ignore[misc]
            rounds,
            seed=seed,
            progress=lambda name: step(),
            clock=clock,
        )
    rows = [TimedVariant(candidate, timings[candidate.id]) for candidate in wanted]
    rows.sort(key=lambda row: row.timing.median)
    return Comparison(tuple(rows), chosen, largest, left_out), output


def _difference(got: Tensor, want: Tensor, step: Callable[[], None]) -> float:
    step()
    if not want.numel():
        return 0.0
    scale = max(want.abs().max().item(), torch.finfo(torch.float32).tiny)
    return (got - want).abs_().max().item() / scale

"""Measured problems as arrays to fit to and to score by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features.devices import Rates, device_of, features_of
from hetune.costmodel.model.overhead import Overhead
from hetune.costmodel.model.ties import default_of, offered_of, unless_tied
from hetune.costmodel.problems import Problem
from hetune.variants.errors import ModelError
from hetune.variants.kernel.device import Device


class Weighting(StrEnum):
    """How much a measured launch counts when a model is fitted."""

    EVEN = "even"
    """Each alike."""
    PROBLEM = "problem"
    """The launches of each problem count as much as those of any other."""
    REGRET = "regret"
    """So too; within a problem, a launch counts by its share of its variant's time, and the less
    the slower that variant is than the problem's best: errors there change no choice."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """A problem's variants, as sums of rows.

    Attributes:
        rows: The rows of all launches, variant after variant; int64 [launches].
        owners: The variant of each of them; int64 [launches].
        launches: How many each variant runs; float64 [variants].
        seconds: Measured time of a whole run; float64 [variants].
        roofline: What the roofline model says of it; float64 [variants].
        default: Which of them is the layer's default variant; None if that was not measured.
        offered: Which of them may be chosen; bool [variants].
    """

    rows: NDArray[np.int64]
    owners: NDArray[np.int64]
    launches: NDArray[np.float64]
    seconds: NDArray[np.float64]
    roofline: NDArray[np.float64]
    default: int | None
    offered: NDArray[np.bool_]

    def totals(self, by_row: NDArray[np.float64], overhead: Overhead) -> NDArray[np.float64]:
        """Time of each variant, from that of each row and what goes beyond the rows."""
        sums = np.bincount(self.owners, by_row[self.rows], minlength=len(self.seconds))
        return sums + overhead.seconds(self.launches)

    def regret(self, by_row: NDArray[np.float64], overhead: Overhead, tie: float = 1.0) -> float:
        """Measured time of the variant that would be chosen, by that of the fastest."""
        totals = np.where(self.offered, self.totals(by_row, overhead), np.inf)
        chosen = unless_tied(totals, self.roofline, self.default, tie)
        return float(self.seconds[chosen] / self.seconds.min())


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Distinct launches of problems.

    A launch that several variants of a problem share is one row: its time is the weighted
    geometric mean of theirs, which a squared error of logarithms cannot tell from them.

    Attributes:
        X: Features; float32 [rows, features].
        seconds: Measured; float64 [rows].
        roofline: What the roofline model says; float64 [rows].
        weights: 1 on the average; float64 [rows].
        families: Kernel families; str [rows].
        groups: What is never split: families of graphs where there are two of them at least,
            else graphs, else problems; str [rows].
        problems: Every problem's variants.
        overhead: A run's time beyond its launches.
        device: What the variants are made for.
    """

    X: NDArray[np.float32]
    seconds: NDArray[np.float64]
    roofline: NDArray[np.float64]
    weights: NDArray[np.float64]
    families: NDArray[np.str_]
    groups: NDArray[np.str_]
    problems: tuple[Candidates, ...]
    overhead: Overhead
    device: Device

    @classmethod
    def of(
        cls,
        problems: Sequence[Problem],
        machine: Rates,
        weighting: Weighting = Weighting.REGRET,
    ) -> TrainingRows:
        """The rows of problems, all measured on one machine, for the device of its rates.

        Raises:
            ModelError: There is no problem, they are of several machines or of another device, or
                one is malformed.
        """
        _check(problems, device_of(machine))
        collected = [_Collected(problem, weighting) for problem in problems]
        starts = np.cumsum([0, *(len(c.families) for c in collected)])
        columns = [np.array(c.columns, dtype=np.float64) for c in collected]
        weights = np.concatenate([c.weights for c in collected])
        groups = _groups(problems)
        seen = [
            features_of(table, np.array(p.graph_features), machine, p.threads)
            for p, table in zip(problems, columns, strict=True)
        ]
        return cls(
            X=np.concatenate([features for features, _ in seen]),
            seconds=np.concatenate([c.seconds for c in collected]),
            roofline=np.concatenate([roofline for _, roofline in seen]),
            weights=weights / weights.mean(),
            families=np.array([family for c in collected for family in c.families]),
            groups=np.repeat(groups, np.diff(starts)),
            problems=tuple(
                c.candidates(int(start), roofline, machine)
                for c, start, (_, roofline) in zip(collected, starts[:-1], seen, strict=True)
            ),
            overhead=Overhead.fit(problems),
            device=device_of(machine),
        )

    def regrets(self, by_row: NDArray[np.float64], tie: float = 1.0) -> NDArray[np.float64]:
        """Regret of every problem if the rows took these seconds; float64 [problems]."""
        return np.array([p.regret(by_row, self.overhead, tie) for p in self.problems])


class _Collected:
    """A problem's launches, equal ones put together."""

    def __init__(self, problem: Problem, weighting: Weighting) -> None:
        numbers: dict[tuple[str, tuple[float, ...]], int] = {}
        best = problem.best.seconds
        rows, owners, logs, weights = [], [], [], []
        for owner, candidate in enumerate(problem.candidates):
            total = sum(launch.seconds for launch in candidate.launches)
            for launch in candidate.launches:
                rows.append(numbers.setdefault((launch.family, launch.columns), len(numbers)))
                owners.append(owner)
                logs.append(np.log(launch.seconds))
                share = launch.seconds / total * best / candidate.seconds
                weights.append(share if weighting is Weighting.REGRET else 1.0)
        self._problem = problem
        self._rows, self._owners = np.array(rows), np.array(owners)
        self.families = [family for family, _ in numbers]
        self.columns = [columns for _, columns in numbers]
        sums = np.bincount(self._rows, weights)
        self.seconds = np.exp(np.bincount(self._rows, np.multiply(logs, weights)) / sums)
        self.weights = sums if weighting is Weighting.EVEN else sums / sums.sum()

    def candidates(self, start: int, roofline: NDArray[np.float64], machine: Rates) -> Candidates:
        """The problem's variants, with its rows numbered from `start`.

        Args:
            start: The first row's number.
            roofline: What the roofline model says of the problem's rows.
            machine: That they were measured on.
        """
        candidates = self._problem.candidates
        return Candidates(
            self._rows + start,
            self._owners,
            np.array([len(c.launches) for c in candidates], dtype=np.float64),
            np.array([c.seconds for c in candidates]),
            np.bincount(self._owners, roofline[self._rows]).astype(np.float64),
            default_of(self._problem),
            offered_of(self._problem, machine),
        )


def _check(problems: Sequence[Problem], device: Device) -> None:
    if not problems:
        raise ModelError(
            "there are no measured problems to fit a cost model to: run `hetune profile` first"
        )
    machines = sorted({problem.machine for problem in problems})
    if len(machines) > 1:
        raise ModelError(
            f"the measurements are of {len(machines)} machines ({', '.join(machines)}), whose "
            "times do not compare: fit one model for each"
        )
    others = sorted({problem.device for problem in problems} - {device})
    if others:
        raise ModelError(
            f"the measurements are of variants for {', '.join(others)}, and the rates are those of "
            f"a device {device!r}: a cost model is for one device; fit one for each"
        )
    for problem in problems:
        times = [c.seconds for c in problem.candidates]
        times += [launch.seconds for c in problem.candidates for launch in c.launches]
        ran = all(candidate.launches for candidate in problem.candidates)
        if not problem.candidates or not ran or not all(0 < t < np.inf for t in times):
            raise ModelError(
                f"the measurements of {problem} hold a variant without launches, or a time that is "
                "not a positive number: leave that variant out"
            )


def _groups(problems: Sequence[Problem]) -> NDArray[np.str_]:
    for labels in (
        [p.family for p in problems],
        [p.graph for p in problems],
        [str(number) for number in range(len(problems))],
    ):
        if len(set(labels)) > 1:
            break
    return np.array(labels)

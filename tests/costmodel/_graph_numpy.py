"""The features of a graph in NumPy: the same numbers as `graph_native`, but for rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetune.costmodel.features.graph import CACHED_ROWS_BITS
from hetune.variants.graph.index import GraphIndex

_WINDOW_BITS = 13
_NEAR = 16


@dataclass(frozen=True, slots=True)
class _Distribution:
    """How positive integers are distributed."""

    values: np.ndarray
    """Ascending, int64."""

    @classmethod
    def of(cls, numbers: np.ndarray) -> _Distribution:
        """That of the numbers which are not 0."""
        return cls(np.sort(numbers[numbers > 0].astype(np.int64)))

    @property
    def count(self) -> int:
        return int(self.values.size)

    @property
    def sum(self) -> int:
        return int(self.values.sum())

    @property
    def max(self) -> int:
        return self.percentile(100)

    def percentile(self, percent: int) -> int:
        """The smallest number that at least so many percent of all do not exceed."""
        return int(self.values[-(-self.count * percent // 100) - 1]) if self.count else 0

    @property
    def gini(self) -> float:
        ranks = np.arange(1, self.count + 1)
        ranked = 2 * int((ranks * self.values).sum()) - (self.count + 1) * self.sum
        return _ratio(ranked, self.count * self.sum)

    @property
    def cv(self) -> float:
        """Standard deviation over mean."""
        squares = self.count * int((self.values**2).sum()) - self.sum**2
        return _ratio(squares**0.5, self.sum)

    @property
    def top_share(self) -> float:
        """What the largest hundredth of the numbers, at least one, has of their sum."""
        top = -(-self.count // 100)
        return _ratio(int(self.values[self.count - top :].sum()), self.sum)

    @property
    def effective(self) -> float:
        """Number of equal shares with the same entropy."""
        if not self.count:
            return 0.0
        shares = self.values / self.sum
        return float(np.exp(-(shares * np.log(shares)).sum()))


@dataclass(frozen=True, slots=True)
class _Walk:
    """What a walk along a list of rows asks for anew.

    Attributes:
        fresh: By k, the share of its steps that ask for a row for the first time in their window
            of 2^k steps; windows start at multiples of their size.
        near_share: Steps that end at most 16 rows from where they began, in a window.
    """

    fresh: np.ndarray
    near_share: float

    @classmethod
    def along(cls, rows: np.ndarray) -> _Walk:
        """Looks at up to 4 windows of 2^13 steps, or at an eighth of them, evenly spread."""
        size = 1 << _WINDOW_BITS
        windows = -(-rows.size // size)
        chosen = min(windows, max(4, -(-windows // 8)))
        which = (2 * np.arange(chosen) + 1) * windows // (2 * max(chosen, 1))
        steps = (which[:, None] * size + np.arange(size)).reshape(-1)
        steps = steps[steps < rows.size]
        if not steps.size:
            return cls(np.zeros(_WINDOW_BITS + 1), 0.0)
        seen = rows[steps]
        order = np.argsort(seen, kind="stable")
        again = seen[order[1:]] == seen[order[:-1]]
        before = np.full(steps.size, -1)
        before[order[1:][again]] = steps[order[:-1][again]]
        fresh = [np.mean(before >> k != steps >> k) for k in range(_WINDOW_BITS + 1)]
        inside = np.diff(steps >> _WINDOW_BITS) == 0
        near = np.abs(np.diff(seen.astype(np.int64)))[inside] <= _NEAR
        return cls(np.array(fresh), _ratio(int(near.sum()), near.size))

    def steps_per_row(self, bits: int) -> float:
        """Steps for each row that a window of 2^bits steps asks for."""
        return _ratio(1.0, float(self.fresh[bits]))

    def misses(self, steps: int, distinct: int) -> list[float]:
        """Shares of the steps that miss in caches of 2^`CACHED_ROWS_BITS` rows.

        A window of w steps asks for F(w) rows, and a cache that holds F(w) rows misses as often as
        F grows with w. F is known for w = 2^k, and for the whole walk.

        Args:
            steps: Steps of the walk.
            distinct: Rows that it asks for.
        """
        floor = _ratio(distinct, steps)
        bits = [k for k in range(_WINDOW_BITS + 1) if 1 << k < steps]
        windows = np.array([*(1 << k for k in bits), steps], np.float64)
        asked = np.append(self.fresh[bits] * windows[:-1], distinct)
        asked = np.maximum.accumulate(np.minimum(asked, distinct))
        slopes = np.diff(asked) / np.diff(windows)
        middles = (asked[1:] + asked[:-1]) / 2
        return [
            self._miss(float(1 << c), middles, slopes, distinct, floor) for c in CACHED_ROWS_BITS
        ]

    @staticmethod
    def _miss(
        cached: float, middles: np.ndarray, slopes: np.ndarray, distinct: int, floor: float
    ) -> float:
        if cached >= distinct:
            return floor
        after = int(np.searchsorted(middles, cached))
        if after == 0 or after == middles.size:
            share = float(slopes[min(after, middles.size - 1)])
        else:
            ends = slice(after - 1, after + 1)
            share = float(np.interp(np.log(cached), np.log(middles[ends]), slopes[ends]))
        return max(share, floor)


def features_of(index: GraphIndex, num_ntypes: int) -> np.ndarray:
    """The features of a graph, in the order of `graph.NAMES`.

    Args:
        index: Of the whole graph.
        num_ntypes: Its number of node types.

    Returns:
        float64 [features].
    """
    stats = index.relation_stats
    edges, src_pairs, dst_pairs = index.num_edges, index.num_src_pairs, index.num_dst_pairs
    src = index.src.numpy()
    in_degree = np.diff(index.indptr.numpy())
    out_degree = np.bincount(src, minlength=index.num_nodes)
    entering, leaving = _Distribution.of(in_degree), _Distribution.of(out_degree)
    sizes = _Distribution.of(stats.edges)
    hybrid_rows = int(np.minimum(stats.src_pairs, stats.dst_pairs).sum())
    src_side_edges = int(stats.edges[stats.src_pairs < stats.dst_pairs].sum())
    types = _Walk.along(index.dst_pair_etype.numpy())
    sources, pairs = _Walk.along(src), _Walk.along(index.src_pair_of_edge.numpy())
    return np.array(
        [
            *(index.num_nodes, edges, num_ntypes, index.num_etypes),
            *(sizes.count, src_pairs, dst_pairs, hybrid_rows),
            *(leaving.count, entering.count, ((in_degree == 0) & (out_degree == 0)).sum()),
            *(_ratio(count, edges) for count in (src_pairs, dst_pairs, hybrid_rows)),
            _ratio(src_side_edges, edges),
            *(_ratio(src_pairs, leaving.count), _ratio(dst_pairs, entering.count)),
            _ratio(entering.sum, entering.count),
            *(entering.percentile(percent) for percent in (50, 90, 99)),
            *(entering.max, entering.gini, entering.cv),
            *(entering.top_share, _ratio(entering.max, edges)),
            *(_ratio(leaving.sum, leaving.count), leaving.percentile(99)),
            *(leaving.max, leaving.gini, leaving.cv),
            *(leaving.top_share, _ratio(leaving.max, edges)),
            *(sizes.max, _ratio(sizes.max, edges), sizes.percentile(50), sizes.gini),
            sizes.effective,
            *(types.steps_per_row(8), types.steps_per_row(12), sources.near_share),
            *sources.misses(edges, leaving.count),
            *pairs.misses(edges, src_pairs),
        ],
        np.float64,
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0

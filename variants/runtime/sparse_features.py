"""Features that are mostly zeros: products with them add up rows of a weight for the other entries.

Bags of words and one-hot rows, which the first layers of models have, are so. The entries that are
no zeros are the edges of a graph from columns to rows, and a product with a weight is the sum, for
each row, of the weight's rows that they lead from: a kernel that is there already. What the layer
does beside such products runs as ever.

That a tensor is so is found out when it comes a second time, for it takes a way through the tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from hetune.variants.backends.base import Backend
from hetune.variants.fork_locks import new_rlock
from hetune.variants.graph.bipartite import BipartiteGraph
from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.passes.given_products import GivenProducts, given_products, sparse_product
from hetune.variants.passes.product_first import ProductFirst
from hetune.variants.plan.lower import lower
from hetune.variants.plan.variants import Variant, lowered_as
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.float32_range import Overflow
from hetune.variants.runtime.seen import SeenTensor

LEAST_COLUMNS = 128
"""Of features that are looked at."""
MOST_FILLED = 0.25
"""The share of entries other than zeros up to which they are worth picking."""
_SAMPLED = 64


@functools.lru_cache(maxsize=4096)
def without_products(variant: Variant) -> GivenProducts | None:
    """What is left of a variant that is given the products of a wide feature; None: it has none.

    Products come before sums then: it is no matter how wide the feature is.
    """
    return given_products(ProductFirst()(variant.plan.program), LEAST_COLUMNS)


class SparseFeatures:
    """A variant on a graph, for calls whose features are mostly zeros. Safe with several threads.

    Args:
        variant: What would run; one that `without_products` has something for.
        domain: The graph.
        backend: Of the variant.
    """

    def __init__(self, variant: Variant, domain: Domain, backend: Backend) -> None:
        given = without_products(variant)
        assert given is not None
        self._given, self._choices = given, variant.choices
        bases = {view.name: view.base for view in variant.plan.views}
        self._weights = {name: bases.get(w, w) for name, w in given.weights.items()}
        self._domain, self._backend = domain, backend
        self._executable: Executable | None = None
        self._finite: dict[str, tuple[Tensor, bool]] = {}

    def prepared(
        self, inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor], overflow: Overflow
    ) -> tuple[Executable, dict[str, Tensor]] | None:
        """What runs in the variant's place, and its inputs; None where features are not so.

        Args:
            inputs: Rows of the program's features and constants.
            weights: What the variant reads of the parameters.
            overflow: Told of a number that outgrew float32.
        """
        rows, read = inputs[self._given.feature], self._weights
        if rows.dtype is not torch.float32 or rows.is_inference():
            return None
        entries = _entries_of(rows)
        if entries is None or not all(self._is_finite(w, weights.get(w)) for w in read.values()):
            return None
        how = self._backend, self._choices.schedule
        products = {
            name: entries.times(weights[w].flatten(2), *how, overflow) for name, w in read.items()
        }
        with _LOCK:
            if self._executable is None:
                plan = lowered_as(self._given.program, self._choices.plan)
                schedules = (self._choices.schedule,) * len(plan.launches)
                self._executable = Executable(plan, self._domain, self._backend, schedules)
        return self._executable, {**inputs, **products}

    def _is_finite(self, name: str, weight: Tensor | None) -> bool:
        """Whether a weight is there, of which a zero times each number is zero."""
        if weight is None:
            return False
        known = self._finite.get(name)
        if known is None or known[0] is not weight:
            known = self._finite[name] = weight, bool(weight.isfinite().all())
        return known[1]


class SparseEntries:
    """The entries of rows that are no zeros.

    Attributes:
        graph: Has an edge from an entry's column to its row.
        values: Of its edges.
    """

    def __init__(self, rows: Tensor) -> None:
        at, column = rows.nonzero(as_tuple=True)
        count, width = rows.shape
        self.graph = BipartiteGraph(column, at, num_sources=width, num_targets=count)
        self.values = rows[at, column]
        some = slice(None, None, len(at) // _SAMPLED + 1)
        self._sampled = at[some], column[some]
        self._sample = self._read(rows)
        self._sums: dict[tuple[int, Backend, AnySchedule], _Sum] = {}

    @cached_property
    def transposed(self) -> BipartiteGraph:
        """Has an edge from an entry's row to its column."""
        graph = self.graph
        sources, targets = graph.num_targets, graph.num_sources
        return BipartiteGraph(graph.dst, graph.src, num_sources=sources, num_targets=targets)

    def are_now(self, rows: Tensor) -> bool:
        """Whether some of them are what they were: of writes that torch does not count."""
        return self._read(rows.detach()) == self._sample

    def _read(self, rows: Tensor) -> bytes:
        return rows[self._sampled].numpy().tobytes()

    def times(
        self, weight: Tensor, backend: Backend, schedule: AnySchedule, overflow: Overflow
    ) -> Tensor:
        """The rows times a weight, float32 [1, columns, width]: [rows, width]."""
        key = weight.shape[2], backend, schedule
        with _LOCK:
            if key not in self._sums:
                plan = lower(sparse_product(weight.shape[2]))
                schedules = (schedule,) * len(plan.launches)
                executable = Executable(plan, Domain(self.graph), backend, schedules)
                self._sums[key] = _Sum(executable, executable.constants({"value": self.values}))
        found = self._sums[key]
        found.executable.release_indexes()
        (rows,) = found.executable.run({"w": weight[0]}, found.constants, overflow=overflow)
        return rows


@dataclass(frozen=True, slots=True)
class _Sum:
    executable: Executable
    constants: Mapping[str, Tensor]


@dataclass(slots=True)
class _Known:
    """A tensor that came before, and its entries if it came again and is mostly zeros."""

    seen: SeenTensor
    is_looked_at: bool = False
    entries: SparseEntries | None = None

    def is_now(self, rows: Tensor) -> bool:
        """Whether this is the tensor, unchanged as far as can be seen."""
        return self.seen.is_now(rows) and (self.entries is None or self.entries.are_now(rows))


_KNOWN: MutableMapping[Tensor, _Known] = WeakTensorKeyDictionary()
_LOCK = new_rlock()


def _entries_of(rows: Tensor) -> SparseEntries | None:
    with _LOCK:
        known = _KNOWN.get(rows)
        if known is None or not known.is_now(rows):
            _KNOWN[rows] = _Known(SeenTensor(rows))
            return None
        if not known.is_looked_at:
            known.is_looked_at = True
            with torch.inference_mode(False), torch.no_grad():
                if _is_mostly_zeros(rows.detach()):
                    known.entries = SparseEntries(rows.detach())
        return known.entries


def known_entries(rows: Tensor) -> SparseEntries | None:
    """The entries of features that a forward has found to be mostly zeros."""
    with _LOCK:
        known = _KNOWN.get(rows)
        return known.entries if known is not None and known.is_now(rows) else None


def _is_mostly_zeros(rows: Tensor) -> bool:
    sample = rows[:: max(1, len(rows) // _SAMPLED)]
    is_so = all(each.count_nonzero() <= MOST_FILLED * each.numel() for each in (sample, rows))
    return is_so and bool(rows.any())  # of zeros alone nothing would show a write

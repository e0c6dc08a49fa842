"""Gradients of weights that multiply features which are mostly zeros: see `sparse_features`.

The layer's gradient is taken by the products, as if these were given. A weight's is then the sum,
for each column of the features, of such rows as its entries lead from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.passes.given_products import GivenProducts, given_products, sparse_product
from hetune.variants.passes.gradient import gradient_name
from hetune.variants.passes.product_first import ProductFirst
from hetune.variants.passes.stages import Stage
from hetune.variants.program.nodes import Program
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.edge_rows import in_graph_order
from hetune.variants.runtime.gradients import (
    GradientRunner,
    StageRunner,
    gradient_runner,
    in_stages,
)
from hetune.variants.runtime.sparse_features import LEAST_COLUMNS, known_entries


@dataclass(frozen=True, slots=True)
class SparseGradients:
    """What computes a layer's gradients on such features.

    Attributes:
        program: Of the layer.
        wanted: By which of its parameters.
        given: The program that is given its products.
        runner: Of that one's gradients: by products, and by what of the wanted it still reads.
        products: What multiplies entries with as many columns as each product has.
    """

    program: Program
    wanted: tuple[str, ...]
    given: GivenProducts
    runner: GradientRunner
    products: Mapping[str, StageRunner]

    def run(
        self, graph: HeteroGraph, policy: Policy, values: Mapping[str, Tensor]
    ) -> dict[str, Tensor] | None:
        """As `GradientRunner.run`; None where features or other numbers are not so."""
        rows = values.get(self.given.feature)
        if policy.memory_limit is not None or rows is None:
            return None
        entries = known_entries(rows)
        read = {y: values.get(w) for y, w in self.given.weights.items() if y in self.runner.reads}
        if entries is None or not all(_is_finite(weight) for weight in read.values()):
            return None
        named, policy = dict(values), in_stages(policy)
        for own, name in zip(self.given.program.results, self.program.results, strict=True):
            named[gradient_name(own)] = values[gradient_name(name)]
        for y, weight in read.items():
            if weight is not None:
                rows = self._times(y, entries.graph, entries.values, weight[0].flatten(1), policy)
                named[y] = rows.view(-1, *weight.shape[2:])
        found = self.runner.run(graph, policy, named)
        for y, w in self.given.weights.items():
            if w in self.wanted:
                grad = found[y]
                if not _is_finite(grad):
                    return None
                back = entries.transposed, entries.values, grad.flatten(1)
                total = self._times(y, *back, policy).view(1, -1, *grad.shape[1:])
                found[w] = total + found[w].view_as(total) if w in found else total
        return {name: found[name] for name in self.wanted}

    def _times(
        self, y: str, matrix: HeteroGraph, values: Tensor, rows: Tensor, policy: Policy
    ) -> Tensor:
        """A matrix, whose entries are the edges of a graph, times a dense one."""
        given = {"w": rows.contiguous(), "value": values}
        return in_graph_order(self.products[y].run(matrix, policy, given)["out"])


def sparse_gradients(
    program: Program, wanted: tuple[str, ...], backend: Backend
) -> SparseGradients | None:
    """What computes a program's gradients by some parameters; None where nothing is to gain.

    Args:
        program: Of the layer.
        wanted: By which of its parameters.
        backend: What runs it.
    """
    if not isinstance(backend, CppBackend):
        return None
    given = given_products(ProductFirst()(program), LEAST_COLUMNS)
    if (
        given is None
        or given.feature in wanted
        or len(set(given.program.results)) < len(program.results)
    ):
        return None
    trained = {y: w for y, w in given.weights.items() if w in wanted}
    left = tuple(param.name for param in given.program.params if param.name in wanted)
    if not trained or not set(wanted) <= {*left, *trained.values()}:
        return None
    runner = gradient_runner(given.program, (*left, *trained), backend)
    if isinstance(runner, str):
        return None
    widths = {y: given.program.type_of(y).width for y in given.weights}
    products = {
        y: StageRunner(Stage(sparse_product(width), is_reversed=False), backend)
        for y, width in widths.items()
    }
    return SparseGradients(program, wanted, given, runner, products)


def _is_finite(rows: Tensor | None) -> bool:
    """Whether rows are there, of which a zero times each number is zero."""
    return rows is not None and bool(rows.isfinite().all())

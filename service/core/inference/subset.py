"""Whether rows of a few nodes are cut out of a whole run, or computed from what they depend on."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

from hetune.service.core.inference.answers import LayerReport, SubsetReport
from hetune.variants.errors import InputError, MemoryLimitError, TooLargeError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reach import ReachStep, reach

Subset: TypeAlias = Literal["auto", "full", "reach"]
"""How to compute rows of some nodes: as predicted to be faster, or as said."""
Layers: TypeAlias = Callable[[Sequence[HeteroGraph], bool], tuple[LayerReport, ...]]
"""Chooses variants: for the graph of each layer, and whether these graphs are used once."""

STEP_SECONDS = 4e-3
EDGE_SECONDS = 100e-9
NODE_SECONDS = 50e-9
"""What a layer's own graph costs beside running on it: cutting it out, indexing and describing it,
choosing a variant and binding it. For each graph, edge and node; chosen roughly after noisy runs on
one machine."""
_NO_CHAIN = "a layer of the model reads more than what the one before gives for near nodes"


@dataclass(frozen=True, slots=True)
class SubsetPlan:
    """What to run.

    Attributes:
        layers: A choice for each layer.
        steps: What each runs on; None for the whole graph.
        report: How this was decided; None if all rows are asked for.
    """

    layers: tuple[LayerReport, ...]
    steps: tuple[ReachStep, ...] | None = None
    report: SubsetReport | None = None


def planned(
    graph: HeteroGraph,
    nodes: Tensor | None,
    depth: int,
    outputs: Collection[int],
    subset: Subset,
    layers: Layers,
    is_chain: bool = True,
) -> SubsetPlan:
    """What to run for rows of some nodes.

    Args:
        graph: The whole graph.
        nodes: Ids in its order; None for all.
        depth: How many layers there are.
        outputs: Layers whose rows are asked for.
        subset: How to compute them.
        layers: Chooses variants.
        is_chain: Whether each layer reads what the one before gives for near nodes alone.

    Raises:
        InputError: All rows are asked for, but by reach; or the layers are no such chain.
        MemoryLimitError: No variant of a layer fits the limit.
        TooLargeError: What would be held is over the service's limit.
    """
    if nodes is None:
        if subset == "reach":
            raise InputError("subset is 'reach', but nodes are missing: name those to compute")
        return SubsetPlan(layers((graph,) * depth, False))
    if not is_chain:
        if subset == "reach":
            raise InputError(f"subset is 'reach', but {_NO_CHAIN}: take 'full'")
        reason = "as asked for" if subset == "full" else _NO_CHAIN
        report = SubsetReport(how="full", reason=reason)
        return SubsetPlan(layers((graph,) * depth, False), None, report)
    if subset == "full":
        whole = layers((graph,) * depth, False)
        return SubsetPlan(whole, None, SubsetReport(how="full", reason="as asked for"))
    if subset == "reach":
        steps = reach(graph, nodes, depth, outputs=outputs)
        assert steps is not None
        return _reached(steps, layers, "as asked for", None)
    return _cheaper(graph, nodes, depth, outputs, layers)


def _cheaper(
    graph: HeteroGraph, nodes: Tensor, depth: int, outputs: Collection[int], layers: Layers
) -> SubsetPlan:
    failure: MemoryLimitError | TooLargeError | None = None
    whole: tuple[LayerReport, ...] = ()
    seconds = math.inf
    try:
        whole = layers((graph,) * depth, False)
        seconds = _total(whole)
    except (MemoryLimitError, TooLargeError) as error:
        failure = error
    most_edges = (seconds - STEP_SECONDS) / EDGE_SECONDS
    steps = reach(graph, nodes, depth, outputs=outputs, most_edges=most_edges)
    if steps is None:
        reason = "the nodes depend on too much of the graph for it to be cut out in that time"
        return SubsetPlan(
            whole, None, SubsetReport(how="full", reason=reason, full_seconds=seconds)
        )
    if _cutting(steps) >= seconds:
        reason = "cutting out what the nodes depend on would take longer than the whole run"
        return SubsetPlan(whole, None, _report("full", reason, seconds, None, steps))
    known = None if failure else seconds
    try:
        plan = _reached(steps, layers, "predicted to be faster than the whole run", known)
    except (MemoryLimitError, TooLargeError):
        if failure is not None:
            raise failure from None
        reason = "what the nodes depend on does not fit the memory limit by itself"
        return SubsetPlan(whole, None, _report("full", reason, seconds, None, steps))
    assert plan.report is not None
    predicted = plan.report.reach_seconds
    assert predicted is not None
    if predicted < seconds:
        return plan
    reason = "the whole run is predicted to be faster"
    return SubsetPlan(whole, None, _report("full", reason, seconds, predicted, steps))


def _reached(
    steps: tuple[ReachStep, ...], layers: Layers, reason: str, whole: float | None
) -> SubsetPlan:
    chosen = layers(tuple(step.graph for step in steps), True)
    predicted = _total(chosen) + _cutting(steps)
    return SubsetPlan(chosen, steps, _report("reach", reason, whole, predicted, steps))


def _report(
    how: Literal["full", "reach"],
    reason: str,
    whole: float | None,
    reached: float | None,
    steps: tuple[ReachStep, ...],
) -> SubsetReport:
    return SubsetReport(
        how=how,
        reason=reason,
        full_seconds=whole,
        reach_seconds=reached,
        nodes=tuple(step.graph.num_nodes for step in steps),
        edges=tuple(step.graph.num_edges for step in steps),
    )


def _total(layers: Sequence[LayerReport]) -> float:
    return sum(layer.predicted_seconds for layer in layers)


def _cutting(steps: tuple[ReachStep, ...]) -> float:
    graphs = {id(step.graph): step.graph for step in steps}.values()
    return sum(
        STEP_SECONDS + EDGE_SECONDS * g.num_edges + NODE_SECONDS * g.num_nodes for g in graphs
    )

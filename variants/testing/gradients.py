"""Gradients of programs: as torch's autograd has them, and by the stages of their backward pass."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reverse import reversed_graph
from hetune.variants.passes.backward import Backward
from hetune.variants.passes.gradient import gradient_name
from hetune.variants.program.interpret import Groups, interpret_results
from hetune.variants.program.nodes import Program
from hetune.variants.runtime.domain import split_relations


def result_gradients(
    program: Program,
    values: Mapping[str, Tensor],
    graph: HeteroGraph,
    groups: Groups,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Signed random numbers of the shape of each result, by `gradient_name`."""
    draw = torch.Generator().manual_seed(seed)
    results = interpret_results(program, values, graph, groups)
    return {
        gradient_name(name): torch.randn(rows.shape, generator=draw).to(rows)
        for name, rows in zip(program.results, results, strict=True)
    }


def autograd_gradients(
    program: Program,
    values: Mapping[str, Tensor],
    grads: Mapping[str, Tensor],
    graph: HeteroGraph,
    groups: Groups,
    wanted: Collection[str],
) -> tuple[Tensor, ...]:
    """Torch's gradients of the wanted parameters through the interpreter; 0 where there are none.

    Results that are there twice count once.
    """
    leaves = {name: values[name].clone().requires_grad_() for name in wanted}
    results = interpret_results(program, {**values, **leaves}, graph, groups)
    named = dict(zip(program.results, results, strict=True))
    terms = [(rows * grads[gradient_name(name)]).sum() for name, rows in named.items()]
    total = torch.stack(terms).sum() + sum(leaf.sum() for leaf in leaves.values()) * 0
    return torch.autograd.grad(total, list(leaves.values())) if leaves else ()


def staged_gradients(
    backward: Backward, values: Mapping[str, Tensor], graph: HeteroGraph, groups: Groups
) -> tuple[Tensor, ...]:
    """The gradients that stages compute in the interpreter.

    Args:
        backward: The stages.
        values: Parameters, gradients of results and saved values.
        graph: The graph; stages run on it or on its reverse.
        groups: Edge types of the program's groups.
    """
    known = dict(values)
    for stage in backward.stages:
        own = reversed_graph(graph) if stage.is_reversed else graph
        known_groups = {**split_relations(own).groups, **groups}
        found = interpret_results(stage.program, known, own, known_groups)
        known.update(zip(stage.program.results, found, strict=True))
    return tuple(known[name] for name in backward.results)

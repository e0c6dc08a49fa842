"""What multiplying weights with weights takes: once in inference, in every step of training."""

from __future__ import annotations

from math import prod

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.by_identity import by_identity
from hetune.variants.program.nodes import Einsum, Let, Program, Space
from hetune.variants.runtime.plan_facts import facts_of

_STEP_SECONDS = 14e-6
_FLOPS, _GPU_FLOPS = 160e9, 10e12
_ELEMENTS = 1.9e9
"""An operator of torch, and what it does in a second: multiplications and additions of batched
float32 products of matrices as small as weights are (a CPU's by core), and elements written."""


def weight_product_seconds(plan: Plan, graph: HeteroGraph, threads: int) -> float:
    """About what computing a plan's weights from a module's takes.

    Args:
        plan: What reads them.
        graph: Tells how many types there are.
        threads: Of a CPU.
    """
    program = facts_of(plan).made
    if program is None:
        return 0.0
    rate = _GPU_FLOPS if graph.device.type == "cuda" else _FLOPS * threads
    counts = {Space.NTYPE: graph.num_ntypes, Space.ETYPE: graph.num_etypes}
    return sum(
        _STEP_SECONDS + counts.get(space, 1) * (flops / rate + elements / _ELEMENTS)
        for space, flops, elements in _work(program)
    )


@by_identity
def _work(program: Program) -> tuple[tuple[Space, int, int], ...]:
    """Each value's space, and what one row of it takes: operations, and elements written."""
    types = program.types
    return tuple(
        (let.type.space, _flops(let, program), types[let.name].width) for let in program.lets
    )


def _flops(let: Let, program: Program) -> int:
    if not isinstance(let.op, Einsum):
        return 0
    terms = let.op.spec.split("->")[0].split(",")
    shapes = (program.type_of(name).shape for name in let.op.args)
    sizes = {
        axis: size
        for term, shape in zip(terms, shapes, strict=True)
        for axis, size in zip(term, shape, strict=True)
    }
    return 2 * prod(sizes.values())

"""What a plan needs before it can run: weights made from parameters, constants from counts."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.interpret import apply_map, interpret_all
from hetune.variants.program.nodes import Count, Let, Map, Program, Space, Take
from hetune.variants.runtime.domain import Domain


def weights_of(plan: Plan, values: Mapping[str, Tensor], graph: HeteroGraph) -> dict[str, Tensor]:
    """What launches read of the parameters and of what is computed from them, contiguous float32.

    Products of weights are taken in float64: they are done once, and their rounding would reach
    every row.

    Args:
        plan: Whose weights.
        values: A tensor [types, *row shape] for each weight parameter.
        graph: Gives edge types their node types, where a weight moves between them.
    """
    params = tuple(p for p in plan.program.params if p.role == "weight")
    read = {buffer.name for launch in plan.launches for buffer in launch.buffers}
    read |= {view.base for view in plan.views}
    found = {p.name: values[p.name].detach() for p in params if p.name in read}
    if plan.weights:
        part = Program(plan.program.name, params, plan.weights, plan.weights[-1].name)
        exact = {p.name: values[p.name].detach().double() for p in params}
        found = {**interpret_all(part, exact, graph, wanted=read), **found}
    return {name: value.float().contiguous() for name, value in found.items()}


def constants_of(plan: Plan, domain: Domain) -> dict[str, Tensor]:
    """Buffers that depend on the graph alone, float32 [rows], in the index's order."""
    made: dict[str, Tensor] = {}
    for let in plan.constants:
        made[let.name] = _constant(let, made, plan.program, domain)
    return made


def _constant(let: Let, made: Mapping[str, Tensor], program: Program, domain: Domain) -> Tensor:
    match let.op:
        case Count(space=Space.DST_PAIR, group=group):
            return domain.index(group).dst_pair_count
        case Count(group=group):
            return domain.index(group).in_degree.float()
        case Map(fn=fn, args=args, const=const):
            return apply_map(fn, [made[name] for name in args], const)
        case Take(x, space, end, group):
            source = program.type_of(x).space
            if source is not Space.NODE:
                rows = f"{source}_of_edge"  # pairs go to edges alone
            else:
                rows = end if space is Space.EDGE else f"{space}_node"
            return made[x].index_select(0, getattr(domain.index(group), rows))
    raise AssertionError(f"{let} is no constant")

"""What a campaign runs on each of its graphs: programs, and the stages of their gradients."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.profiling.corpus import canonical, with_edges_reversed
from hetune.profiling.units import GraphRecipe, ProblemSpec
from hetune.variants.errors import CampaignError, ProgramError
from hetune.variants.kernel.device import Device
from hetune.variants.passes.backward import backward
from hetune.variants.program.labeled import LabeledProgram, needs_canonical_edges
from hetune.variants.program.limitation import limitation

GRADIENT = " gradient"
"""Ends the labels of stages of gradients."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A program, and which form of a graph it runs on.

    Attributes:
        program: What runs.
        is_canonical: Whether each edge type joins one pair of node types.
        is_reversed: Whether edges are reversed.
    """

    program: LabeledProgram
    is_canonical: bool = False
    is_reversed: bool = False

    @classmethod
    def of(cls, program: LabeledProgram) -> Workload:
        """A layer's program, as its calls run it."""
        return cls(program, needs_canonical_edges(program.program))

    def on(self, graph: GraphRecipe, threads: int, device: Device = "cpu") -> ProblemSpec:
        """The problem that it is on a graph."""
        form = canonical(graph) if self.is_canonical else graph
        form = with_edges_reversed(form) if self.is_reversed else form
        return ProblemSpec(form, self.program, threads, device)


def gradient_stages(program: LabeledProgram) -> tuple[Workload, ...]:
    """The stages of a program's gradients by all of its parameters, which are chosen one by one.

    Without those that are computed of weights alone: nothing is chosen for them.

    Raises:
        CampaignError: It has no gradients.
    """
    whole = program.program
    wanted = [param.name for param in whole.params if param.role != "constant"]
    try:
        stages = backward(whole, wanted).stages
    except ProgramError as error:
        raise CampaignError(f"{program.label} has no gradients: {error}") from error
    label, is_canonical = f"{program.label}{GRADIENT}", needs_canonical_edges(whole)
    return tuple(
        Workload(LabeledProgram.of(stage.program, label), is_canonical, stage.is_reversed)
        for stage in stages
        if not (stage.is_weights or limitation(stage.program))
    )

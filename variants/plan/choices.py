"""What a variant is: every choice as a value, from which its id is printed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, TypeAlias

from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.passes.choices import Placement, SumChoices
from hetune.variants.passes.pipeline import Pass
from hetune.variants.passes.product_first import ProductFirst
from hetune.variants.passes.sites import AtSite, Site

Side: TypeAlias = Literal["", "src", "dst"]
"""On which side of a graph hybrid plans transform all of its edge types; none: on both."""


VANILLA = "vanilla"
"""Name of the plan of a program as it is written."""


class LoweringForm(StrEnum):
    """How a program is lowered."""

    FUSED = ""
    SEPARATE_SUMS = "separate-sums"
    """Sums that feed linear maps are traversals of their own (which suits hubs)."""
    ONE_PASS = "one-pass"  # noqa: S105
    """And sums that a softmax weights are added up as its scores are computed."""
    SEPARATE_PRODUCTS = "separate-products"
    """Sums are apart, and each weight is loaded once (which suits thousands of relations)."""


@dataclass(frozen=True, slots=True)
class SiteChoices:
    """The choices at one site of a program.

    Attributes:
        site: Where; empty where the choices hold for the whole program.
        label: What names the site in ids; empty where a program has choices at one site alone,
            None where the site is computed so in all of the program's plans.
        choices: How it is computed.
    """

    site: Site
    label: str | None
    choices: SumChoices


@dataclass(frozen=True, slots=True)
class ProgramChoices:
    """The choices made before a program is lowered: those of each site, in order.

    No sites: the program runs as it is written.

    Attributes:
        sites: Of the program, or of what `ProductFirst` makes of it.
        product_first: Whether it does.
    """

    sites: tuple[SiteChoices, ...] = ()
    product_first: bool = False

    @property
    def id(self) -> str:
        """Stable and readable, such as ``"hybrid"`` or ``"sum1-src+sum2-dst"``."""
        parts = [
            f"{site.label}-{part}" if site.label else part
            for site in self.sites
            if site.label is not None
            for part in site.choices.parts
        ]
        first = ["product-first"] if self.product_first else []
        return "+".join(first + parts) or VANILLA

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The pipeline that carries them out."""
        first: tuple[Pass, ...] = (ProductFirst(),) if self.product_first else ()
        if len(self.sites) == 1 and not self.sites[0].site:
            return first + self.sites[0].choices.passes
        return first + tuple(AtSite(each.site, each.choices.passes) for each in self.sites)

    @property
    def is_hybrid(self) -> bool:
        """Whether what is transformed differs from edge type to edge type."""
        return any(site.choices.is_hybrid for site in self.sites)

    def on(self, side: Side) -> ProgramChoices:
        """What does the same on graphs of a side."""
        if not side:
            return self
        at = Placement(side)
        return replace(self, sites=tuple(replace(s, choices=s.choices.on(at)) for s in self.sites))


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """What a plan is.

    Attributes:
        program: A program's choices.
        form: What it is lowered in.
        narrow: Whether the tables that edges read are of bfloat16.
    """

    program: ProgramChoices = ProgramChoices()
    form: LoweringForm = LoweringForm.FUSED
    narrow: bool = False

    @property
    def id(self) -> str:
        """Stable and readable, such as ``"hybrid+weights-first+separate-sums"``."""
        parts = (self.program.id, self.form, "bf16" if self.narrow else "")
        return "+".join(part for part in parts if part)

    @property
    def is_special(self) -> bool:
        """Whether it is for special graphs; others may suit any."""
        return self.scores_edges or self.form is LoweringForm.SEPARATE_PRODUCTS

    @property
    def scores_edges(self) -> bool:
        """Whether dot products of source rows stay on the edges."""
        return any(site.choices.edge_scores for site in self.program.sites)

    def on(self, side: Side) -> PlanChoices:
        """What does the same on graphs of a side, whether there is such a plan or not."""
        if not side or not self.program.is_hybrid:
            return self
        # At sources products are apart from sums in any form.
        in_one = self.form is LoweringForm.ONE_PASS
        form = LoweringForm.FUSED if side == "src" and not in_one else self.form
        return replace(self, program=self.program.on(side), form=form)


@dataclass(frozen=True, slots=True)
class Choices:
    """All that a variant is: its plan and the schedule of its launches."""

    plan: PlanChoices
    schedule: AnySchedule

    @property
    def id(self) -> str:
        """Stable and readable, such as ``"hybrid+weights-first/b1024"``."""
        return f"{self.plan.id}/{schedule_id(self.schedule)}"

    def on(self, side: Side) -> Choices:
        """What does the same on graphs of a side, whether there is such a variant or not."""
        return Choices(self.plan.on(side), self.schedule)


def schedule_id(schedule: AnySchedule) -> str:
    """The part of ids that names a schedule, such as ``"b1024"`` or ``"t64-p2048"``."""
    if not isinstance(schedule, GpuSchedule):
        return f"b{schedule.block_nodes}"
    return f"t{schedule.tile_rows}-p{schedule.elements}"

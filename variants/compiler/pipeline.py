"""The compiler on a page: from a layer to code, one named value after the other.

    trace      module    -> Program              what is computed, without layout or order
    rewrite    Program   -> Alternatives         choices at each site, made by passes
    lower      Program   -> Plan                 kernels over buffers, fused for the device
    schedule   Plan      -> Variants             each launch with its tiles and blocks
    emit       Variant   -> KernelSources        C++ or Triton, one text for each launch
    (bind)     Variant   -> Executable           on one graph: `hetune.variants.runtime.executable`

A plan that another one beats on every graph is left out between lowering and scheduling. Which
variant runs is chosen for each graph, by a cost model; nothing here knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.errors import CompileError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter, Arguments, Unsupported
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.precision import Precision
from hetune.variants.kernel.text import show as show_launch
from hetune.variants.kernel.text import show_schedule
from hetune.variants.plan.alternatives import Alternative, alternatives
from hetune.variants.plan.choices import PlanChoices
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.variants import Variant, plans_of, variants_of, with_schedule
from hetune.variants.program.nodes import Program
from hetune.variants.program.text import show as show_program
from hetune.variants.registry import KernelSource


@dataclass(frozen=True, slots=True)
class Compiler:
    """The steps for a backend; each takes what the last one made.

    Attributes:
        backend: What code is made for.
    """

    backend: Backend

    @classmethod
    def of(cls, device: Device) -> Compiler:
        """The default compiler for a device, which need not be here."""
        return cls(CppBackend() if device == "cpu" else TritonBackend())

    def trace(
        self,
        module: nn.Module,
        vocabulary: Vocabulary | None = None,
        call: Arguments | None = None,
    ) -> Adapter | Unsupported:
        """The program of a layer, and where its parameters are; or why there is none.

        Args:
            module: The layer.
            vocabulary: As of `adapt`.
            call: Likewise.

        Raises:
            InputError: The vocabulary is not for this layer.
        """
        return adapt(module, vocabulary, call)

    def rewrite(self, program: Program) -> tuple[Alternative, ...]:
        """Every way of computing a program that some graph may favour."""
        return alternatives(program)

    def lower(
        self, program: Program, precision: Precision = "float32"
    ) -> Mapping[PlanChoices, Plan]:
        """A plan for each alternative and form that no other one beats whatever the graph."""
        return plans_of(program, self.backend.target, precision)

    def schedule(self, program: Program, precision: Precision = "float32") -> tuple[Variant, ...]:
        """Each plan in each schedule worth compiling, in a stable order."""
        found = variants_of(program, self.backend.target, precision)
        if (schedule := self.backend.schedule) is not None:
            return tuple(with_schedule(variant, schedule) for variant in found)
        return found

    def emit(self, variants: Iterable[Variant]) -> tuple[KernelSource, ...]:
        """The different kernels that variants are made of, in a stable order.

        A registry's key hashes their text and their recipe: launch and schedule, as `show` prints
        them.

        Raises:
            CompileError: The backend prints no code, or there is no compiler.
        """
        backend = self._emitter
        sources = (
            backend.source(launch, schedule)
            for variant in variants
            for launch, schedule in zip(variant.plan.launches, variant.schedules, strict=True)
        )
        return tuple(dict.fromkeys(sources))

    def show(self, variant: Variant, *, source: bool = False) -> str:
        """A variant after each step: its program, its launches with their schedules, their code.

        Args:
            variant: One of `schedule`.
            source: Whether the code is part of it.

        Raises:
            CompileError: As `emit`.
        """
        parts = [f"# {variant.id}\n\n{show_program(variant.plan.program)}"]
        for launch, schedule in zip(variant.plan.launches, variant.schedules, strict=True):
            parts.append(f"{show_launch(launch).rstrip()}\n{show_schedule(schedule)}\n")
            if source:
                parts.append(self._emitter.source(launch, schedule).text)
        return "\n".join(parts)

    def __str__(self) -> str:
        """The pipeline."""
        return f"trace -> rewrite -> lower -> schedule -> emit ({self.backend.name})"

    @property
    def _emitter(self) -> CppBackend | TritonBackend:
        if isinstance(self.backend, CppBackend | TritonBackend):
            return self.backend
        raise CompileError(
            f"the {self.backend.name} backend interprets kernels: take cpp or triton"
        )

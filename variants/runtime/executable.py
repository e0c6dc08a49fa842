"""A plan bound to a graph: everything looked up, ready to run again and again."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from hetune.variants.backends.base import Backend
from hetune.variants.errors import InputError
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.nodes import Param
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.given import constants_of
from hetune.variants.runtime.memory import Layout, lay_out

_HUGE_PAGE = 1 << 21


class Executable:
    """Runs one plan on one graph. Safe to call from several threads, one at a time.

    Args:
        plan: What to run.
        domain: The graph to run it on.
        backend: What compiles and runs its launches.
        schedules: One for each launch.

    Raises:
        CompileError: A launch cannot be compiled.
    """

    def __init__(
        self, plan: Plan, domain: Domain, backend: Backend, schedules: tuple[Schedule, ...]
    ) -> None:
        self.plan = plan
        self.layout: Layout = lay_out(plan, domain.buffer_rows)
        self._domain = domain
        self._constants = constants_of(plan, domain)
        self._runners = tuple(
            backend.bind(launch, schedule, domain)
            for launch, schedule in zip(plan.launches, schedules, strict=True)
        )
        self._arena: Tensor | None = None
        self._temporaries: dict[str, Tensor] = {}
        self._lock = threading.Lock()

    def run(
        self,
        features: Mapping[str, Tensor],
        weights: Mapping[str, Tensor],
        out: Tensor | None = None,
    ) -> Tensor:
        """The plan's result.

        Args:
            features: A float32 CPU tensor [rows, *row shape] for each feature of the program.
            weights: What `weights_of` gives for the plan.
            out: Where to write the result: float32, contiguous, [rows, *row shape].

        Raises:
            InputError: A tensor's dtype, shape or device does not fit.
        """
        with self._lock:
            buffers = {**self._constants, **weights, **self._scratch()}
            for param in self.plan.program.params:
                if param.role == "feature":
                    buffers[param.name] = self._checked(param, features)
            result = buffers.get(self.plan.result)
            if result is None:
                result = self._result(out)
                buffers[self.plan.result] = result
            for view in self.plan.views:
                buffers[view.name] = buffers[view.base]
            for runner in self._runners:
                runner(buffers)
        return result

    def release(self) -> None:
        """Gives the arena back; the next run takes a new one."""
        with self._lock:
            self._arena = None
            self._temporaries = {}

    def _scratch(self) -> dict[str, Tensor]:
        if self._arena is None:
            self._arena = allocate(self.layout.arena_bytes // 4)
            for buffer in self.plan.temporaries:
                if buffer.name in self.layout.offsets:
                    start = self.layout.offsets[buffer.name] // 4
                    rows = self._domain.buffer_rows(buffer.type)
                    flat = self._arena[start : start + rows * buffer.type.width]
                    self._temporaries[buffer.name] = flat.view(rows, *buffer.type.shape)
        return self._temporaries

    def _checked(self, param: Param, features: Mapping[str, Tensor]) -> Tensor:
        expected = (self._domain.buffer_rows(param.type), *param.type.shape)
        value = features[param.name]
        if value.dtype != torch.float32 or value.device.type != "cpu":
            raise InputError(
                f"{param.name} is {value.dtype} on {value.device}: compiled layers take float32 "
                "on the CPU; convert it with .float() and .cpu()"
            )
        if value.numel() != np.prod(expected):
            raise InputError(
                f"{param.name} has shape {tuple(value.shape)} but the graph and the layer need "
                f"{expected}: give one row for every row of the graph"
            )
        return value.contiguous()

    def _result(self, out: Tensor | None) -> Tensor:
        kind = next(b.type for b in self.plan.temporaries if b.name == self.plan.result)
        rows = self._domain.buffer_rows(kind)
        if out is None:
            return allocate(rows * kind.width).view(rows, *kind.shape)
        if out.dtype != torch.float32 or not out.is_contiguous() or out.device.type != "cpu":
            raise InputError("out must be a contiguous float32 tensor on the CPU: allocate it so")
        if out.numel() != rows * kind.width:
            raise InputError(
                f"out has shape {tuple(out.shape)} but the result has {rows} rows of {kind.width}:"
                " allocate that many elements"
            )
        return out.view(rows, *kind.shape)


def allocate(elements: int) -> Tensor:
    """Uninitialised float32 memory; large blocks ask for huge pages, which fault 512x less."""
    if elements * 4 < _HUGE_PAGE:
        return torch.empty(elements)
    return torch.from_numpy(np.empty(elements, dtype=np.float32))

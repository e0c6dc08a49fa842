"""A plan bound to a graph: everything looked up, ready to run again and again."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from hetune.variants.backends.base import SCRATCH, Backend
from hetune.variants.errors import InputError
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.nodes import Param
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.given import constants_of
from hetune.variants.runtime.memory import Layout, layout_of

_HUGE_PAGE = 1 << 21
_CACHE_LINE = 64
_ELEMENT = 4


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
        self.layout: Layout = layout_of(plan, schedules, domain)
        self._domain = domain
        self._constants = constants_of(plan, domain)
        self._runners = tuple(
            backend.bind(launch, schedule, domain)
            for launch, schedule in zip(plan.launches, schedules, strict=True)
        )
        self._arena: Tensor | None = None
        self._scratch_memory = torch.empty(0)
        self._results = ResultMemory()
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
            buffers = {**self._constants, **weights, **self._buffers()}
            for param in self.plan.program.params:
                if param.role == "feature":
                    buffers[param.name] = self._checked(param, features)
            result = buffers.get(self.plan.result)
            if result is None:
                result = self._result(out, buffers)
                buffers[self.plan.result] = result
            for view in self.plan.views:
                buffers[view.name] = buffers[view.base]
            buffers[SCRATCH] = self._scratch()
            for runner in self._runners:
                runner(buffers)
        return result

    def release(self) -> None:
        """Gives all memory back that is kept between runs; the next run takes it anew."""
        with self._lock:
            self._arena = None
            self._scratch_memory = torch.empty(0)
            self._temporaries = {}
            self._results = ResultMemory()

    def _scratch(self) -> Tensor:
        """A share for each thread there is now."""
        needed = self.layout.scratch_bytes // _ELEMENT * torch.get_num_threads()
        if self._scratch_memory.numel() < needed:
            self._scratch_memory = allocate(needed)
        return self._scratch_memory

    def _buffers(self) -> dict[str, Tensor]:
        if self._arena is None:
            self._arena = allocate(self.layout.arena_bytes // _ELEMENT)
            for buffer in self.plan.temporaries:
                if buffer.name in self.layout.offsets:
                    start = self.layout.offsets[buffer.name] // _ELEMENT
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

    def _result(self, out: Tensor | None, inputs: Mapping[str, Tensor]) -> Tensor:
        kind = next(b.type for b in self.plan.temporaries if b.name == self.plan.result)
        rows = self._domain.buffer_rows(kind)
        if out is None:
            return self._results.take(rows * kind.width).view(rows, *kind.shape)
        if out.dtype != torch.float32 or not out.is_contiguous() or out.device.type != "cpu":
            raise InputError("out must be a contiguous float32 tensor on the CPU: allocate it so")
        if out.numel() != rows * kind.width:
            raise InputError(
                f"out has shape {tuple(out.shape)} but the result has {rows} rows of {kind.width}:"
                " allocate that many elements"
            )
        for name, given in inputs.items():
            if _overlap(out, given):
                raise InputError(
                    f"out shares memory with {name}, which is read while out is written: give a "
                    "tensor of its own"
                )
        return out.view(rows, *kind.shape)


class ResultMemory:
    """Memory for results: what a dropped result gives back serves the next one.

    Fresh memory costs a page fault for every page, which for a large graph takes as long as the
    layer. At most one block is kept.
    """

    def __init__(self) -> None:
        self._spare: list[np.ndarray] = []

    def take(self, elements: int) -> Tensor:
        """Uninitialised float32 memory that nobody else uses."""
        if elements * _ELEMENT < _HUGE_PAGE:
            return torch.empty(elements)
        try:
            block = self._spare.pop()
        except IndexError:
            block = _aligned(elements)
        if block.size != elements:
            block = _aligned(elements)
        # The tensor holds this view; when the last tensor on it goes, the block comes back.
        view = block[:]
        weakref.finalize(view, self._give_back, weakref.ref(self), block).atexit = False
        return torch.from_numpy(view)

    @staticmethod
    def _give_back(memory: weakref.ref[ResultMemory], block: np.ndarray) -> None:
        owner = memory()
        if owner is not None and not owner._spare:
            owner._spare.append(block)


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two contiguous tensors have elements in common."""
    first, second = one.data_ptr(), other.data_ptr()
    return first < second + other.nbytes and second < first + one.nbytes


def allocate(elements: int) -> Tensor:
    """Uninitialised float32 memory; large blocks ask for huge pages, which fault 512x less."""
    # A tensor made in inference mode could not be written outside of it.
    with torch.inference_mode(False):
        if elements * _ELEMENT < _HUGE_PAGE:
            return torch.empty(elements)
        return torch.from_numpy(_aligned(elements))


def _aligned(elements: int) -> np.ndarray:
    """Memory from the start of a huge page, or else a cache line: vectors then never straddle."""
    alignment = _HUGE_PAGE if elements * _ELEMENT >= 4 * _HUGE_PAGE else _CACHE_LINE
    block = np.empty(elements + alignment // _ELEMENT, dtype=np.float32)
    start = -block.ctypes.data % alignment // _ELEMENT
    return block[start : start + elements]

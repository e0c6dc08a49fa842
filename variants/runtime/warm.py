"""Compiling and indexing before the first call, so that no call waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.errors import CompileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.plan.variants import Variant

Progress = Callable[[int, int, str], None]
"""Called after each kernel with how many are done, how many there are, and the kernel's name."""


def with_features(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A call's arguments; where a graph is given alone, with features that nobody looks at."""
    match args:
        case (HeteroGraph() as graph,):
            rows = torch.empty(graph.num_nodes, 0, dtype=torch.float32, device=graph.device)
            return rows, graph
    return args


def compile_kernels(
    variants: Iterable[Variant],
    backend: Backend,
    device: torch.device,
    progress: Progress | None,
) -> int:
    """Compiles the kernels of variants that are not compiled yet, several at once.

    Args:
        variants: Which.
        backend: What compiles: C++, or Triton for a GPU. Others do so as they run.
        device: What they are to run on.
        progress: As of `build`.

    Returns:
        How many were compiled.

    Raises:
        CompileError: One does not compile, or there is no compiler.
        RegistryError: The registry's folder cannot be written.
    """
    if isinstance(backend, CppBackend):
        registry = backend.registry
    elif isinstance(backend, TritonBackend) and device.type == "cuda":
        registry = backend.registry(device)
    else:
        return 0
    report = registry.build(Compiler(backend).emit(variants), progress=progress)
    for name, reason in report.failed.items():
        raise CompileError(f"the kernel {name} does not compile: {reason}")
    return report.built

"""Threads, and kernels compiled up front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
import torch

from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.frontend.adapt import adapt
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry import default_registry

from .cases import matrix_graph
from .covering import chosen
from .pyg import make


@pytest.fixture(autouse=True)
def _few_threads() -> Iterator[None]:
    """Small tensors on two busy cores: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def compile_ahead() -> Callable[[Iterable[tuple[str, int, int]]], None]:
    """Compiles the chosen variants of (layer, width, heads), several at once."""

    done: set[tuple[str, int, int]] = set()

    def build(shapes: Iterable[tuple[str, int, int]]) -> None:
        missing = set(shapes) - done
        variants = [
            variant
            for shape in sorted(missing)
            for variant in variants_of(
                adapt(make(shape[0], matrix_graph(), *shape[1:])).program, "cpu"
            )
            if chosen(*shape)(variant)
        ]
        report = default_registry().build(Compiler.of("cpu").emit(variants))
        assert not report.failed, report.failed
        done.update(missing)

    return build

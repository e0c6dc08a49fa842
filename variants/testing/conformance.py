"""Checks that a backend runs every promoted variant of a layer rightly."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from hetune.variants.backends.base import Backend
from hetune.variants.errors import InputError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.kernel.precision import Precision
from hetune.variants.plan.variants import Variant
from hetune.variants.program.interpret import interpret
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer

TOLERANCE = 1e-5
"""Largest relative error of a float32 variant."""
NARROW_TOLERANCE = 1e-2
"""That of a variant that stores tables as bfloat16."""


def features(module: nn.Module, graph: HeteroGraph, seed: int = 0) -> Tensor:
    """Signed random float32 features [N, width] for a supported module, where the graph is."""
    draw = torch.Generator().manual_seed(seed)
    width = _adapter(module).program.type_of("x").width
    return torch.randn((graph.num_nodes, width), generator=draw).to(graph.device)


def relative_error(found: Tensor, expected: Tensor) -> float:
    """``max |found - expected| / max |expected|``; nothing at all has no error."""
    if found.shape != expected.shape:
        raise AssertionError(f"shape {list(found.shape)}, not {list(expected.shape)}")
    if not found.isfinite().all():
        return float("inf")
    if not expected.numel():
        return 0.0
    largest = expected.abs().max().item() or 1.0
    return (found.double() - expected).abs().max().item() / largest


def interpreted(module: nn.Module, x: Tensor, graph: HeteroGraph) -> Tensor:
    """The module's program in float64, [N, width]."""
    adapter = _adapter(module)
    weights = {name: weight.double() for name, weight in adapter.weights().items()}
    rows = x.double().view(-1, *adapter.program.type_of("x").shape)
    out = interpret(adapter.program, {**weights, "x": rows}, graph)
    return out.flatten(1)


def check_variants(
    module: nn.Module,
    graph: HeteroGraph,
    backend: str | Backend = "torch",
    *,
    expected: Iterable[Tensor] = (),
    keep: Callable[[Variant], bool] = lambda variant: True,
    seed: int = 0,
    x: Tensor | None = None,
    precision: Precision = "float32",
) -> int:
    """Runs the variants of a supported module and compares them with float64 oracles.

    Memory is full of NaN before each: what was never written shows, whoever ran before.

    Args:
        module: What to compile.
        graph: What to run it on; on the module's device, where all of this happens.
        backend: What runs it.
        expected: Results of oracles for `features` of the same seed, [N, width] each; the
            program interpreter is always one of them.
        keep: Which variants to run.
        seed: Of the features.
        x: Features [N, width] to take instead.
        precision: What the layer may store tables in.

    Returns:
        How many variants ran.

    Raises:
        AssertionError: Names the variants that are wrong, each with its error.
    """
    x = features(module, graph, seed) if x is None else x
    oracles = [interpreted(module, x, graph), *expected]
    layer = compile_layer(module, backend=backend, precision=precision)
    kept = [variant for variant in layer._promoted.values() if keep(variant)]
    wrong: list[str] = []
    for variant in kept:
        executable = layer._runs.executable(variant, graph)
        for memory in executable.memory().values():
            memory.fill_(torch.nan)
        out = torch.full(oracles[0].shape, torch.nan, device=x.device)
        try:
            found = _run(layer, x, graph, variant.id, out)
        except InputError as error:
            wrong.append(f"{variant.id}: {error}")
            continue
        most = max(relative_error(found, oracle) for oracle in oracles)
        if not most <= (NARROW_TOLERANCE if variant.choices.plan.narrow else TOLERANCE):
            wrong.append(f"{variant.id}: relative error {most:.2e}")
    if wrong or not kept:
        raise AssertionError("; ".join(wrong) or "no variant ran")
    return len(kept)


def check_same_bits(
    module: nn.Module,
    graph: HeteroGraph,
    backend: str | Backend,
    *,
    keep: Callable[[Variant], bool] = lambda variant: True,
    threads: Iterable[int] = (1, 2, 3),
    repeats: int = 3,
) -> None:
    """Runs each variant again and again, on different numbers of threads: bit by bit the same.

    Raises:
        AssertionError: Names the variant and the number of threads.
    """
    x = features(module, graph)
    layer = compile_layer(module, backend=backend)
    before = torch.get_num_threads()
    try:
        for variant in filter(keep, layer._promoted.values()):
            first = _run(layer, x, graph, variant.id)
            for count in threads:
                torch.set_num_threads(count)
                for _ in range(repeats):
                    if not torch.equal(_run(layer, x, graph, variant.id), first):
                        raise AssertionError(f"{variant.id}: other bits on {count} threads")
    finally:
        torch.set_num_threads(before)


def _run(
    layer: CompiledLayer, x: Tensor, graph: HeteroGraph, variant: str, out: Tensor | None = None
) -> Tensor:
    with torch.no_grad():
        found = layer(x, graph, variant=variant, out=out)
    assert isinstance(found, Tensor)
    return found


def _adapter(module: nn.Module) -> Adapter:
    adapter = adapt(module)
    if not isinstance(adapter, Adapter):
        raise AssertionError(f"the module is not supported: {adapter.reason}")
    return adapter

"""One run: load a graph, choose a variant, compile, run, and time it beside others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

import hetune
from hetune.clients.cli import compare, console
from hetune.clients.cli.compare import Comparison
from hetune.clients.cli.device import RunDevice
from hetune.clients.cli.sources import GraphSource, LayerSource, features
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.errors import InputError, VariantError
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.graph import index_native
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.precision import Precision
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.domain import split_relations
from hetune.variants.runtime.warm import compile_kernels

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LocalRun:
    """What to run.

    Attributes:
        graph: Where the graph comes from.
        layer: Which layer.
        device: What it runs on.
        variant: The variant to run; the selector's choice if None.
        features: File of features; drawn if None.
        memory_limit: Bytes that a run's temporaries, scratch and result may take.
        top: Time the best variant of so many plans, None for all variants.
        rounds: How often each is timed.
        seed: Draws features and the order of timing.
        cuda_graph: Whether runs are replayed as one CUDA graph; None: where that should be faster.
            Variants are compared by runs whose kernels the host starts.
        precision: What the layer may store tables in.
    """

    graph: GraphSource
    layer: LayerSource
    device: RunDevice
    variant: str | None = None
    features: Path | None = None
    memory_limit: int | None = None
    top: int | None = 6
    rounds: int = 5
    seed: int = 0
    cuda_graph: bool | None = False
    precision: Precision = "float32"


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRun:
    """A run whose graph is loaded and whose variant is chosen. All is on the run's device."""

    graph: hetune.HeteroGraph
    x: Tensor
    layer: hetune.CompiledLayer
    choice: hetune.Choice
    chosen: str


@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    """What a run gave."""

    graph: hetune.HeteroGraph
    choice: hetune.Choice
    comparison: Comparison
    output: Tensor
    index_seconds: dict[str, float] = field(default_factory=dict)


def prepare(run: LocalRun, say: Say) -> PreparedRun:
    """Loads the graph and chooses a variant; says what that took.

    Raises:
        HetuneError: As its parts do.
    """
    index_native.library()  # compiled once on a machine, so that is no part of what indexing costs
    start = time.perf_counter()
    graph = run.layer.graph_for(run.graph.open())
    loaded = time.perf_counter()
    device = run.device
    module = run.layer.module(graph).to(device.device)
    selector = hetune.Selector.load(device=device.target)
    layer = compile_layer(
        module,
        backend=device.backend,
        estimator=selector,
        cuda_graph=run.cuda_graph,
        precision=run.precision,
    )
    if run.variant is not None and run.variant not in layer.variants:
        option = "" if device.target == "cpu" else f" --device {device.target}"
        option += "" if run.precision == "float32" else f" --precision {run.precision}"
        raise VariantError(
            f"no variant {run.variant!r}: `hetune variants --layer {run.layer.kind}{option}` lists "
            "them"
        )
    say(
        f"{run.graph.name}: {console.counted(graph.num_nodes, 'node')} of "
        f"{console.counted(graph.num_ntypes, 'type')}, "
        f"{console.counted(graph.num_edges, 'edge')} of "
        f"{console.counted(graph.num_etypes, 'type')}, loaded in {console.seconds(loaded - start)}"
    )
    x = features(graph, run.layer.width, run.seed, run.features).to(device.device)
    graph = graph.to(device.device)
    start = time.perf_counter()
    choice = selector.choose(
        module,
        graph,
        memory_limit=run.memory_limit,
        cuda_graph=run.cuda_graph,
        precision=run.precision,
    )
    chosen = choice.candidate(run.variant or choice.id).id
    took = console.seconds(time.perf_counter() - start)
    say(
        f"{run.layer.describe()}, {device.describe()}: {len(choice.candidates)} variants scored in "
        f"{took}"
    )
    asked = "as asked for" if chosen == run.variant else f"what {run.variant} runs on this graph"
    say(f"{chosen}: {asked if run.variant else choice.reason}")
    return PreparedRun(graph, x, layer, choice, chosen)


def perform(run: LocalRun, say: Say) -> RunOutcome:
    """Runs a layer, and times variants of it.

    Raises:
        InputError: There are no rounds or no variants to time.
        WrongOutputError: Variants do not agree.
        HetuneError: As its parts do.
    """
    if run.rounds < 1 or (run.top is not None and run.top < 1):
        raise InputError("--rounds and --top: take 1 or more")
    ready, device = prepare(run, say), run.device
    wanted, left_out = compare.candidates(
        ready.choice.candidates,
        ready.chosen,
        run.top,
        ready.choice.memory_limit,
        device.free_bytes(),
    )
    is_native = isinstance(device.backend, CppBackend)
    if is_native:
        _compile(ready, device, run.precision, {candidate.id for candidate in wanted}, say)
    with torch.no_grad():
        start = device.now()
        ready.layer(ready.x, ready.graph, variant=ready.chosen)
        first = console.seconds(device.now() - start)
    steps: dict[str, float] = {}
    if is_native:
        steps = index_seconds(ready.graph)
        say(f"graph indexed in {console.seconds(sum(steps.values()))}, first run in {first}")
    else:
        say(f"first run, with what of indexing and compiling was left to do, in {first}")
    with console.progress_bar("timing") as update:
        comparison, output = compare.compare(
            ready.layer,
            ready.x,
            ready.graph,
            wanted,
            left_out,
            rounds=run.rounds,
            seed=run.seed,
            progress=update,
            clock=device.now,
        )
    comparison.check(run.precision)
    return RunOutcome(ready.graph, ready.choice, comparison, output, steps)


def index_seconds(graph: hetune.HeteroGraph) -> dict[str, float]:
    """What each index of the graph took to build so far, in seconds."""
    total: dict[str, float] = {}
    for group in {None, *split_relations(graph).groups.values()}:
        for name, seconds in GraphIndex.of(graph, group).build_seconds.items():
            total[name] = total.get(name, 0.0) + seconds
    return total


def _compile(
    ready: PreparedRun, device: RunDevice, precision: Precision, ids: set[str], say: Say
) -> None:
    module = ready.layer.module
    assert isinstance(module, RelationalLayer)
    everything = Compiler(device.backend).schedule(module.program(), precision)
    variants = [variant for variant in everything if variant.id in ids]
    start = time.perf_counter()
    with console.progress_bar("compiling") as update:
        built = compile_kernels(
            variants,
            device.backend,
            device.device,
            lambda done, total, name: update(done, total),
        )
    if built:
        took = console.seconds(time.perf_counter() - start)
        say(f"{console.counted(built, 'kernel')} compiled in {took}; kept for the next time")

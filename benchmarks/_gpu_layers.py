"""Layers of any kind, gradients and scores of triples on a GPU, against float64 in torch."""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from _gpu_graphs import graph_named
from _gpu_peers import each_plan
from _gpu_units import Unit
from torch import Tensor, nn

from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.runtime.gradients import StageRunner
from hetune.variants.runtime.layer_runner import LayerRunner
from hetune.variants.runtime.warm import compile_kernels
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.layer_gradients import (
    exact_gradients_of,
    gradient_error,
    gradient_tolerance,
    gradients_of,
)
from hetune.variants.testing.layers import LAYERS, randomized

D_IN, D_OUT = 12, 10
"""Widths that no block divides."""
_HOPS, _TELEPORT, _HEADS = 3, 0.1, 2
_TYPED = ("rgcn-mean", "rgat-across", "hgt")
_SCORES = ("distmult", "transe", "rescal")
_TRIPLES = 1000


def _convs() -> dict[str, Callable[[], nn.Module]]:
    """PyG's layers of graphs with one type of edges."""
    from torch_geometric import nn as pyg

    def gin() -> nn.Module:
        return pyg.GINConv(nn.Sequential(nn.Linear(D_IN, D_OUT), nn.ReLU(), nn.Linear(D_OUT, 5)))

    attention = {"gat": pyg.GATConv, "gatv2": pyg.GATv2Conv, "transformer": pyg.TransformerConv}
    heads = {n: partial(c, D_IN, D_OUT // _HEADS, _HEADS) for n, c in attention.items()}
    return {
        "gcn": partial(pyg.GCNConv, D_IN, D_OUT),
        "sage": partial(pyg.SAGEConv, D_IN, D_OUT),
        "gin": gin,
        "tag": partial(pyg.TAGConv, D_IN, D_OUT, _HOPS),
        "appnp": partial(pyg.APPNP, _HOPS, _TELEPORT),
        **heads,
    }


CONVS = ("gcn", "sage", "gin", "gat", "gatv2", "tag", "appnp", "transformer")
"""Names of `_convs`."""


def power_law(nodes: int, edges: int) -> Tensor:
    """An int64 [2, edges] edge_index whose degrees are heavy-tailed, each edge in both ways."""
    draw = torch.Generator().manual_seed(0)
    ids = (torch.rand(2, edges // 2, generator=draw).pow_(3) * nodes).long()
    one_way = torch.randperm(nodes, generator=draw)[ids]
    return torch.cat([one_way, one_way.flip(0)], dim=1)


@dataclass(frozen=True)
class LayerChecks:
    """Makes the units.

    Attributes:
        device: "cuda", or "cpu" with Triton's interpreter, on small graphs.
    """

    device: str

    def units(self) -> list[Unit]:
        """All of them."""
        found = [
            *((f"correct-layers/{name}", partial(self.correct, name)) for name in CONVS),
            ("correct-kge", self.scores),
            *((f"gradients/{name}", partial(self.gradients, name)) for name in (*_TYPED, "gat")),
        ]
        return [Unit(key, partial(_compiled, run), alone=False) for key, run in found]

    def correct(self, name: str) -> dict[str, Any]:
        """Every plan of one of PyG's layers, in the default schedule."""
        errors = {}
        drawn = (3000, 12_000) if self.device != "cpu" else (60, 240)
        for graph in ("self loops", "hub", drawn):
            edges, nodes = self._edges(graph)
            module = randomized(_convs()[name]()).eval().to(self.device)
            x = self._rows(nodes)
            with torch.no_grad():
                want = copy.deepcopy(module).double()(x.double(), edges)
                layer, variants = self._plans(module, x, edges)
                for variant in variants:
                    self._poison(nodes)
                    error = relative_error(layer(x, edges, variant=variant), want)
                    errors[f"{graph} {variant}"] = error
        return _within(errors, TOLERANCE)

    def gradients(self, name: str) -> dict[str, Any]:
        """Every plan of each stage of a layer's backward."""
        errors = {}
        for graph in ("several blocks", "aifb") if self.device != "cpu" else ("several blocks",):
            typed = graph_named(graph, self.device)
            if name in LAYERS:
                heads = min(_HEADS, max(LAYERS[name].heads))
                module, edges = LAYERS[name].make(typed, D_IN, heads), typed
            else:
                module, edges = _convs()[name](), self._edges(graph)[0]
            module = randomized(module).to(self.device)
            args = self._rows(typed.num_nodes), edges
            want, own = exact_gradients_of(module, args), gradients_of(module, args)
            for layer, chosen in self._backwards(module, args):
                error = gradient_error(gradients_of(layer, args), want)
                errors[f"{graph} {chosen}"] = error / gradient_tolerance(own, want)
        return _within(errors, 1.0)

    def scores(self) -> dict[str, Any]:
        """Scores of triples, of negatives and of all entities, and gradients by all tables."""
        from _peers.kge import KgeProblem, _hetune, _torch

        draw = torch.Generator().manual_seed(0)
        ids = torch.randint(300, (2, _TRIPLES), generator=draw)
        types = torch.randint(11, (_TRIPLES,), generator=draw)
        graph = HeteroGraph(*ids, types, num_nodes=300, num_etypes=11).to(self.device)
        errors = {}
        for name in _SCORES:
            found, want = (
                self._of_triples(make(problem), problem)
                for make, problem in (
                    (self._score(_hetune), KgeProblem(name, graph, _TRIPLES, D_IN)),
                    (_torch, KgeProblem(name, graph, _TRIPLES, D_IN, torch.float64)),
                )
            )
            errors[f"{name} scores"] = relative_error(found[0].detach(), want[0].detach())
            errors[f"{name} gradients"] = gradient_error(found[1:], want[1:])
        return _within(errors, TOLERANCE)

    def _score(self, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The same by Triton, which only a GPU takes by itself."""
        if self.device != "cpu":
            return make
        import hetune
        from hetune.costmodel.selection.weighted_layers import WeightedLayers

        def made(problem: Any) -> Any:
            score = make(problem)
            options = {"dynamic": True, "backend": TritonBackend()}
            score.func._layers = WeightedLayers(partial(hetune.compile, **options))
            return score

        return made

    def _of_triples(self, scores: Any, problem: Any) -> list[Tensor]:
        found = scores(*problem.batches[0])
        up = torch.randn(len(found), generator=torch.Generator().manual_seed(2)).to(found)
        tables = [*problem.tables.values()]
        by = torch.autograd.grad(found, tables, up, allow_unused=True, materialize_grads=True)
        return [found, *by]

    def _edges(self, graph: str | tuple[int, int]) -> tuple[Tensor, int]:
        """An edge_index, and how many nodes there are."""
        if isinstance(graph, tuple):
            return power_law(*graph).to(self.device), graph[0]
        typed = graph_named(graph, self.device)
        return torch.stack([typed.src, typed.dst]).long(), typed.num_nodes

    def _rows(self, nodes: int) -> Tensor:
        draw = torch.Generator().manual_seed(1)
        return torch.randn(nodes, D_IN, generator=draw).to(self.device)

    def _poison(self, nodes: int) -> None:
        """Leaves no number in the memory that torch hands out next."""
        shapes = (nodes, D_OUT), (nodes * D_IN * _HOPS,), (1 << 20,)
        held = [torch.full(shape, torch.nan, device=self.device) for shape in shapes]
        del held

    def _plans(
        self, module: nn.Module, x: Tensor, edges: Tensor
    ) -> tuple[CompiledLayer, list[str]]:
        """A layer whose kernels are compiled, and its plans."""
        backend = TritonBackend()
        layer = compile_layer(module, backend=backend, cuda_graph=False)
        layer.explain(x, edges)
        kept = [variant for variant in layer._promoted.values() if each_plan(variant)]
        compile_kernels(kept, backend, x.device, None)
        return layer, [variant.id for variant in kept]

    def _backwards(
        self, module: nn.Module, args: tuple[Any, ...]
    ) -> Iterator[tuple[CompiledLayer, str]]:
        """A layer again and again, each time with another plan in each stage of its backward."""
        backend = TritonBackend()
        layer = compile_layer(module, backend=backend, cuda_graph=False)
        with torch.enable_grad():
            rows = args[0].clone().requires_grad_()
            _, prepared = layer._prepare_choice((rows, *args[1:]), {})
            runner = layer._training.backward_of(*prepared)
            assert runner is not None
        stages = [stage for stage in runner.stages if not stage._is_interpreted]
        plans = [[v for v in stage._variants.values() if each_plan(v)] for stage in stages]
        forward = [variant for variant in layer._promoted.values() if each_plan(variant)][:1]
        layer._promoted = {variant.id: variant for variant in forward}
        compile_kernels([*forward, *(v for p in plans for v in p)], backend, rows.device, None)
        for turn in range(max(map(len, plans))):
            chosen = [known[turn % len(known)] for known in plans]
            for stage, variant in zip(stages, chosen, strict=True):
                _only(stage, variant, backend)
            yield layer, " | ".join(variant.plan_id for variant in chosen)


def _compiled(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a unit gives where no call runs in the original module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        warnings.simplefilter("error", FallbackWarning)
        return run()


def _only(stage: StageRunner, variant: Any, backend: TritonBackend) -> None:
    """Leaves a stage one variant, and lets it forget what it chose."""
    stage.__dict__["_variants"], stage._runs = {variant.id: variant}, LayerRunner(backend)


def _within(errors: dict[str, float], most: float) -> dict[str, Any]:
    """The largest error and how many there are.

    Raises:
        AssertionError: Names those that are too large.
    """
    wrong = {name: error for name, error in errors.items() if not error <= most}
    if wrong or not errors:
        raise AssertionError(f"errors above {most}: {wrong}")
    return {"checked": len(errors), "worst": max(errors.values()), "tolerance": most}

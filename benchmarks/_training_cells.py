"""Cells of `training.py`: gradients of a layer, and epochs of two."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from _cells import Cell
from _peers import training
from _peers._torch_training import hgt
from _peers.problem import HOMOGENEOUS, Candidate, Problem
from _peers.training import Trainable
from _registry import matching
from torch import Tensor
from torch.nn import functional

from hetune.variants.graph.hetero import HeteroGraph

_STEPS = {"step": 1, "epoch": 2, "featureless": 0}
"""How many layers' gradients count in the roofline."""
_BACKWARD = 2
"""Each product of forward has two in backward, of the same rows."""


class Gradients:
    """Forward and backward: gradients of x (in parts, as it is given) and of each parameter."""

    def __init__(self, problem: Problem, layer: Trainable) -> None:
        self._problem, self._layer, self.ran = problem, layer, layer.ran
        self.parameters = layer.parameters
        rows = problem.x_dict if layer.is_dict else {"": problem.x}
        self._x = {name: part.detach().requires_grad_() for name, part in rows.items()}

    def __call__(self) -> dict[str, Any]:
        layer, up = self._layer, [self._problem.upstream]
        out = layer.forward(self._x if layer.is_dict else self._x[""])
        if layer.is_dict:
            known = {name: rows for name, rows in out.items() if rows is not None}
            up_of, out = self._problem.by_type(up[0]), list(known.values())
            up = [up_of[name] for name in known]
        leaves = [*self._x.values(), *self.parameters.values()]
        found = torch.autograd.grad(out, leaves, up, allow_unused=True, materialize_grads=True)
        parts = len(self._x)
        return {"x": found[:parts], **dict(zip(self.parameters, found[parts:], strict=True))}


class Epoch:
    """Forward, loss, backward and optimizer of two layers: one label for each node of a type."""

    def __init__(self, problem: Problem, make: Callable[[Problem], Trainable]) -> None:
        # Layers of its own, whose weights it changes.
        second = replace(problem, seed=problem.seed + 9, is_featureless=False)
        self._layers = layers = [make(replace(problem)), make(second)]
        told = [layer.ran for layer in layers if layer.ran is not None]
        self.ran = (lambda: "; ".join(ran() for ran in told)) if told else None
        self._is_dict = layers[1].is_dict
        x = None if problem.is_featureless else problem.x
        self._x: Any = problem.x_dict if self._is_dict else x
        parameters = [p for layer in layers for p in layer.parameters.values()]
        self._optimizer = torch.optim.Adam(parameters, lr=0.01, fused=True)
        sizes = {n: len(x) for n, x in problem.by_type(problem.x).items()}
        names = problem.by_type(problem.compared_rows)
        self._type = max(sizes, key=lambda name: sizes[name] * bool(names[name].all()))
        generator = torch.Generator().manual_seed(problem.seed)
        self._labels = torch.randint(problem.width, (sizes[self._type],), generator=generator)
        self._by_type = problem.by_type

    def __call__(self) -> dict[str, Tensor]:
        first, second = self._layers
        self._optimizer.zero_grad()
        rows = first.forward(self._x)
        if self._is_dict:  # a type that nothing leads to keeps its rows
            known = {name: part for name, part in rows.items() if part is not None}
            rows = {name: known.get(name, x).relu() for name, x in self._x.items()}
            out = second.forward(rows)[self._type]
        else:
            out = self._by_type(second.forward(rows.relu()))[self._type]
        loss = functional.cross_entropy(out, self._labels)
        loss.backward()
        self._optimizer.step()
        return {"loss": loss.detach()}


@dataclass(frozen=True)
class TrainingCell(Cell):
    """Training of a layer: a "step", an "epoch", or a "featureless" epoch (Seastar's R-GCN)."""

    what: str = "step"

    @property
    def key(self) -> str:
        """Readable and unique."""
        return f"{self.what}/{super().key}"

    def problem(self) -> Problem:
        """As of `Cell`; of homogeneous layers on one edge type."""
        if self.layer not in HOMOGENEOUS:
            return super().problem()
        from homogeneous import edges_of

        (src, dst), nodes = edges_of(self.graph)
        return self.problem_on(HeteroGraph(src, dst, torch.zeros_like(src), num_nodes=nodes))

    def problem_on(self, graph: HeteroGraph) -> Problem:
        size = self.layer, graph, self.width, self.heads
        return Problem(*size, trains=True, is_featureless=self.what == "featureless")

    def candidates(self, *, compiled: bool = False, only: Sequence[str] = ()) -> list[Candidate]:
        """Those that the layer, or featureless layers, have."""
        found = matching(training.candidates(self.layer), compiled=compiled, only=only)
        return [replace(c, build=partial(self._run, c.build)) for c in found]

    def _run(self, make: Callable[[Problem], Any], problem: Problem) -> Gradients | Epoch:
        torch._dynamo.reset()
        return Gradients(problem, make(problem)) if self.what == "step" else Epoch(problem, make)

    def mode(self) -> AbstractContextManager[Any]:
        """With gradients."""
        return nullcontext()

    def reference(self, problem: Problem, model: str) -> tuple[Any, str]:
        """By the expert, whom the tests hold to PyG; of homogeneous layers by PyG."""
        double = replace(problem, dtype=torch.float64)
        if model != "full":
            light = partial(training.of_form, partial(hgt, side="smaller", light=True))
            return self._run(light, double)(), f"expert, {model}"
        name = "pyg" if self.layer in HOMOGENEOUS else "expert/smaller side"
        [made] = self.candidates(only=[name])
        return made.build(double)(), name.partition("/")[0]

    def error(self, problem: Problem, output: Any, want: Any) -> float:
        """Largest difference of a gradient over its largest value, or over 1e-4 of the largest."""
        wanted, found = (
            {n: torch.cat(g) if isinstance(g, tuple) else g.double() for n, g in of.items()}
            for of in (want, output)
        )
        least = 1e-4 * max(float(w.abs().max()) for w in wanted.values())
        both = ((found[name], w) for name, w in wanted.items() if name in found)
        errors = [(got - w).abs().max() / w.abs().max().clamp_min(least) for got, w in both]
        return float(torch.stack(errors).max())

    def facts(self, run: Any) -> dict[str, Any]:
        """What hetune ran."""
        return {} if run.ran is None else {"ran": run.ran()}

    def least_seconds(self, problem: Problem, threads: int) -> float:
        """Of forward's best variant and, in proportion, of backward; zero if no rows are given."""
        from _bound import least_seconds_called

        layers = _STEPS[self.what]
        if not layers:
            return 0.0
        typed = problem.edges if self.layer in HOMOGENEOUS else (problem.graph,)
        least = least_seconds_called(problem.conv, (problem.x, *typed), threads)
        return layers * (1 + _BACKWARD) * least

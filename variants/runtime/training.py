"""Gradients through compiled layers: a layer's program is one operator to torch's autograd.

What is made of a module's parameters before the program runs, and of its results afterwards, is
torch's own. Saved for the backward are the features and weights that gradients depend on; what the
forward computed in between is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as torch_modules

from hetune.variants.backends.base import Backend
from hetune.variants.errors import VariantError
from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.frontend.autocast import full_precision
from hetune.variants.frontend.call import Call
from hetune.variants.frontend.dropout import DropoutMasks
from hetune.variants.frontend.type_order import order_of
from hetune.variants.graph.edge_batch import EdgeBatch
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.passes.gradient import gradient_name
from hetune.variants.program.nodes import Program
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.gradients import GradientRunner, gradient_runner
from hetune.variants.runtime.modes import needs_gradients
from hetune.variants.runtime.sparse_gradients import SparseGradients, sparse_gradients

Forward = Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]]
"""A program's results, by its features and constants, and perhaps its weights."""


class Training:
    """The gradients of a layer's program, by sets of parameters that need them.

    Args:
        backend: What compiles and runs them.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._runners: dict[tuple[object, ...], GradientRunner | Unsupported] = {}
        self._sparse: dict[tuple[str, ...], SparseGradients | None] = {}

    def gradients(
        self, program: Program, wanted: tuple[str, ...], by_edges: bool = False
    ) -> GradientRunner | Unsupported:
        """What computes gradients by some parameters, or why nothing does.

        Args:
            program: Of the layer.
            wanted: By which of its parameters.
            by_edges: Whether the call's graph is a batch of edges.
        """
        if (*wanted, by_edges) not in self._runners:
            found = gradient_runner(program, wanted, self._backend, by_edges)
            runner = _unsupported(found) if isinstance(found, str) else found
            self._runners[*wanted, by_edges] = runner
        return self._runners[*wanted, by_edges]

    def sparse(
        self, program: Program, wanted: tuple[str, ...], graph: HeteroGraph
    ) -> SparseGradients | None:
        """As `gradients`, on features that are mostly zeros; None where that is no matter."""
        if isinstance(graph, EdgeBatch):
            return None
        if wanted not in self._sparse:
            self._sparse[wanted] = sparse_gradients(program, wanted, self._backend)
        return self._sparse[wanted]

    def is_needed(self, adapter: Adapter, call: Call) -> bool:
        """Whether gradients may be asked for.

        Args:
            adapter: Of the layer.
            call: Of the layer.
        """
        module = adapter.module
        return needs_gradients(lambda: (*call.features, *module.parameters(), *module.buffers()))

    def results(
        self,
        forward: Forward,
        adapter: Adapter,
        call: Call,
        graph: HeteroGraph,
        inputs: Mapping[str, Tensor],
        masks: DropoutMasks,
        policy: Policy,
        out: Tensor | None,
    ) -> tuple[Tensor, ...] | Unsupported:
        """The program's results with their gradients, or why the module has to compute them.

        Args:
            forward: Runs the program.
            adapter: Of the layer.
            call: Of the layer.
            graph: Of the call.
            inputs: Features and constants of the call, float32.
            masks: Of the call.
            policy: How the layer chooses.
            out: As of the call.
        """
        if out is not None:
            return _unsupported("out= has none")
        by_edges = isinstance(graph, EdgeBatch)
        found = self.parameters(adapter, call, inputs, by_edges)
        if isinstance(found, Unsupported):
            return found
        parameters, runner = found
        if runner is None:
            return forward({**inputs, **masks.rows()})
        runner.check_memory(graph, policy)

        def run(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
            with full_precision(graph.device.type):
                given = graph, policy, {**values, **masks.rows()}
                sparse = self.sparse(adapter.program, runner.wanted, graph)
                found = sparse.run(*given) if sparse else None
                return found or runner.run(*given)

        constants = {name: rows for name, rows in inputs.items() if name not in parameters}
        backward = OperatorBackward(adapter.program, runner.reads, run, constants, (*parameters,))
        return differentiated(
            lambda given: forward({**given, **masks.rows()}), backward, parameters
        )

    def backward_of(
        self, adapter: Adapter, call: Call, graph: HeteroGraph
    ) -> GradientRunner | None:
        """What runs a call's backward; None where nothing needs gradients.

        Args:
            adapter: Of the layer.
            call: Of the layer.
            graph: Of the call.

        Raises:
            VariantError: The module does.
        """
        with torch.enable_grad():
            by_edges = isinstance(graph, EdgeBatch)
            found = self.parameters(adapter, call, call.inputs(graph), by_edges)
        if isinstance(found, Unsupported):
            raise VariantError(f"this call runs in the original module: {found.reason}")
        return found[1]

    def parameters(
        self, adapter: Adapter, call: Call, inputs: Mapping[str, Tensor], by_edges: bool = False
    ) -> tuple[dict[str, Tensor], GradientRunner | None] | Unsupported:
        """The program's features and weights as torch differentiates them, and their gradients.

        Args:
            adapter: Of the layer.
            call: Of the layer.
            inputs: Features of the call, float32.
            by_edges: Whether its graph is a batch of edges.
        """
        reason = _backward_hooks(adapter.module) or call.gradient_refusal()
        if reason is not None:
            return _unsupported(reason)
        weights = order_of(adapter, call.edges).weights(adapter.program, adapter.live_weights())
        features = (param.name for param in adapter.inputs if param.role == "feature")
        given = {name: inputs[name] for name in features if name not in adapter.dropout}
        found = {**given, **weights}
        wanted = tuple(name for name, tensor in found.items() if tensor.requires_grad)
        runner = self.gradients(adapter.program, wanted, by_edges) if wanted else None
        return runner if isinstance(runner, Unsupported) else (found, runner)


def trains_weights(program: Program, inputs: Mapping[str, Tensor]) -> bool:
    """Whether gradients of a program's weights are needed, by what a forward is given."""
    weights = (inputs.get(param.name) for param in program.params if param.role == "weight")
    return any(weight is not None and weight.requires_grad for weight in weights)


@dataclass(frozen=True, slots=True)
class OperatorBackward:
    """What a call's backward needs beside tensors.

    Attributes:
        program: Of the layer.
        reads: Its features and weights whose values the backward needs.
        run: Gradients by parameter, of these, constants and the results' gradients; masks are drawn
            again.
        constants: Of the call.
        names: Of the program's parameters, in the operator's order.
    """

    program: Program
    reads: Iterable[str]
    run: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
    constants: Mapping[str, Tensor]
    names: tuple[str, ...]


def differentiated(
    forward: Forward, backward: OperatorBackward, parameters: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """A program's results with their gradients.

    Args:
        forward: Runs the program.
        backward: How gradients are computed.
        parameters: The program's features and weights as torch differentiates them.
    """
    given = forward, backward, *parameters.values()
    results: tuple[Tensor, ...] = _Operator.apply(*given)  # type: ignore[no-untyped-call]
    return results


class _Operator(torch.autograd.Function):
    """A program as an operator of torch."""

    @staticmethod
    def forward(
        ctx: Any, forward: Forward, backward: OperatorBackward, *given: Tensor
    ) -> tuple[Tensor, ...]:
        """The program's results.

        Args:
            ctx: Torch's.
            forward: Computes them.
            backward: How their gradients are computed.
            given: The program's features and weights.
        """
        values = dict(zip(backward.names, given, strict=True))
        ctx.saved = [name for name in backward.reads if name in values]
        ctx.save_for_backward(*map(values.__getitem__, ctx.saved))
        ctx.call, ctx.shapes = backward, tuple(tensor.shape for tensor in given)
        return forward({**backward.constants, **values})

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the program's features and weights, where they are needed.

        Args:
            ctx: Torch's.
            grads: Of its results.
        """
        with torch.no_grad():
            found = _Operator._gradients(ctx, grads)
        if torch.is_grad_enabled():  # they may be differentiated again, whatever the results' are
            rows = (each.detach().requires_grad_() for each in found.values())
            found = dict(zip(found, _Once.apply(*rows), strict=True))  # type: ignore[no-untyped-call]
        named = zip(ctx.call.names, ctx.shapes, strict=True)
        gradients = (found[name].reshape(shape) if name in found else None for name, shape in named)
        return (None,) * _OTHERS + tuple(gradients)

    @staticmethod
    def _gradients(ctx: Any, grads: tuple[Tensor, ...]) -> dict[str, Tensor]:
        call: OperatorBackward = ctx.call
        values = {**call.constants, **dict(zip(ctx.saved, ctx.saved_tensors, strict=True))}
        values |= zip(map(gradient_name, call.program.results), grads, strict=True)
        return call.run(values)


class _Once(torch.autograd.Function):
    """Gradients as they are.

    Torch's `once_differentiable` takes those for constants whose results' gradients are.
    """

    @staticmethod
    def forward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """The gradients."""
        return tuple(rows.view_as(rows) for rows in gradients)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """None.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "gradients of compiled layers are differentiated once: for gradients of gradients call "
            "the original module"
        )


_OTHERS = 2
"""Arguments of the operator that are no tensors."""


def _unsupported(reason: str) -> Unsupported:
    return Unsupported(f"gradients are needed, and {reason}: torch.no_grad() is for inference")


def _backward_hooks(module: torch.nn.Module) -> str | None:
    """Why hooks of gradients would not be called, or None."""
    hooks: Iterable[str] = ("_backward_hooks", "_backward_pre_hooks")
    if any(getattr(part, name) for part in module.modules() for name in hooks):
        return "it has hooks for the backward"
    if torch_modules._global_backward_hooks or torch_modules._global_backward_pre_hooks:
        return "there are hooks for the backward of all modules"
    return None

"""Compiling one layer, with options."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from hetune.variants.backends.base import Backend
from hetune.variants.graph.vocabulary import VocabularyLike, vocabulary_of
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.precision import Precision, check_precision
from hetune.variants.runtime.backends import backend_of
from hetune.variants.runtime.calls import Policy
from hetune.variants.runtime.choice import check_demands
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.cost_estimates import CostEstimator, RooflineEstimator
from hetune.variants.runtime.layer_sharing import LayerSharing


def compile_layer(
    module: nn.Module,
    *,
    backend: str | Backend | None = None,
    memory_limit: int | None = None,
    estimator: CostEstimator | None = None,
    default_estimator: Callable[[Device], CostEstimator] = lambda device: RooflineEstimator(),
    expected_runs: float | None = None,
    explore: bool = False,
    dynamic: bool = False,
    cuda_graph: bool | None = None,
    vocabulary: VocabularyLike | None = None,
    precision: Precision | None = None,
    sharing: LayerSharing | None = None,
    kind: type[CompiledLayer] = CompiledLayer,
) -> CompiledLayer:
    """Compiles a layer as `hetune.compile` does.

    `default_estimator` makes an estimator where none is given; `sharing` is what other layers of a
    model share; `kind` is the class that compiled layers are of.
    """
    check_demands(memory_limit, expected_runs)
    if precision is None:
        precision = module.precision if isinstance(module, CompiledLayer) else _own(module)
    runs = _backend(module, backend, check_precision(precision))
    if isinstance(module, CompiledLayer):
        before = module._policy
        if runs.target == module._runs.backend.target:
            estimator = estimator or before.estimator
            cuda_graph = before.cuda_graph if cuda_graph is None else cuda_graph
        memory_limit = before.memory_limit if memory_limit is None else memory_limit
        expected_runs = before.expected_runs if expected_runs is None else expected_runs
        vocabulary = module.vocabulary if vocabulary is None else vocabulary
        explore, dynamic = explore or before.explore, dynamic or before.dynamic
        module = module.module
    if cuda_graph is None and runs.target == "cpu":
        cuda_graph = False
    estimator = estimator or default_estimator(runs.target)
    choosing = estimator, memory_limit, expected_runs, explore, cuda_graph
    policy = Policy(*choosing, precision, dynamic)
    return kind(module, runs, policy, vocabulary_of(vocabulary), sharing)


def _own(module: nn.Module) -> Precision:
    """What a module's own dtype allows."""
    parameters = module.parameters() if isinstance(module, nn.Module) else ()
    dtypes = {parameter.dtype for parameter in parameters}
    return "bf16" if dtypes == {torch.bfloat16} else "float32"


def _backend(module: nn.Module, backend: str | Backend | None, precision: Precision) -> Backend:
    is_alike = isinstance(module, CompiledLayer) and module.precision == precision
    if backend is None and is_alike:
        assert isinstance(module, CompiledLayer)
        devices = {parameter.device for parameter in module.parameters()}
        if not any(map(module._runs.backend.refusal, devices)):
            return module._runs.backend
    return backend_of(module, backend, precision)

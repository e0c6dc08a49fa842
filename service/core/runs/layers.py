"""A kept model as layers that run on parts of a graph."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from hetune.costmodel.selection.selector import Selector
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import Model
from hetune.variants.errors import InputError
from hetune.variants.frontend.model_steps.steps import ModelStep, ModelSteps
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.partition.layers import PartitionedLayer
from hetune.variants.partition.model_layers import wired_layers
from hetune.variants.program.nodes import Program
from hetune.variants.program.stages import near_programs
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer


def layers_of(model: Model, engine: Engine, selector: Selector) -> tuple[PartitionedLayer, ...]:
    """The layers of a model, with what follows them; the selector chooses for each part.

    Raises:
        InputError: They run on a GPU, take or give more than rows of nodes, or read more than
            their nodes' edges.
    """
    described, name = model.description, f"the model {model.name}"
    if not engine.device.is_host:
        raise InputError(f"{name} does not run in parts on a GPU: ask a service on CPUs")
    if described.jumping != "none":
        raise InputError(f"{name} does not run in parts: it joins the rows of all its layers")

    def compiled(number: int, program: Program, weights: Mapping[str, Tensor]) -> CompiledLayer:
        module: RelationalLayer = model.modules[number]
        if len(near_programs(module.program())) > 1:
            module = ProgramLayer(program, weights)
            module.requires_grad_(False).eval()
        return compile_layer(
            module,
            backend=engine.backend,
            estimator=selector,
            vocabulary=described.vocabulary,
            precision=described.precision,
        )

    wiring = model.wiring
    steps = tuple(
        ModelStep(module.program(), reads, loops, module.weights())
        for module, reads, loops in zip(model.modules, wiring.reads, wiring.loops, strict=True)
    )
    finish = {
        number: epilogue
        for number, epilogue in enumerate(model.epilogues)
        if (epilogue.activation, epilogue.normalization) != ("none", "none")
    }
    whole = ModelSteps(steps, described.num_relations, model.tables)
    return wired_layers(name, whole, compiled, finish)

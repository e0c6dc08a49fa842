"""Models as modules: from a description and weights, and back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hetune.nn import HGT, RGAT, RGCN, from_pyg
from hetune.service.core.formats.documents import parse_value
from hetune.service.core.models.description import (
    HgtLayer,
    Jumping,
    Layer,
    Metadata,
    ModelDescription,
    ProgramDocument,
    RgatLayer,
    RgcnLayer,
)
from hetune.service.core.models.epilogue import (
    PARAMETERS,
    Epilogue,
    activation_of,
    normalization_of,
)
from hetune.service.core.models.program_limits import check_program, check_weights
from hetune.service.core.models.wiring import wiring_of
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.graph.vocabulary import Vocabulary, VocabularyLike
from hetune.variants.kernel.precision import Precision
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.program.nodes import Space
from hetune.variants.runtime.compiled import CompiledLayer

_SHOWN = 8
_PYG = "torch_geometric.nn.conv."


def modules_of(
    description: ModelDescription, weights: Mapping[str, Tensor]
) -> tuple[RelationalLayer, ...]:
    """The layers of a model, for inference.

    Args:
        description: The layers.
        weights: Float32, the state dict of a module list of the layers: ``0.weight``, ...; their
            normalizations' parameters: ``0.normalization.weight``, ...; and ``tables.x``, ...

    Raises:
        InputError: A width does not fit, or names, dtypes or shapes of weights do not.
    """
    with torch.device("meta"):  # takes no memory, whatever widths are asked for
        stack = nn.ModuleList(
            _module(layer, width, description)
            for layer, width in zip(description.layers, description.widths, strict=False)
        )
        expected = stack.state_dict()
        normalizing = {
            name: torch.empty(width)
            for number, width in enumerate(description.widths[1:])
            for name in _parameters(description, number).values()
        }
        wiring = wiring_of(description, [module.program() for module in _layers(stack)])
        for name, rows in description.tables.items():
            normalizing[f"tables.{name}"] = torch.empty(rows, wiring.types[name].width)
    _check_names(set(weights), {*expected, *normalizing})
    for name, wanted in (expected | normalizing).items():
        given = weights[name]
        if given.dtype != torch.float32 or given.shape != wanted.shape:
            raise InputError(
                f"the weight {name} is {given.dtype} {list(given.shape)}: this model needs "
                f"torch.float32 {list(wanted.shape)}"
            )
    stack.load_state_dict({name: weights[name] for name in expected}, assign=True)
    stack.requires_grad_(False).eval()
    return _layers(stack)


def _layers(stack: nn.ModuleList) -> tuple[RelationalLayer, ...]:
    found = tuple(stack)
    assert all(isinstance(module, RelationalLayer) for module in found)
    return found  # type: ignore[return-value]


def epilogues_of(
    description: ModelDescription, weights: Mapping[str, Tensor]
) -> tuple[Epilogue, ...]:
    """What follows each layer.

    Args:
        description: The layers.
        weights: What `modules_of` took.
    """
    return tuple(
        Epilogue(
            layer.activation,
            layer.normalization,
            {key: weights[name] for key, name in _parameters(description, number).items()},
        )
        for number, layer in enumerate(description.layers)
    )


def _parameters(description: ModelDescription, number: int) -> dict[str, str]:
    """The names of a normalization's parameters, and those of the weights that they are."""
    names = PARAMETERS[description.layers[number].normalization]
    return {name: f"{number}.normalization.{name}" for name in names}


def _module(layer: Layer, width: int, description: ModelDescription) -> RelationalLayer:
    options = layer.model_dump(exclude={"layer", "activation", "normalization", "out_channels"})
    match layer:
        case RgcnLayer():
            return RGCN(width, layer.out_channels, description.num_relations, **options)
        case RgatLayer():
            return RGAT(width, layer.out_channels, description.num_relations, **options)
        case HgtLayer():
            metadata = description.metadata
            assert metadata is not None
            return HGT(width, layer.out_channels, (metadata.ntypes, metadata.etypes), **options)
        case ProgramDocument():
            return _program_layer(layer, description)


def _program_layer(layer: ProgramDocument, description: ModelDescription) -> ProgramLayer:
    program = LabeledProgram.parse(layer.program).program
    check_program(program)
    if (width := program.type_of(program.results[0]).width) != layer.out_channels:
        raise InputError(
            f"the program {program.name} gives out rows of {width}, and out_channels is "
            f"{layer.out_channels}: make them equal"
        )
    ntypes = description.node_types or (description.metadata and description.metadata.ntypes)
    rows = {Space.ETYPE: description.num_relations, Space.NTYPE: len(ntypes or ("",))}
    check_weights(program, rows)
    weights = {
        param.name: torch.empty((rows.get(param.type.space, 1), *param.type.shape))
        for param in program.params
        if param.role == "weight"
    }
    found = ProgramLayer(program, weights)
    found.num_relations = description.num_relations
    return found


def _check_names(given: set[str], expected: set[str]) -> None:
    for what, names in (("missing", expected - given), ("unknown", given - expected)):
        if names:
            shown = ", ".join(sorted(names)[:_SHOWN])
            raise InputError(
                f"{len(names)} weights are {what}: {shown}; name them <layer>.<parameter>, as the "
                "state dict of a torch.nn.ModuleList of the layers does"
            )


def describe(
    modules: Sequence[nn.Module],
    jumping: Jumping = "none",
    vocabulary: VocabularyLike | None = None,
    precision: Precision | None = None,
) -> tuple[ModelDescription, dict[str, Tensor]]:
    """The description and the weights of layers, and of what is between them.

    Args:
        modules: Layers of `hetune.nn`, or of PyG that `hetune.nn.from_pyg` takes; each followed by
            at most one of `torch.nn.LayerNorm` and `BatchNorm1d`, then at most one of `ReLU`,
            `ELU`, `GELU`, `Tanh`. `Dropout` does nothing at inference, and is left out.
        jumping: Whether the model gives out what all layers do: "cat" or "max".
        vocabulary: Names of the types that the weights are for, in their order, as
            `Vocabulary.of` takes them; by default those of a compiled layer.
        precision: What layers may store tables in; by default what all compiled layers may.

    Raises:
        InputError: A module is none of these, or widths or edge types do not fit.
    """
    known = None if vocabulary is None else Vocabulary.of(vocabulary)
    layers: list[dict[str, Any]] = []
    relational: list[RelationalLayer] = []
    weights: dict[str, Tensor] = {}
    metadata = None
    allowed: set[Precision] = set()
    for given in modules:
        if isinstance(given, CompiledLayer):
            known = known or given.vocabulary
            allowed.add(given.precision)
            given = given.module
        module = from_pyg(given) if type(given).__module__.startswith(_PYG) else given
        if isinstance(module, RelationalLayer):
            name = "program" if isinstance(module, ProgramLayer) else module.kind
            layers.append({"layer": name, "out_channels": module.out_channels})
            layers[-1] |= module.options
            relational.append(module)
            if isinstance(module, HGT):
                names, triples = module.metadata
                metadata = Metadata(ntypes=tuple(names), etypes=tuple(triples))
        elif not isinstance(module, nn.Dropout):
            if not layers:
                raise InputError(f"{module} follows no layer: put a layer of hetune.nn before it")
            weights |= _follow(module, layers, relational[-1])
    if not relational:
        raise InputError("a model without layers: give layers of hetune.nn")
    for before, after in itertools.pairwise(relational):
        if before.num_relations != after.num_relations:
            raise InputError(
                f"layers for {before.num_relations} and for {after.num_relations} edge types: "
                "they have to be for the same graphs"
            )
    try:
        description = parse_value(
            ModelDescription,
            {
                "in_channels": relational[0].in_channels,
                "num_relations": relational[0].num_relations,
                "layers": tuple(layers),
                "metadata": metadata or _metadata(known),
                "relations": known and known.relations,
                "node_types": known and known.node_types,
                "jumping": jumping,
                "precision": precision or ("bf16" if allowed == {"bf16"} else "float32"),
            },
        )
    except MalformedError as error:
        raise InputError(f"these layers make no model: {error}") from None
    return description, nn.ModuleList(relational).state_dict() | weights


def _metadata(known: Vocabulary | None) -> Metadata | None:
    if known is None or known.node_types is None or known.canonical_etypes is None:
        return None
    return Metadata(ntypes=known.node_types, etypes=known.canonical_etypes)


def _follow(
    module: nn.Module, layers: list[dict[str, Any]], after: RelationalLayer
) -> dict[str, Tensor]:
    """Has the last layer be followed by a normalization or an activation, whose weights these are.

    Raises:
        InputError: It is neither, or another one stands there.
    """
    number, last = len(layers) - 1, layers[-1]
    if "activation" in last:
        raise InputError(f"{module} follows {last['activation']}: put it right behind a layer")
    if name := activation_of(module):
        last["activation"] = name
        return {}
    found = normalization_of(module, _width(after))
    if found is None:
        raise InputError(
            f"{module} cannot be served: take LayerNorm, BatchNorm1d, ReLU, ELU, GELU or Tanh with "
            "their defaults"
        )
    if "normalization" in last:
        raise InputError(f"{module} follows another normalization: leave one out")
    last["normalization"], parameters = found
    return {f"{number}.normalization.{key}": tensor for key, tensor in parameters.items()}


def _width(module: RelationalLayer) -> int:
    """Of the rows that a layer gives out."""
    return module.out_channels * (module.heads if isinstance(module, RGAT) else 1)

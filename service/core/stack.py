"""Models as modules: from a description and weights, and back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hetune.nn import HGT, RGAT, RGCN, from_pyg
from hetune.service.core.description import (
    Activation,
    HgtLayer,
    Jumping,
    Layer,
    Metadata,
    ModelDescription,
    RgatLayer,
    RgcnLayer,
)
from hetune.service.core.documents import parse_value
from hetune.variants.errors import InputError, MalformedError
from hetune.variants.frontend.nn import RelationalLayer

_SHOWN = 8
_PYG = "torch_geometric.nn.conv."


def modules_of(
    description: ModelDescription, weights: Mapping[str, Tensor]
) -> tuple[RelationalLayer, ...]:
    """The layers of a model, for inference.

    Args:
        description: The layers.
        weights: Float32, the state dict of a module list of the layers: ``0.weight``, ...

    Raises:
        InputError: A width does not fit, or names, dtypes or shapes of weights do not.
    """
    with torch.device("meta"):  # takes no memory, whatever widths are asked for
        stack = nn.ModuleList(
            _module(layer, width, description)
            for layer, width in zip(description.layers, description.widths, strict=False)
        )
    expected = stack.state_dict()
    _check_names(set(weights), set(expected))
    for name, wanted in expected.items():
        given = weights[name]
        if given.dtype != torch.float32 or given.shape != wanted.shape:
            raise InputError(
                f"the weight {name} is {given.dtype} {list(given.shape)}: this model needs "
                f"torch.float32 {list(wanted.shape)}"
            )
    stack.load_state_dict(dict(weights), assign=True)
    stack.requires_grad_(False).eval()
    found = tuple(stack)
    assert all(isinstance(module, RelationalLayer) for module in found)
    return found  # type: ignore[return-value]


def _module(layer: Layer, width: int, description: ModelDescription) -> RelationalLayer:
    options = layer.model_dump(exclude={"layer", "activation", "out_channels"})
    match layer:
        case RgcnLayer():
            return RGCN(width, layer.out_channels, description.num_relations, **options)
        case RgatLayer():
            return RGAT(width, layer.out_channels, description.num_relations, **options)
        case HgtLayer():
            metadata = description.metadata
            assert metadata is not None
            return HGT(width, layer.out_channels, (metadata.ntypes, metadata.etypes), **options)


def _check_names(given: set[str], expected: set[str]) -> None:
    for what, names in (("missing", expected - given), ("unknown", given - expected)):
        if names:
            shown = ", ".join(sorted(names)[:_SHOWN])
            raise InputError(
                f"{len(names)} weights are {what}: {shown}; name them <layer>.<parameter>, as the "
                "state dict of a torch.nn.ModuleList of the layers does"
            )


def describe(
    modules: Sequence[nn.Module], jumping: Jumping = "none"
) -> tuple[ModelDescription, dict[str, Tensor]]:
    """The description and the weights of layers, with activations between them.

    Args:
        modules: Layers of `hetune.nn`, or of PyG that `hetune.nn.from_pyg` takes; each followed by
            at most one of `torch.nn.ReLU`, `ELU`, `GELU`, `Tanh`.
        jumping: Whether the model gives out what all layers do: "cat" or "max".

    Raises:
        InputError: A module is none of these, or widths or edge types do not fit.
    """
    layers: list[dict[str, Any]] = []
    relational: list[RelationalLayer] = []
    metadata = None
    for given in modules:
        module = from_pyg(given) if type(given).__module__.startswith(_PYG) else given
        if isinstance(module, RelationalLayer):
            layers.append({"layer": module.kind, "out_channels": module.out_channels})
            layers[-1] |= module.options
            relational.append(module)
            if isinstance(module, HGT):
                names, triples = module.metadata
                metadata = Metadata(ntypes=tuple(names), etypes=tuple(triples))
        elif not layers or "activation" in layers[-1]:
            raise InputError(f"{module} follows no layer: put a layer of hetune.nn before it")
        else:
            layers[-1]["activation"] = _activation(module)
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
                "metadata": metadata,
                "jumping": jumping,
            },
        )
    except MalformedError as error:
        raise InputError(f"these layers make no model: {error}") from None
    return description, nn.ModuleList(relational).state_dict()


def _activation(module: nn.Module) -> Activation:
    match module:
        case nn.ReLU():
            return "relu"
        case nn.ELU(alpha=1.0):
            return "elu"
        case nn.GELU(approximate="none"):
            return "gelu"
        case nn.Tanh():
            return "tanh"
    raise InputError(f"{module} cannot be served: take ReLU, ELU, GELU or Tanh with their defaults")

"""Layers of `hetune.nn` with the weights of PyTorch Geometric's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.frontend.nn import HGT, RGAT, RGCN, RelationalLayer
from hetune.variants.frontend.pyg import adapt
from hetune.variants.frontend.wrapper import unwrapped


def from_pyg(module: nn.Module) -> RelationalLayer:
    """A layer of `hetune.nn` that computes what one of PyG does.

    Weights are copied; those mixed from bases are mixed first.

    Args:
        module: A `RGCNConv`, `FastRGCNConv`, `RGATConv` or `HGTConv`, compiled or not.

    Raises:
        InputError: It is none, or it has an option that no layer of `hetune.nn` has.
    """
    module = unwrapped(module)
    found = adapt(module)
    if isinstance(found, Unsupported):
        raise InputError(f"{type(module).__name__} is no layer of hetune.nn: {found.reason}")
    if found.is_reversed:
        raise InputError(
            f"{type(module).__name__} has flow='target_to_source', which no layer of hetune.nn "
            "has: turn the edges round, and make it with flow='source_to_target'"
        )
    if found.dropout:
        raise InputError(
            f"{type(module).__name__} has dropout={module.dropout}, which no layer of hetune.nn "
            "has: call eval() for inference"
        )
    if found.widths:
        raise InputError(
            f"{type(module).__name__} has in_channels={dict(found.widths)}, where layers of "
            "hetune.nn have one width"
        )
    layer, parts = _BUILDERS[type(module).__name__](module, found)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(parts[name].reshape(parameter.shape))
    return layer


def _rgcn(module: Any, adapter: Adapter) -> tuple[RelationalLayer, Mapping[str, Tensor]]:
    weights = adapter.weights()
    layer = RGCN(
        adapter.width,
        module.out_channels,
        module.num_relations,
        aggr="mean" if str(module.aggr) == "mean" else "add",
        num_blocks=module.num_blocks,
        self_loop="root" in weights,
        bias="bias" in weights,
    )
    return layer, {"weight": weights["w"], **weights}


def _rgat(module: Any, adapter: Adapter) -> tuple[RelationalLayer, Mapping[str, Tensor]]:
    weights = adapter.weights()
    layer = RGAT(
        module.in_channels,
        module.out_channels,
        module.num_relations,
        heads=module.heads,
        softmax="within" if module.attention_mechanism == "within-relation" else "across",
        attention="shared",
        negative_slope=module.negative_slope,
        bias="bias" in weights,
    )
    return layer, {"weight": weights["w"], **weights}


def _hgt(module: Any, adapter: Adapter) -> tuple[RelationalLayer, Mapping[str, Tensor]]:
    assert adapter.metadata is not None
    weights = adapter.weights()
    layer = HGT(adapter.width, module.out_channels, adapter.metadata, module.heads)
    return layer, {
        "kqv_weight": torch.stack([weights[f"w_{part}"] for part in "kqv"]),
        "kqv_bias": torch.stack([weights[f"b_{part}"] for part in "kqv"]),
        "out_weight": weights["w_out"],
        "out_bias": weights["b_out"],
        **weights,
    }


_BUILDERS: dict[str, Callable[[Any, Adapter], tuple[RelationalLayer, Mapping[str, Tensor]]]] = {
    "RGCNConv": _rgcn,
    "FastRGCNConv": _rgcn,
    "RGATConv": _rgat,
    "HGTConv": _hgt,
}

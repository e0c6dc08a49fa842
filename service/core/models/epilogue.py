"""What becomes of a layer's rows in a model: normalization, then an activation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from hetune.service.core.models.description import Activation, Normalization
from hetune.variants.errors import InputError

PARAMETERS: Mapping[Normalization, tuple[str, ...]] = {
    "none": (),
    "layer": ("weight", "bias"),
    "batch": ("weight", "bias", "running_mean", "running_var"),
}
"""Of each normalization: vectors as wide as the rows."""

_EPS = 1e-5
_PYG = "torch_geometric.nn.norm.batch_norm"
_ACTIVATIONS: Mapping[Activation, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu_,
    "elu": lambda x: functional.elu(x, inplace=True),
    "gelu": functional.gelu,
    "tanh": torch.tanh_,
}
"""They may write into what they are given."""

_SERVED = (nn.ReLU, nn.ELU, nn.GELU, nn.Tanh, nn.LayerNorm, nn.BatchNorm1d)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What follows a layer.

    Attributes:
        activation: By name.
        normalization: By name.
        parameters: The normalization's, each float32 [width].
    """

    activation: Activation = "none"
    normalization: Normalization = "none"
    parameters: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def copies(self) -> int:
        """How many more tensors of a layer's rows are held at the same time."""
        return (self.normalization != "none") + (self.activation == "gelu")

    def to(self, device: torch.device) -> Epilogue:
        """The same with its parameters on a device."""
        moved = {name: tensor.to(device) for name, tensor in self.parameters.items()}
        return replace(self, parameters=moved)

    def __call__(self, x: Tensor) -> Tensor:
        """The finished rows; what is given may be written to.

        Args:
            x: float32 [N, width].
        """
        of = self.parameters
        if self.normalization == "layer":
            x = functional.layer_norm(x, x.shape[1:], of["weight"], of["bias"], _EPS)
        elif self.normalization == "batch":
            mean, variance = of["running_mean"], of["running_var"]
            x = functional.batch_norm(x, mean, variance, of["weight"], of["bias"], eps=_EPS)
        return _ACTIVATIONS[self.activation](x)


def _is_plain(module: nn.Module) -> bool:
    """Whether a module computes what its kind is known for, subclass or not."""
    return any(type(module).forward is kind.forward for kind in _SERVED)


def activation_of(module: nn.Module) -> Activation | None:
    """The name of an activation, if it is one that is served."""
    if not _is_plain(module):
        return None
    match module:
        case nn.ReLU():
            return "relu"
        case nn.ELU(alpha=1.0):
            return "elu"
        case nn.GELU(approximate="none"):
            return "gelu"
        case nn.Tanh():
            return "tanh"
    return None


def normalization_of(
    module: nn.Module, width: int
) -> tuple[Normalization, dict[str, Tensor]] | None:
    """The name of a normalization and its parameters, if it is one that is served.

    Args:
        module: PyTorch's `LayerNorm` over rows or `BatchNorm1d`, or PyG's `BatchNorm` of one.
        width: Of the rows that it is for.

    Raises:
        InputError: It is for others.
    """
    if type(module).__module__ == _PYG and isinstance(
        inner := getattr(module, "module", None), nn.Module
    ):
        module = inner
    if not _is_plain(module):
        return None
    match module:
        case nn.LayerNorm(eps=1e-5, normalized_shape=(size,)):
            name: Normalization = "layer"
        case nn.BatchNorm1d(eps=1e-5, num_features=size, track_running_stats=True):
            name = "batch"
        case _:
            return None
    if size != width:
        raise InputError(f"{module} follows a layer whose rows are {width} wide: make it as wide")
    found = {key: getattr(module, key) for key in PARAMETERS[name]}
    plain = {"weight": torch.ones(width), "bias": torch.zeros(width)}
    return name, {key: plain[key] if t is None else t.detach() for key, t in found.items()}

"""Where tensors lie that variants for a device run on."""

from __future__ import annotations

import torch

from hetune.variants.errors import VariantError


def torch_device(device: str) -> torch.device:
    """The device of PyTorch that variants for "cpu" or "cuda" run on here.

    Raises:
        VariantError: They are for GPUs, and there is none here.
    """
    if device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise VariantError(
            f"no GPU: torch sees none here (torch {torch.__version__}, CUDA "
            f"{torch.version.cuda or 'not built in'}): run it on a machine with a GPU and a "
            "torch for it, or take the device cpu"
        )
    return torch.device("cuda", torch.cuda.current_device())

"""Nodes whose rows are asked for: ids on the command line, or in files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from hetune.clients.cli.files import read_arrays
from hetune.variants.errors import InputError

_IDS = re.compile(r"[0-9]{1,18}(,[0-9]{1,18})*")
_ALL = "all"
_ENDINGS = (".npy", ".npz", ".safetensors")


class SubsetName(StrEnum):
    """How rows of some nodes are computed."""

    auto = "auto"
    full = "full"
    reach = "reach"


NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TYPE=]IDS",
        help="Nodes whose rows to write, all by default: ids such as 5,17, or an .npy, .npz or "
        ".safetensors file of them; of a node type, from 0 in each, as TYPE=5,17 or TYPE=all. May "
        "be given several times.",
    ),
]
SubsetOption = Annotated[
    SubsetName,
    typer.Option(
        help="How to compute rows of some nodes: cut out of a full run, or by what they reach; "
        "auto does what is predicted to be faster."
    ),
]


def nodes_of(
    given: Sequence[str],
) -> Tensor | dict[str, Tensor] | dict[str, Tensor | None] | None:
    """The ids that are given, by node type if they are, None for all of one; None for none.

    Raises:
        InputError: They are no ids, or of both forms, or some are given twice.
    """
    if not given:
        return None
    if len(given) == 1 and (flat := _plain(given[0])) is not None:
        return next(iter(flat.values())) if len(flat) == 1 else flat
    found: dict[str, Tensor | None] = {}
    for text in given:
        ntype, separator, ids = text.partition("=")
        plain: Mapping[str, Tensor | None] | None = {_ALL: None} if ids == _ALL else _plain(ids)
        if not (separator and ntype) or plain is None or len(plain) != 1:
            raise InputError(
                f"--nodes {text}: give ids such as 5,17, or a file of them "
                f"({', '.join(_ENDINGS)}); of a node type as paper=5,17 or paper=all, each type "
                "with one list"
            )
        if ntype in found:
            raise InputError(f"--nodes has the node type {ntype!r} twice: give its ids at once")
        found[ntype] = next(iter(plain.values()))
    return found


def _plain(text: str) -> dict[str, Tensor] | None:
    """What a list of ids or a file holds; None if the text is neither."""
    if _IDS.fullmatch(text):
        return {"nodes": torch.tensor([int(part) for part in text.split(",")])}
    path = Path(text)
    if path.suffix in _ENDINGS and (path.exists() or "=" not in text):
        return read_arrays(path)
    return None

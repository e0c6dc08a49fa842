"""Answers: which outputs a run has, and how they are written."""

from __future__ import annotations

import json
from typing import Any

from torch import Tensor

from hetune.service.core.formats.limits import check_limit
from hetune.service.core.inference.answers import Answer
from hetune.service.http.oip.framing import Buffer
from hetune.service.http.oip.names import OUT, name_of
from hetune.service.http.oip.request import ProtocolRequest, RequestedOutput
from hetune.service.http.oip.tensors import FEATURES, to_bytes
from hetune.variants.errors import InputError, MalformedError


def write_answer(answer: Answer, asked: ProtocolRequest, most: int) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON; None if it is nothing else.

    Args:
        answer: Of the run.
        asked: The request.
        most: Numbers in JSON.

    Raises:
        MalformedError: An output is asked for that there is not.
        TooLargeError: There are too many numbers for JSON.
        InputError: The result holds numbers that JSON cannot.
    """
    found = _named(answer)
    wanted = asked.outputs
    if wanted is None:
        wanted = tuple(RequestedOutput(name, asked.binary) for name in found)
    outputs: list[dict[str, Any]] = []
    parts: list[Buffer] = []
    numbers = 0
    for output in wanted:
        if output.name not in found:
            raise MalformedError(
                f"there is no output {output.name[:128]!r}: ask for some of {', '.join(found)}"
            )
        tensor = found[output.name]
        described: dict[str, Any] = {
            "name": output.name,
            "datatype": FEATURES,
            "shape": list(tensor.shape),
        }
        if output.binary:
            parts.append(to_bytes(tensor))
            described["parameters"] = {"binary_data_size": tensor.nbytes}
        else:
            numbers += tensor.numel()
            check_limit("numbers in JSON", numbers, most)
            described["data"] = tensor.flatten().tolist()
        outputs.append(described)
    text = _json(answer, asked.id, outputs)
    has_binary = any(output.binary for output in wanted)
    return b"".join((text, *parts)), len(text) if has_binary else None


def _named(answer: Answer) -> dict[str, Tensor]:
    rows = answer.out
    if isinstance(rows, Tensor):
        return {OUT: rows}
    return {name_of(OUT, ntype): tensor for ntype, tensor in rows.items()}


def _json(answer: Answer, id: str | None, outputs: list[dict[str, Any]]) -> bytes:
    report = answer.report
    parameters: dict[str, str] = {"variants": ", ".join(layer.variant for layer in report.layers)}
    if reasons := {layer.uncompiled for layer in report.layers if layer.uncompiled}:
        parameters["uncompiled"] = ", ".join(sorted(reasons))
    if report.subset is not None:
        parameters["subset"] = report.subset.how
    document: dict[str, Any] = {
        "model_name": report.model,
        "model_version": str(report.version),
        "parameters": parameters,
        "outputs": outputs,
    }
    if id is not None:
        document["id"] = id
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise InputError(
            "the result holds infinite numbers or none (NaN), which JSON cannot: ask for binary "
            "output, by the parameter binary_data of an output or binary_data_output of the request"
        ) from None

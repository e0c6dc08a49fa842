"""Requests to run: from bytes to named tensors and parameters. No graph, no model, no HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from torch import Tensor

from hetune.service.core.formats.documents import parse
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.inference.subset import Subset
from hetune.service.http.oip.documents import (
    MOST_INPUTS,
    MOST_OUTPUTS,
    MOST_PARAMETERS,
    InferenceRequest,
    Parameters,
)
from hetune.service.http.oip.framing import Buffer, cut, split
from hetune.service.http.oip.names import parse_name
from hetune.service.http.oip.tensors import read_tensor
from hetune.variants.errors import MalformedError

P = TypeVar("P", bool, int, str)
Key = tuple[str, tuple[str, ...]]
_MICROSECONDS = 1_000_000
_MOST_TIMEOUT = 2**63
_WAYS: tuple[Subset, ...] = get_args(Subset)
_REFUSED = ("shared_memory_region", "classification")


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that is asked for.

    Attributes:
        name: Its name.
        binary: Whether to send it behind the JSON.
    """

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class ProtocolRequest:
    """A request.

    Attributes:
        id: What the client calls it; None if it does not.
        graph_id: Of a graph that is kept; None for one that is among the tensors.
        features: Name of features that are kept with it; None for those among the tensors.
        seconds: How long it may take; None for as long as it takes.
        subset: How to compute rows of some nodes.
        tensors: By what they are of, and the types that their names hold, in the request's order.
        outputs: None for all.
        binary: Whether to send outputs that are not asked for by name behind the JSON.
    """

    id: str | None
    graph_id: str | None
    features: str | None
    seconds: float | None
    subset: Subset
    tensors: dict[Key, Tensor]
    outputs: tuple[RequestedOutput, ...] | None
    binary: bool


def read_request(body: Buffer, header: str | None, limits: ServiceLimits) -> ProtocolRequest:
    """Reads a request.

    Args:
        body: Decompressed. Tensors may share its memory.
        header: The header that gives the length of the JSON, if there is one.
        limits: What is accepted.

    Raises:
        MalformedError: It does not have the protocol's form, or asks for what there is not.
        TooLargeError: Its JSON is over the limit, or has too many tensors or parameters.
        InputError: A tensor has a datatype that no input has.
    """
    text, data = split(body, header)
    check_limit("bytes of JSON", len(text), limits.json_bytes)
    document = parse(InferenceRequest, bytes(text))
    check_limit("inputs", len(document.inputs), MOST_INPUTS)
    check_limit("outputs", len(document.outputs or ()), MOST_OUTPUTS)
    given = document.parameters or {}
    check_limit("parameters of a request", len(given), MOST_PARAMETERS)
    binary = parameter(given, "binary_data_output", bool) or False
    timeout = parameter(given, "timeout", int) or 0
    if not 0 <= timeout < _MOST_TIMEOUT:
        raise MalformedError(
            f"timeout is {str(timeout)[:32]}: give microseconds, less than 2^63, or 0 for none"
        )
    return ProtocolRequest(
        document.id,
        parameter(given, "graph_id", str),
        parameter(given, "features", str),
        timeout / _MICROSECONDS if timeout else None,
        _subset(given),
        _tensors(document, data),
        _outputs(document, binary),
        binary,
    )


def parameter(given: Parameters, name: str, kind: type[P]) -> P | None:
    """A parameter; None if it is not there.

    Raises:
        MalformedError: It is of another type.
    """
    value: Any = given.get(name)
    if value is not None and type(value) is not kind:
        shown = f"a {type(value).__name__}" if isinstance(value, list | dict) else f"{value!r:.64}"
        raise MalformedError(f"the parameter {name} is {shown}: give a {kind.__name__}")
    return value


def _subset(given: Parameters) -> Subset:
    wanted = parameter(given, "subset", str) or "auto"
    for way in _WAYS:
        if wanted == way:
            return way
    raise MalformedError(f"the parameter subset is {wanted!r:.64}: give {', '.join(_WAYS)}")


def _tensors(document: InferenceRequest, data: memoryview) -> dict[Key, Tensor]:
    sizes: list[int | None] = []
    for given in document.inputs:
        parameters = given.parameters or {}
        _check_known(given.name, parameters)
        size = parameter(parameters, "binary_data_size", int)
        if size is not None and size < 0:
            raise MalformedError(f"binary_data_size of {given.name[:64]!r} is {size}")
        sizes.append(size)
    parts = iter(cut(data, [size for size in sizes if size is not None]))
    found: dict[Key, Tensor] = {}
    for given, size in zip(document.inputs, sizes, strict=True):
        key = parse_name(given.name)
        if key in found:
            raise MalformedError(f"the input {given.name[:64]!r} is there twice")
        found[key] = read_tensor(given, None if size is None else next(parts))
    return found


def _outputs(document: InferenceRequest, binary: bool) -> tuple[RequestedOutput, ...] | None:
    if not document.outputs:
        return None
    found: dict[str, RequestedOutput] = {}
    for asked in document.outputs:
        parameters = asked.parameters or {}
        _check_known(asked.name, parameters)
        own = parameter(parameters, "binary_data", bool)
        if asked.name in found:
            raise MalformedError(f"the output {asked.name[:64]!r} is asked for twice")
        found[asked.name] = RequestedOutput(asked.name, binary if own is None else own)
    return tuple(found.values())


def _check_known(name: str, parameters: Parameters) -> None:
    """Parameters that would change what a tensor means must not be ignored."""
    check_limit("parameters of a tensor", len(parameters), MOST_PARAMETERS)
    for refused in _REFUSED:
        if parameters.get(refused):
            raise MalformedError(f"the tensor {name[:64]!r}: {refused} is not supported")

"""JSON documents: strict, and read with messages that say where they are wrong."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hetune.variants.errors import MalformedError

Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**31)]
Bytes = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
_SHOWN = 3


class Document(BaseModel):
    """No field that is not known, no value of another type, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


D = TypeVar("D", bound=Document)


def parse(kind: type[D], text: str | bytes) -> D:
    """Reads a document.

    Raises:
        MalformedError: The text is not JSON, or not of this kind.
    """
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise MalformedError(_explain(error)) from None


def parse_value(kind: type[D], value: object) -> D:
    """Makes a document of Python objects.

    Raises:
        MalformedError: They are not of this kind.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise MalformedError(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    # Entries that are wrong are left out of their array, which may be too short without them.
    inner = {item["loc"][:depth] for item in found for depth in range(len(item["loc"]))}
    found = [item for item in found if item["type"] != "too_short" or item["loc"] not in inner]
    lines = []
    for item in found[:_SHOWN]:
        where = ".".join(str(part) for part in item["loc"])
        lines.append(f"{where}: {item['msg']}" if where else item["msg"])
    more = len(found) - _SHOWN
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")

"""JSON documents: strict, and read with messages that say where they are wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, JsonValue, ValidationError

from hetune.service.core.formats.container import MOST_ENTRIES, MOST_LISTS
from hetune.service.core.formats.json_arrays import Lifted
from hetune.service.core.formats.limits import check_limit
from hetune.variants.errors import MalformedError

Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**31)]
Bytes = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
MOST_TYPED = 1 << 17
"""Fields of a document that has maps by type."""
_MANY_FIELDS = 1_000
_FIELD = re.compile(rb'"[ \t\r\n]*+:')
_SHOWN = 3
_FAIL_FAST = ("list", "tuple", "dict")
"""What pydantic calls schemas of many entries."""


def _fail_fast(schema: object) -> None:
    if isinstance(schema, dict):
        kind = schema.get("type")
        if isinstance(kind, str) and kind in _FAIL_FAST:
            schema["fail_fast"] = True
        for part in schema.values():
            _fail_fast(part)
    elif isinstance(schema, list):
        for part in schema:
            _fail_fast(part)


class Document(BaseModel):
    """No field that is not known, no value of another type, no NaN.

    Lists and maps are read up to their first wrong entry: each error is an object, and a body may
    hold millions.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    has_arrays: ClassVar[bool] = False
    """Whether there are fields of `hetune.service.core.formats.number_fields`."""
    most_entries: ClassVar[int] = MOST_ENTRIES
    """Without those of arrays of numbers."""
    most_objects: ClassVar[int] = MOST_LISTS
    most_fields: ClassVar[int | None] = None
    """Those of all objects together; if None, a few where no list or map has objects or entries."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> Any:
        """Lets pydantic stop at the first error of a list or a map."""
        found = handler(source)
        _fail_fast(found)
        return found


D = TypeVar("D", bound=Document)


def parse(kind: type[D], text: str | bytes, most_fields: int | None = None) -> D:
    """Reads a document; what it takes is bounded before anything of it becomes an object.

    Args:
        kind: What it is.
        text: JSON.
        most_fields: For how many there is a use; by default those that the kind allows.

    Raises:
        MalformedError: The text is not JSON, or not of this kind.
        TooLargeError: It has more entries than any document has.
    """
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    check_limit("objects of a document", content.count(b"{"), kind.most_objects)
    if content.count(b":") > _MANY_FIELDS:
        most = _most_fields(kind) if most_fields is None else most_fields
        found = sum(1 for _ in _FIELD.finditer(content))
        check_limit("fields of a document", found, max(most, _MANY_FIELDS))
    arrays = Lifted(content) if kind.has_arrays else None
    if arrays is not None:
        content = arrays.text
    check_limit("entries of a document", content.count(b","), kind.most_entries)
    check_limit("lists of a document", content.count(b"["), MOST_LISTS)
    if content.count(b":") > _MANY_FIELDS:
        check_fields(kind, content)
    try:
        return kind.model_validate_json(content, context=arrays)
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


def check_fields(kind: type[Document], text: bytes) -> None:
    """Checks that there are no fields but those that are known: pydantic would name them all.

    Raises:
        MalformedError: There are; or the text is no JSON.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedError("Invalid JSON: check the body with a JSON parser") from None
    _check_fields((kind,), value, "")


def _check_fields(kinds: Sequence[type[Document]], value: object, where: str) -> None:
    if isinstance(value, list):
        for number, each in enumerate(value):
            _check_fields(kinds, each, f"{where}{number}.")
    elif isinstance(value, dict):
        for name, inner in value.items():
            fields = [kind.model_fields[name] for kind in kinds if name in kind.model_fields]
            if nested := [found for field in fields for found in _documents_in(field.annotation)]:
                _check_fields(nested, inner, f"{where}{name}.")
            elif not fields and all(kind.model_config["extra"] == "forbid" for kind in kinds):
                raise MalformedError(f"{where}{name[:64]}: Extra inputs are not permitted")


def _documents_in(annotation: object) -> Iterator[type[Document]]:
    """The documents that a field may hold, also in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Document):
        yield annotation
    elif get_origin(annotation) is not dict:
        for part in get_args(annotation):
            yield from _documents_in(part)


@cache
def _most_fields(kind: type[Document]) -> int:
    if kind.most_fields is not None:
        return kind.most_fields
    is_open = any(_is_open(field.annotation) for field in kind.model_fields.values())
    return MOST_ENTRIES if is_open else _MANY_FIELDS


def _is_open(annotation: object, in_list: bool = False) -> bool:
    """Whether a value may have any number of fields."""
    if isinstance(annotation, type) and issubclass(annotation, Document):
        inner = annotation.model_fields.values()
        return in_list or any(_is_open(field.annotation) for field in inner)
    kind = get_origin(annotation)
    if kind is dict or annotation in (Any, JsonValue):
        return True
    in_list = in_list or kind in (list, tuple)
    return any(_is_open(part, in_list) for part in get_args(annotation))


def _explain(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    # Entries that are wrong are left out of their array, which may be too short without them.
    inner = {item["loc"][:depth] for item in found for depth in range(len(item["loc"]))}
    found = [item for item in found if item["type"] != "too_short" or item["loc"] not in inner]
    lines = []
    for item in found[:_SHOWN]:
        where = ".".join(str(part) for part in item["loc"])
        says = item["msg"].removeprefix("Value error, ")
        lines.append(f"{where}: {says}" if where else says)
    more = len(found) - _SHOWN
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")

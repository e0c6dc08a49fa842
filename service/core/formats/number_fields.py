"""Fields of documents that hold numbers: read when somebody asks for them, or up to a few."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import PlainValidator, ValidationInfo, WithJsonSchema

from hetune.service.core.formats.json_arrays import JsonArray, Lifted
from hetune.service.core.formats.limits import check_limit

MOST_SHORT = 1_000
"""Numbers in a short list."""
_INTEGER: dict[str, Any] = {"type": "integer", "minimum": -(2**63), "exclusiveMaximum": 2**63}
_INTEGERS: dict[str, Any] = {"type": "array", "items": _INTEGER}
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_ROWS: dict[str, Any] = {"type": "array", "items": _NUMBERS}
_PAIR: dict[str, Any] = {"type": "array", "minItems": 2, "maxItems": 2, "items": _INTEGERS}
_TYPED_ROWS: dict[str, Any] = {"type": "object", "additionalProperties": _ROWS}


def _array(value: object, info: ValidationInfo) -> JsonArray | None:
    if isinstance(value, JsonArray):
        return value
    lifted = info.context
    found = lifted.find(value) if isinstance(lifted, Lifted) else None
    if found is None and isinstance(value, list | tuple):
        found = JsonArray.of(list(value))
    return found


def _list(value: object, info: ValidationInfo) -> JsonArray:
    found = _array(value, info)
    if found is None or found.is_nested:
        raise ValueError("Input should be a list of numbers")
    return found


def _numbers(value: object, info: ValidationInfo) -> JsonArray:
    found = _array(value, info)
    if found is None:
        raise ValueError("Input should be a list of numbers, or of rows")
    return found


def _rows(value: object, info: ValidationInfo, name: str = "") -> JsonArray:
    found = _array(value, info)
    if found is None or not (found.is_nested or found.count == 0):
        where = f"of {name[:64]!r} " if name else ""
        raise ValueError(f"Input {where}should be a list of rows of numbers")
    return found


def _rows_by_type(value: object, info: ValidationInfo) -> JsonArray | dict[str, JsonArray]:
    if isinstance(value, dict):
        return {name: _rows(rows, info, name) for name, rows in value.items()}
    return _rows(value, info)


def _list_by_type(
    value: object, info: ValidationInfo
) -> JsonArray | dict[str, JsonArray | None] | None:
    if isinstance(value, dict):
        return {n: None if ids is None else _list(ids, info) for n, ids in value.items()}
    return None if value is None else _list(value, info)


def _short_integers(value: object, info: ValidationInfo) -> tuple[int, ...]:
    found = _list(value, info)
    what = info.field_name or "a list"
    check_limit(f"entries of {what}", found.count, MOST_SHORT)
    return tuple(found.integers(what).tolist())


Integers: TypeAlias = Annotated[JsonArray, PlainValidator(_list), WithJsonSchema(_INTEGERS)]
"""A list of integers."""
Numbers: TypeAlias = Annotated[
    JsonArray, PlainValidator(_numbers), WithJsonSchema({"anyOf": [_NUMBERS, _ROWS]})
]
"""A list of numbers, or of rows of numbers."""
Pair: TypeAlias = Annotated[JsonArray, PlainValidator(_rows), WithJsonSchema(_PAIR)]
"""Two lists of integers."""
TypedRows: TypeAlias = Annotated[
    JsonArray | dict[str, JsonArray],
    PlainValidator(_rows_by_type),
    WithJsonSchema({"anyOf": [_ROWS, _TYPED_ROWS]}),
]
"""Rows of numbers, of all nodes or by node type."""
MaybeTypedRows: TypeAlias = Annotated[
    TypedRows | None, WithJsonSchema({"anyOf": [_ROWS, _TYPED_ROWS]})
]
"""Rows where they may be left out; another field is in their place then."""
TypedIntegers: TypeAlias = Annotated[
    JsonArray | dict[str, JsonArray | None] | None,
    PlainValidator(_list_by_type),
    WithJsonSchema(
        {
            "anyOf": [
                _INTEGERS,
                {
                    "type": "object",
                    "additionalProperties": {"anyOf": [_INTEGERS, {"type": "null"}]},
                },
                {"type": "null"},
            ]
        }
    ),
]
"""Integers, of all nodes or by node type, of which null stands for all."""
ShortIntegers: TypeAlias = Annotated[
    tuple[int, ...], PlainValidator(_short_integers), WithJsonSchema(_INTEGERS)
]
"""A few integers, which are read at once."""

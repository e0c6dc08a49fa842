"""Whether options of loaders are of the kinds that their classes declare."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.loaders.options import NameOptions

_CHECKED_ELSEWHERE = ("columns", "vocabulary", "like")
_CALLED = {bool: "True or False", int: "an integer", str: "text"}


def check_kinds(path: Path, kind: type[NameOptions], options: Mapping[str, Any]) -> None:
    """Refuse values that no option of that name takes.

    Args:
        path: The file that is read.
        kind: The class of the loader's options.
        options: Values by the names of its fields.

    Raises:
        GraphFileError: Names the option, its value and what it takes.
    """
    hints = get_type_hints(kind)
    for name, value in options.items():
        if name in _CHECKED_ELSEWHERE:
            continue
        taken = _members(hints[name])
        if not any(_fits(value, one) for one in taken):
            called = dict.fromkeys(_called(one) for one in taken if one is not NoneType)
            raise GraphFileError(
                f"{path}: {name} is {value!r} ({type(value).__name__}): give {' or '.join(called)}"
            )


def _members(hint: Any) -> tuple[Any, ...]:
    """The members of a union or a `Literal`, else the type itself."""
    is_plain = isinstance(hint, type) or _is_sequence(hint)
    return (hint,) if is_plain else get_args(hint)


def _is_sequence(hint: Any) -> bool:
    return getattr(hint, "__origin__", None) is Sequence


def _fits(value: object, kind: Any) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if _is_sequence(kind):
        return isinstance(value, Sequence) and all(isinstance(one, str) for one in value)
    return isinstance(value, kind) if isinstance(kind, type) else bool(value == kind)


def _called(kind: Any) -> str:
    if _is_sequence(kind):
        return "a sequence of names"
    return _CALLED[kind] if isinstance(kind, type) else repr(kind)

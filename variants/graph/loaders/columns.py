"""Which column of a file plays which role: what callers say, and what to advise them to say."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetune.variants.errors import GraphError
from hetune.variants.graph.loaders.options import ColumnsLike, ColumnsWarning

ROLES = ("src", "etype", "dst", "weight", "time")
_KNOWN = {
    "src": ("src", "source", "from", "head", "subject", "h", "s", "u", "start"),
    "dst": ("dst", "target", "to", "tail", "object", "t", "o", "v", "end", "dest", "destination"),
    "etype": (
        *("etype", "relation", "rel", "predicate", "edge_type", "type", "kind", "r", "p"),
        *("label", "edge_label", "relation_type"),
    ),
    "weight": ("weight", "score", "value", "rating", "w"),
    "time": ("time", "timestamp", "ts", "date"),
}
_RELATIONS = tuple(name for name in _KNOWN["etype"] if len(name) > 1)
_UNSURE = ("label", "edge_label")
"""Names of relations that are as often those of classes."""
_ROLE_OF = {name: role for role, names in _KNOWN.items() for name in names}
_FORMS = 'give roles in the order of the columns, "src,etype,dst", or "src:NAME,dst:NAME"'


@dataclass(frozen=True, slots=True)
class Columns:
    """Where each role's column is.

    Attributes:
        of: Names or positions by role; src and dst are among them.
        count: How many columns there are, where that is said.
    """

    of: Mapping[str, str | int]
    count: int | None = None

    @property
    def has_names(self) -> bool:
        """Whether a column is told by its name, so that there is a header."""
        return any(isinstance(place, str) for place in self.of.values())

    def positions(self, names: Sequence[str] | None, count: int) -> dict[str, int]:
        """The position of each role's column.

        Args:
            names: Of all columns; None where there is no header.
            count: How many columns there are.

        Raises:
            GraphError: There is no such column.
        """
        if self.count not in (None, count):
            raise GraphError(f"there are {count} columns, but columns= names {self.count}")
        found: dict[str, int] = {}
        for role, place in self.of.items():
            if isinstance(place, str):
                if names is None or place not in names:
                    there = "no names of columns" if names is None else f"only {list(names)}"
                    raise GraphError(f"there is no column {place!r} for {role}, {there}")
                place = names.index(place)
            if not 0 <= place < count:
                raise GraphError(f"there is no column {place} for {role}, only 0..{count - 1}")
            if place in found.values():
                raise GraphError(f"columns= gives column {place} two roles: give it one")
            found[role] = place
        return found


def columns_of(given: ColumnsLike | None) -> Columns | None:
    """The value of what a caller gives as `columns=`; None stays None.

    Raises:
        GraphError: It has another form, or src or dst is missing.
    """
    if given is None:
        return None
    if isinstance(given, str):
        parts = [part.strip() for part in given.split(",")]
        pairs = [part.partition(":") for part in parts]
        if any(colon for _, colon, _ in pairs):
            given = {role.strip(): _place(place.strip()) for role, _, place in pairs}
        else:
            given = parts
    if isinstance(given, Mapping):
        found = Columns(dict(given))
    elif isinstance(given, Sequence):
        roles = [None if role in (None, "", "-") else role for role in given]
        kept = [role for role in roles if role is not None]
        for role in kept:
            if kept.count(role) > 1:
                raise GraphError(f"columns= gives two columns the role {role!r}: give one")
        found = Columns({role: i for i, role in enumerate(roles) if role is not None}, len(roles))
    else:
        raise GraphError(f"columns is a {type(given).__name__}: {_FORMS}")
    _check(found)
    return found


def _place(text: str) -> str | int:
    return int(text) if text.isdecimal() and len(text) < 10 else text


def _check(columns: Columns) -> None:
    for role, place in columns.of.items():
        if role not in ROLES:
            raise GraphError(
                f"columns has the role {role!r}: the roles are {', '.join(ROLES)}; {_FORMS}"
            )
        if isinstance(place, bool) or not isinstance(place, str | int):
            raise GraphError(f"columns has {place!r} for {role}: give a name, or a position from 0")
    for role in ("src", "dst"):
        if role not in columns.of:
            raise GraphError(f"columns has no {role}: {_FORMS}")


def looks_like_names(row: Sequence[str]) -> bool:
    """Whether a row has nothing but the usual names of columns, those of both ends among them."""
    roles = [_ROLE_OF.get(value.strip().lower()) for value in row]
    return None not in roles and "src" in roles and "dst" in roles


def usual_places(names: Sequence[str]) -> dict[str, int]:
    """Positions of the columns src, dst and, by any of its usual names, etype.

    Raises:
        GraphError: Several columns may be the relation, or one perhaps.
    """
    places = {name: names.index(name) for name in ("src", "dst", "etype") if name in names}
    if "etype" not in places:
        found = [i for i, name in enumerate(names) if name.strip().lower() in _RELATIONS]
        if len(found) > 1 or any(names[i].strip().lower() in _UNSURE for i in found):
            raise GraphError(f"of {list(names)}, nothing says whether or which one is the relation")
        if found:
            places["etype"] = found[0]
    return places


def warn_of_unread(path: Path, names: Sequence[str], places: Mapping[str, int]) -> None:
    """Says which weights and times are not read, by the usual names of their columns.

    Args:
        path: The file.
        names: Of all its columns.
        places: The columns that are read.
    """
    read = {names[place] for place in places.values()}
    roles = {name: _ROLE_OF.get(name.strip().lower()) for name in names if name not in read}
    unread = [name for name, role in roles.items() if role in ("weight", "time")]
    if unread:
        few = advice([f"{role}:{names[places[role]]}" for role in ROLES if role in places])
        warnings.warn(
            f"{path}: the columns {', '.join(unread)} are not read: give {advice_by_names(names)} "
            f"to keep them with the edges, or {few}",
            ColumnsWarning,
            stacklevel=4,
        )


def advice_by_names(names: Sequence[str], guessed: Sequence[str] | None = None) -> str:
    """The option that says what columns of these names are, as well as that can be told.

    Args:
        names: Of the columns.
        guessed: Roles by their content, where that says something.
    """
    roles: dict[str, str] = {}
    for name in names:
        role = _ROLE_OF.get(name.strip().lower())
        if role is not None:
            roles.setdefault(role, name)
    missing = [role for role in ("src", "dst") if role not in roles]
    others = [name for name in names if name not in roles.values()]
    if not roles or len(others) < len(missing):
        guessed = guessed or usual_roles(min(len(names), 3))
        roles = {role: n for role, n in zip(guessed, names, strict=False) if role != "-"}
    else:
        roles |= dict(zip(missing, others, strict=False))
    if not all(_is_plain(name) for name in roles.values()):
        return advice(guessed or usual_roles(len(names)))
    ordered = [f"{role}:{roles[role]}" for role in ROLES if role in roles]
    return advice(ordered)


def _is_plain(name: str) -> bool:
    """Whether a name can stand in text that gives roles."""
    is_place = name.isdecimal()
    return (
        bool(name.strip()) and name.isprintable() and not is_place and not set(name) & set(",:\"'")
    )


def advice(roles: Sequence[str]) -> str:
    """The option that gives columns these roles in their order."""
    return f'columns="{",".join(roles)}"'


def usual_roles(count: int) -> list[str]:
    """The roles of so many columns where nothing else is known."""
    return ["src", "etype", "dst"] if count == 3 else ["src", "dst", *["-"] * (count - 2)]

"""Vocabularies: which number each name of a graph has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, Self, TypeAlias, cast, runtime_checkable

from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph._canonical import CanonicalEtype, as_triples, check_declared

__all__ = ["Unknown", "Vocabulary", "VocabularyLike"]

FORMAT = "hetune-vocabulary"
VERSION = 1
_FIELDS = ("node_types", "relations", "canonical_etypes", "node_names")
_MOST_TYPES = 1_000_000
_MOST_BYTES = 1 << 30
_SHOWN = 5

Unknown: TypeAlias = Literal["error", "drop"]
"""What becomes of names that a vocabulary lacks: an error, or they are left out, and counted."""


@runtime_checkable
class _HasVocabulary(Protocol):
    def vocabulary(self) -> Vocabulary:
        """Its names."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names of a graph, in the order of their numbers. What is None is not fixed.

    It ties weights and features to names: graphs that are read with one vocabulary number types,
    relations and nodes alike, whatever the order of their data.

    Attributes:
        node_types: Names of the node types, in order; by default those that `node_names` has.
        relations: Names of the edge types, in order.
        canonical_etypes: (source type, relation, destination type) of each of the relations.
        node_names: By node type, the names of its nodes: a node's id is its position, from 0 in
            each type. Types that are left out have nodes without names.

    Raises:
        GraphError: Names repeat or do not fit together.
    """

    node_types: tuple[str, ...] | None = None
    relations: tuple[str, ...] | None = None
    canonical_etypes: tuple[CanonicalEtype, ...] | None = None
    node_names: Mapping[str, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        if self.node_types is None and isinstance(self.node_names, Mapping):
            _set(self, "node_types", tuple(self.node_names))
        for field in ("node_types", "relations"):
            given = getattr(self, field)
            if given is not None:
                _set(self, field, names := _names(field, given))
                if len(names) > _MOST_TYPES:
                    raise GraphError(f"{field} has {len(names)} names: {_MOST_TYPES} at most")
        if self.canonical_etypes is not None:
            _set(self, "canonical_etypes", self._checked_triples(self.canonical_etypes))
        if self.node_names is not None:
            _set(self, "node_names", self._checked_node_names(self.node_names))

    def _checked_triples(self, given: Iterable[Sequence[str]]) -> tuple[CanonicalEtype, ...]:
        triples = as_triples(given)
        if self.relations is None or self.node_types is None:
            raise GraphError("canonical_etypes need node_types and relations: give them, too")
        check_declared(triples, (), len(self.relations), self.node_types)
        return triples

    def _checked_node_names(
        self, given: Mapping[str, Iterable[str]]
    ) -> Mapping[str, tuple[str, ...]]:
        if not isinstance(given, Mapping):
            raise GraphError(
                f"node_names is a {type(given).__name__}: give a dictionary of names by node type"
            )
        for ntype in given:
            if self.node_types is None or ntype not in self.node_types:
                raise GraphError(
                    f"node_names has the node type {ntype!r}, which node_types lacks: add it"
                )
        named = {name: _names(f"node_names[{name!r}]", given[name]) for name in given}
        return MappingProxyType(named)

    def __hash__(self) -> int:
        return hash((self.node_types, self.relations, self.canonical_etypes))

    def __reduce__(self) -> Any:
        return Vocabulary.of, (self.as_dict(),)

    @classmethod
    def of(cls, given: VocabularyLike) -> Vocabulary:
        """The vocabulary of a file, a dictionary or a graph.

        Args:
            given: A vocabulary, the path of its file, a dictionary with some of its attributes, or
                a graph, whose names are taken.

        Raises:
            GraphError: It is none of these, or names do not fit together.
            GraphFileError: The file cannot be read, or is none that `save` has written.
        """
        match given:
            case Vocabulary():
                return given
            case str() | os.PathLike():
                return cls.load(given)
            case Mapping():
                return _from_mapping(given)
            case _HasVocabulary():
                return given.vocabulary()
        raise GraphError(
            f"vocabulary is a {type(given).__name__}: give a Vocabulary, a path, a graph, or a "
            f"dictionary with {', '.join(_FIELDS)}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The attributes that are given, as lists: what JSON takes, and `of`."""
        found: dict[str, Any] = {}
        for field in _FIELDS[:-1]:
            if (value := getattr(self, field)) is not None:
                found[field] = [list(v) if isinstance(v, tuple) else v for v in value]
        if self.node_names is not None:
            found["node_names"] = {name: list(names) for name, names in self.node_names.items()}
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that `load` reads."""
        document = {"format": FORMAT, "version": VERSION, **self.as_dict()}
        text = json.dumps(document, ensure_ascii=False, indent=1, check_circular=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` has written.

        Raises:
            GraphFileError: It does not exist, is none, or is of a later version.
        """
        where = Path(path)
        document = _read(where)
        if document.pop("format", None) != FORMAT:
            raise GraphFileError(
                f'{where} is no vocabulary: it lacks "format": "{FORMAT}"; write it with '
                "Vocabulary.save"
            )
        if (version := document.pop("version", None)) != VERSION:
            raise GraphFileError(
                f"{where} has version {version!r} of the format, and this hetune reads {VERSION}: "
                "install a later one"
            )
        try:
            return cast(Self, _from_mapping(document))
        except GraphError as error:
            raise GraphFileError(f"{where}: {error}") from error


VocabularyLike: TypeAlias = Vocabulary | str | os.PathLike[str] | Mapping[str, Any] | _HasVocabulary
"""What `Vocabulary.of` takes."""


def vocabulary_of(
    vocabulary: VocabularyLike | None, like: VocabularyLike | None = None
) -> Vocabulary | None:
    """The vocabulary that two arguments of a loader or converter name; None if neither does.

    Raises:
        GraphError: Both are given, or it is none.
    """
    if vocabulary is not None and like is not None:
        raise GraphError("vocabulary and like are both given: give one of them")
    given = like if vocabulary is None else vocabulary
    return None if given is None else Vocabulary.of(given)


def only_name(names: Sequence[str] | None, default: str) -> str:
    """What data without names of its own calls its only type: as a vocabulary of one type does."""
    return names[0] if names is not None and len(names) == 1 else default


def shown(names: Iterable[object], most: int = _SHOWN) -> str:
    """The first few names, for a message."""
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(map(repr, listed[:most])) + (f" and {rest} more" if rest > 0 else "")


def _set(vocabulary: Vocabulary, field: str, value: object) -> None:
    object.__setattr__(vocabulary, field, value)  # frozen for everybody else


def _from_mapping(given: Mapping[str, Any]) -> Vocabulary:
    if unknown := [name for name in given if name not in _FIELDS]:
        raise GraphError(f"a vocabulary has no {shown(unknown)}: it takes {', '.join(_FIELDS)}")
    return Vocabulary(**given)


def _names(field: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise GraphError(f"{field} is a {type(given).__name__}: give a list of names")
    names = given if isinstance(given, tuple) else tuple(given)
    seen = set()
    for name in names:
        if not isinstance(name, str):
            raise GraphError(f"{field} holds {name!r}: names are strings")
        if not name.isascii() and not _is_text(name):
            raise GraphError(f"{field} holds {name!r}, which is no text: correct it")
        if name in seen:
            raise GraphError(f"{field} holds {name!r} twice: names must be distinct")
        seen.add(name)
    return names


def _is_text(name: str) -> bool:
    """Whether it can be written: JSON may hold halves of characters."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        reason = "is no file: name one" if path.exists() else "does not exist: check the path"
        raise GraphFileError(f"{path} {reason}")
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise GraphFileError(f"{path} has {size} bytes: a vocabulary has {_MOST_BYTES} at most")
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise GraphFileError(f"{path} is no vocabulary, but JSON is wanted: {error}") from error
    if not isinstance(document, dict):
        raise GraphFileError(f"{path} is no vocabulary: it holds no JSON object")
    return document

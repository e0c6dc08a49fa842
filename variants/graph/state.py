"""What is kept with a graph: values in typed slots, each declared by the module that fills it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from hetune.variants.fork_locks import new_rlock

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class GraphSlot(Generic[_Key, _Value]):
    """A place for one kind of value on every graph.

    A constant of the module that fills it: no other module meets its values by accident. ``_Key``
    tells a graph's values of the kind apart; it is None where a graph has one.

    Args:
        by_counts: Whether values stay right while a graph takes other ids, as many as it had: they
            know how many there are, and where its arrays lie.
    """

    __slots__ = ("by_counts",)

    def __init__(self, by_counts: bool = False) -> None:
        self.by_counts = by_counts


class GraphState:
    """The values kept with one graph. Safe with several threads."""

    def __init__(self) -> None:
        self._values: dict[tuple[object, object], Any] = {}
        self._owned: WeakKeyDictionary[object, dict[tuple[object, object], Any]]
        self._owned = WeakKeyDictionary()
        self._lock = new_rlock()
        self.is_by_counts = True
        """Whether all values that were ever kept are: see `GraphSlot`."""

    def of(
        self,
        slot: GraphSlot[_Key, _Value],
        key: _Key,
        build: Callable[[], _Value],
        *,
        owner: object = None,
    ) -> _Value:
        """What ``build()`` returned the first time that the slot was asked for the key.

        Built once, also when several threads ask at the same time; kept as long as the graph.
        ``build`` may itself ask the same state.

        Args:
            slot: The kind of value.
            key: Which value of the kind.
            build: Makes it.
            owner: Whose it is: kept no longer than this, which it must not refer to. Owners that
                are equal share what they own until the first of them goes.
        """
        place = slot, key
        with self._lock:
            values = self._values if owner is None else self._owned.setdefault(owner, {})
            if place not in values:
                values[place] = build()
                self.is_by_counts &= slot.by_counts
            value: _Value = values[place]
            return value

    def known(self, slot: GraphSlot[_Key, _Value], key: _Key) -> _Value | None:
        """What `of` has for a key without an owner already, else None. Waits for nobody."""
        return self._values.get((slot, key))

    @property
    def owners(self) -> tuple[object, ...]:
        """Who owns values here."""
        return tuple(self._owned)

"""What keys are for, and who a request comes from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from hetune.variants.errors import AccessError, ScopeError


class KeyScope(StrEnum):
    """What a key is for. Each allows what it says and nothing else; admin allows everything."""

    infer = "infer"
    profile = "profile"
    metrics = "metrics"
    admin = "admin"


Need: TypeAlias = frozenset[KeyScope] | None
"""Scopes of which any one is enough, beside admin; None if not even a key is needed."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request comes from.

    Attributes:
        name: Of the key; never the secret.
        scopes: What the key is for.
        trouble: Why it is refused all the same; None if it is not.
    """

    name: str
    scopes: frozenset[KeyScope]
    trouble: str | None = None

    def check(self, needs: Collection[Need]) -> None:
        """Checks that the key is enough for all of these.

        Raises:
            AccessError: It is no longer good for anything.
            ScopeError: It is not for this.
        """
        if self.trouble is not None:
            raise AccessError(f"the key {self.name} {self.trouble}: ask for a new one")
        if KeyScope.admin in self.scopes:
            return
        for need in needs:
            if need is not None and need.isdisjoint(self.scopes):
                raise ScopeError(
                    f"the key {self.name} is for {_words(self.scopes)}: this needs one for "
                    f"{_words(need | {KeyScope.admin}, ' or ')}"
                )


def _words(scopes: Collection[KeyScope], between: str = " and ") -> str:
    return between.join(scope for scope in KeyScope if scope in scopes)

"""Names that are shown as they are: in terminals, logs and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hetune.variants.errors import InputError

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Unicode's category Cc: line ends, and what tells a terminal to do something."""


def check_plain(what: str, names: Iterable[str]) -> None:
    """Checks that names hold no control characters.

    Args:
        what: They name.
        names: Given by somebody.

    Raises:
        InputError: One does.
    """
    for name in names:
        if _CONTROL.search(name):
            raise InputError(
                f"the {what} {name[:64]!r} holds a control character: take letters, digits and "
                "signs that can be seen"
            )

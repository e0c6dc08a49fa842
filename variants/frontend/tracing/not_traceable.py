"""Why a layer's forward is no program, and where."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path

_OWN = str(Path(__file__).parent.parent)


class NotTraceable(Exception):  # noqa: N818  # never leaves the tracer: an answer, not an error
    """What was met has no meaning in a program; says what has."""


def reason_of(error: BaseException) -> str:
    """What went wrong while a forward ran on symbols, with the line that did it."""
    kind = "" if isinstance(error, NotTraceable) else f"{type(error).__name__}: "
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = frame.f_code.co_filename
        if path.startswith(_OWN) or "/torch/" in path:
            continue
        text = linecache.getline(path, line).strip()
        where = f"{Path(path).name}:{line} in {frame.f_code.co_qualname}"
        return f"{kind}{error} ({where}: {text})"
    return f"{kind}{error}"

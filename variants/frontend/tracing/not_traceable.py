"""Why a layer's forward is no program, and where."""

from __future__ import annotations

import linecache
import sys
import traceback
from pathlib import Path
from types import FrameType

_OWN = str(Path(__file__).parent.parent)


class NotTraceable(Exception):  # noqa: N818  # never leaves the tracer: an answer, not an error
    """What was met has no meaning in a program; says what has."""


class LocatedNotTraceable(NotTraceable):
    """Likewise; its message says where, which is not where it is raised."""


def reason_of(error: BaseException) -> str:
    """What went wrong while a forward ran on symbols, with the line that did it."""
    if isinstance(error, LocatedNotTraceable):
        return str(error)
    kind = "" if isinstance(error, NotTraceable) else f"its forward raises {type(error).__name__}: "
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if not _is_own(frame):
            return f"{kind}{error} ({_where(frame, line)})"
    return f"{kind}{error}"


def located(error: NotTraceable) -> LocatedNotTraceable:
    """What went wrong, with the line of the forward that runs on symbols now."""
    if isinstance(error, LocatedNotTraceable):
        return error
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    where = "" if frame is None else f" ({_where(frame, frame.f_lineno)})"
    return LocatedNotTraceable(f"{error}{where}")


def _is_own(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(_OWN) or "/torch/" in path


def _where(frame: FrameType, line: int) -> str:
    path = frame.f_code.co_filename
    text = linecache.getline(path, line).strip()
    return f"{Path(path).name}:{line} in {frame.f_code.co_qualname}: {text}"

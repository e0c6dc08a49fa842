"""What a form holds, read with messages that name the field."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl

from fastapi import HTTPException, Request

from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.http.body import SMALL_BYTES, chunks
from hetune.service.http.receiving import Bodies
from hetune.variants.errors import MalformedError

MEDIA_TYPE = "application/x-www-form-urlencoded"
_MOST_FIELDS = 50
_SHOWN = 40
_WHOLE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """The fields of a form; of several with one name the last counts."""

    fields: dict[str, str]

    def text(self, name: str, default: str = "") -> str:
        """A field as it is, without space around it."""
        return self.fields.get(name, default).strip()

    def is_set(self, name: str) -> bool:
        """Whether a box is ticked."""
        return name in self.fields

    def one_of(self, name: str, known: Collection[str]) -> str:
        """A field that has to have one of some values.

        Raises:
            MalformedError: It has another.
        """
        found = self.text(name)
        if found not in known:
            raise MalformedError(f"{name}: take one of {', '.join(known)}, not {found[:_SHOWN]!r}")
        return found

    def whole(self, name: str, least: int, most: int) -> int:
        """A field that has to be a whole number within bounds.

        Raises:
            MalformedError: It is not.
        """
        found = self.text(name)
        if not _WHOLE.fullmatch(found) or not least <= int(found) <= most:
            raise MalformedError(
                f"{name}: give a whole number from {least:,} to {most:,}, not {found[:_SHOWN]!r}"
            )
        return int(found)


async def read_form(
    request: Request, limits: ServiceLimits, most: int = SMALL_BYTES, bodies: Bodies | None = None
) -> SubmittedForm:
    """The form that a request sends; bounded like a body in JSON.

    Args:
        request: Anybody's.
        limits: What is accepted.
        most: Bytes of this form, if that is less.
        bodies: Count it while it is received; short forms need not be counted.

    Raises:
        HTTPException: It is no form (415), or comes too slowly (408).
        BusyError: Other bodies hold too much.
        TooLargeError: It is over the limit.
        MalformedError: It is not text, or has too many fields.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != MEDIA_TYPE:
        raise HTTPException(415, f"send {MEDIA_TYPE} as Content-Type")
    limit = min(most, limits.json_bytes)
    with (bodies or Bodies("forms")).held() as held:
        body = b"".join([chunk async for chunk in chunks(request, held, limit, limits)])
        return await asyncio.to_thread(_parse, body)


def _parse(body: bytes) -> SubmittedForm:
    try:
        pairs = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError as error:
        raise MalformedError(f"the form cannot be read: {error}") from None
    return SubmittedForm(dict(pairs))

"""JSON records with the digest of what they say, so that a damaged file is noticed when it is read.

A file that was written without one is taken as it is: earlier versions wrote such files. It gets
one when it is written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FIELD = "content_sha256"
"""The entry of a record that holds the digest of the others."""


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record and its digest.

    Args:
        record: What JSON can hold, under texts.
    """
    return {**record, FIELD: _digest(record)}


def unsealed(record: Any) -> Any:
    """What `sealed` was given; anything without a digest as it is.

    Args:
        record: As it was read.

    Raises:
        ValueError: It has another digest, or one that is none.
    """
    if not isinstance(record, dict) or FIELD not in record:
        return record
    content = {name: value for name, value in record.items() if name != FIELD}
    if record[FIELD] != _digest(content):
        raise ValueError(f"its content has another SHA-256 than its {FIELD}")
    return content


def _digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of the record, however it was laid out as text."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

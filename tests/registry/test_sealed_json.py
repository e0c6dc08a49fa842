"""Records that tell whether they are as they were written."""

import json

import pytest

from hetune.variants.registry.sealed_json import FIELD, sealed, unsealed

RECORD = {"b": [1, 2.5, None], "a": {"é": True}}


def test_what_was_sealed_comes_back():
    assert unsealed(json.loads(json.dumps(sealed(RECORD), indent=3))) == RECORD


@pytest.mark.parametrize("record", [{"a": 1}, {}, [1], "text", None])
def test_what_has_no_digest_is_taken_as_it_is(record):
    assert unsealed(record) == record


@pytest.mark.parametrize(
    "change", [{"b": []}, {"c": 0}, {FIELD: "0" * 64}, {FIELD: None}], ids=range(4)
)
def test_what_was_changed_is_refused(change):
    with pytest.raises(ValueError, match="another SHA-256"):
        unsealed(sealed(RECORD) | change)

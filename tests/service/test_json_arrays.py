"""Arrays of numbers are found in a text, and read without becoming lists of Python's first."""

import json
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.service.core.formats.json_arrays import MOST_ARRAYS, MOST_TEXTS, JsonArray, Lifted
from hetune.variants.errors import HetuneError, InputError, MalformedError, TooLargeError

NUMBERS = st.integers(-(2**40), 2**40) | st.floats(-1e30, 1e30)
ROWS = st.lists(NUMBERS, max_size=3)
TEXTS = st.text('ab[]{},:"\\ 1', max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | ROWS | st.lists(ROWS, max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def arrays_of(text):
    """All arrays of a text, in its order."""
    return Lifted(text)._arrays


def array_of(text):
    (found,) = arrays_of(b'{"x": ' + text + b"}")
    return found


def with_lists(value, lifted):
    """A value with the lists that were in it before."""
    found = lifted.find(value)
    if found is not None:
        if not found.is_nested:
            return found.floats("x", np.float64).tolist()
        numbers, widths = found._read("x", np.float64)
        assert found.rows == len(widths)
        assert found.width == widths[0]
        ends = np.cumsum(widths)
        return [
            numbers[end - width : end].tolist() for end, width in zip(ends, widths, strict=True)
        ]
    if isinstance(value, list):
        return [with_lists(each, lifted) for each in value]
    if isinstance(value, dict):
        return {name: with_lists(each, lifted) for name, each in value.items()}
    return value


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 1]))
def test_nothing_of_a_text_is_lost(value, indent):
    lifted = Lifted(json.dumps(value, indent=indent).encode())
    try:
        assert with_lists(json.loads(lifted.text), lifted) == value
    except HetuneError:  # rows without numbers beside others, or rows in rows
        assert re.search(r"\[\]|\[[^]]*\[", json.dumps(value))


@pytest.mark.parametrize(
    "numbers", [[], [0], [-1, 2, 3], list(range(40_000)), [2**31], [-(2**63), 2**63 - 1, 0]]
)
def test_integers(numbers):
    for text in (json.dumps(numbers), json.dumps(numbers, indent=1)):
        found = JsonArray.of(numbers) if not numbers else array_of(text.encode())
        assert found.integers("x").tolist() == numbers
        assert found.count == len(numbers)
    assert found.integers("x").itemsize == (8 if max(map(abs, numbers), default=0) >= 2**31 else 4)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 40_000), (40_000, 1), (5, 0)])
@pytest.mark.parametrize("indent", [None, 1])
def test_rows(shape, indent):
    rows = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found = array_of(json.dumps(rows.tolist(), indent=indent).encode())
    assert (found.rows, found.width) == shape
    assert np.array_equal(found.matrix("x"), rows)
    assert found.matrix("x").dtype == np.float32


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (b"[1,,2]", MalformedError, "x: this is no JSON list of numbers"),
        (b"[1,]", MalformedError, "no JSON"),
        (b"[01]", MalformedError, "no JSON"),
        (b"[1 2]", MalformedError, "no JSON"),
        (b"[1" + b"0" * 100_000 + b"]", MalformedError, "no JSON"),
        (b"[1.5]", MalformedError, "give integers"),
        (b"[1e3]", MalformedError, "give integers"),
        (b"[9223372036854775808]", MalformedError, "does not fit int64: renumber"),
    ],
)
def test_what_is_no_list_of_integers(text, kind, reason):
    with pytest.raises(kind, match=reason):
        array_of(text).integers("x")


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        (b"[[1,2],[3]]", InputError, "x: there are rows of different lengths: make them alike"),
        (b"[[1],[]]", InputError, "different lengths"),
        (b"[" + b"[1]," * 20_000 + b"[1,2]]", InputError, "different lengths"),
        (b"[[1e39]]", InputError, "does not fit float32: scale it"),
        (b"[[1" + b"0" * 400 + b"]]", InputError, "does not fit float32: scale it"),
        (b"[[1e999]]", MalformedError, "no JSON"),
        (b"[[1],,[2]]", MalformedError, "no JSON list of rows of numbers"),
        (b"[[1][2]]", MalformedError, "no JSON"),
        (b"[[1],2,[3]]", MalformedError, "no JSON"),
        (b"[[1],[2,]]", MalformedError, "no JSON"),
        (b"[[1],[,2]]", MalformedError, "no JSON"),
        (b"[[1],]", MalformedError, None),
        (b"[[,],[,]]", MalformedError, "no JSON"),
        (b"[[1]5,[2]]", MalformedError, "no JSON"),
        (b"[5[1],[2]]", MalformedError, None),
        (b"[[1" + b",1" * 40_000 + b",]]", MalformedError, "no JSON"),
        (b"[1]", MalformedError, "x: give rows of numbers"),
    ],
)
def test_what_is_no_rows(text, kind, reason):
    found = arrays_of(text)
    if reason is None:  # what is left of the text is no JSON
        with pytest.raises(ValueError, match=r"Expecting|Extra|delimiter"):
            json.loads(Lifted(text).text)
        return
    with pytest.raises(kind, match=reason):
        found[0].matrix("x")


def test_a_row_of_rows_is_no_row_wherever_it_is_read():
    rows = [[1]] * 1638 + [[[[3]]]]  # the last one is a piece of its own
    with pytest.raises(MalformedError, match="no JSON list of rows"):
        JsonArray.of(rows).matrix("x")


@pytest.mark.parametrize(
    "text",
    [
        b'{"x": ["a", 1]}',
        b'{"x": [1, "a"]}',
        b'{"x": [true]}',
        b'{"x": "[1]"}',
        b'{"x": "\\"[1]"}',
        b'{"x": [1, {}]}',
        b'{"x": [1, [2]]}',
        b'{"x": []}',
        b'{"x": "[1]',
        b'"\\',
    ],
)
def test_what_is_left_in_the_text(text):
    assert Lifted(text).text == text


def test_a_mark_cannot_be_sent():
    lifted = Lifted(b'[[1], ["", 0], ["0000000000000000", 0]]')
    assert [lifted.find(value) for value in json.loads(lifted.text)[1:]] == [None, None]
    assert Lifted(b"[1]").text != Lifted(b"[1]").text


@pytest.mark.parametrize(
    "text",
    [b'"",' * (MOST_TEXTS + 1), b"{},[0]," * (MOST_ARRAYS + 1), b"[0}" * 99_999],
)
def test_there_are_not_too_many(text):
    with pytest.raises(TooLargeError):
        Lifted(text)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (b"[" + b"0," * 500_000 + b"0]", 2.5),
        (b"[" + b"[0]," * 250_000 + b"[0]]", 2.5),
        (b"[" + b"[]," * 250_000 + b"[]]", 4),
        (b"[[" + b"0.123," * 100_000 + b"0]]", 1.5),
        (b"[[" + b"0," * 500_000 + b"0]]", 3),
    ],
    ids=range(5),
)
def test_reading_takes_no_more_than_a_few_times_the_text(text, most):
    tracemalloc.start()
    try:
        (found,) = arrays_of(text)
        (found.matrix if found.is_nested else found.integers)("x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most * len(text) + 1_000_000

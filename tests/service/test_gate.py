"""Who is let in: so many at a time, with so much, and nobody waits to be refused."""

from contextlib import ExitStack, suppress

import pytest
from prometheus_client import Gauge

from hetune.service.http.gate import Gate
from hetune.variants.errors import BusyError

LENGTH = Gauge("length", "Inside", ("queue",), registry=None)


@pytest.fixture
def gate() -> Gate:
    return Gate("guests", 3, LENGTH, most_bytes=10)


@pytest.mark.parametrize(
    ("inside", "size", "refused"),
    [
        ([], 99, None),
        ([4, 4], 2, None),
        ([0, 0], 10, None),
        ([4, 4], 3, "hold 8 bytes"),
        ([99], 1, "hold 99 bytes"),
        ([99], 0, "hold 99 bytes"),
        ([1, 1, 1], 0, "3 guests"),
    ],
)
def test_those_over_a_limit_are_refused_until_others_have_left(gate, inside, size, refused):
    with ExitStack() as stack:
        for brought in inside:
            stack.enter_context(gate.entered(brought))
        if refused:
            with pytest.raises(BusyError, match=refused), gate.entered(size):
                pass
        else:
            stack.enter_context(gate.entered(size))
    with gate.entered(10):
        pass


def test_answers_that_nobody_has_read_yet_keep_others_out():
    gate = Gate("guests", 3, LENGTH, most_kept=10)
    with ExitStack() as stack:
        for size in (10, 1):
            stack.enter_context(gate.entered())
            stack.enter_context(gate.keeping(size))
        with pytest.raises(BusyError, match="answers of 11 bytes are being read"), gate.entered():
            pass
    with gate.entered():
        pass


def come(gate: Gate, stack: ExitStack, guests: int) -> int:
    """How many of so many guests come in, and stay."""
    before = gate.inside
    for _ in range(guests):
        with suppress(BusyError):
            stack.enter_context(gate.entered())
    return gate.inside - before


def test_in_a_crowd_fewer_are_let_in_until_it_has_gone():
    now = 10.0
    gate = Gate("guests", 6, LENGTH, in_crowds=2, clock=lambda: now)
    with ExitStack() as guests:
        assert come(gate, guests, 12) == 6  # half of them were refused
    for _ in range(2):
        now += 0.1
        with ExitStack() as guests:
            assert come(gate, guests, 12) == 2
    now += 0.1
    with ExitStack() as guests:
        assert come(gate, guests, 2) == 2  # nobody was refused
    now += 0.1
    with ExitStack() as guests:
        assert come(gate, guests, 7) == 6


def test_a_few_who_are_refused_are_no_crowd():
    now = 10.0
    gate = Gate("guests", 6, LENGTH, in_crowds=2, clock=lambda: now)
    for _ in range(3):
        with ExitStack() as guests:
            assert come(gate, guests, 8) == 6
        now += 0.1


def test_a_crowd_of_long_ago_is_none():
    now = 10.0
    gate = Gate("guests", 6, LENGTH, in_crowds=2, clock=lambda: now)
    with ExitStack() as guests:
        come(gate, guests, 12)
    now += 0.5
    with ExitStack() as guests:
        assert come(gate, guests, 12) == 6

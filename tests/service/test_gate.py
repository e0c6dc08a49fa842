"""Who is let in: so many at a time, with so much, and nobody waits to be refused."""

import asyncio
from contextlib import ExitStack, nullcontext, suppress

import pytest
from prometheus_client import Gauge

from hetune.service.http.gate import Gate
from hetune.service.http.receiving import Bodies
from hetune.variants.errors import BusyError

LENGTH = Gauge("length", "Inside", ("queue",), registry=None)


def test_those_over_a_limit_are_refused_until_others_have_left():
    gate = Gate("guests", 3, LENGTH)
    with ExitStack() as stack:
        for _ in range(3):
            gate.check()
            stack.enter_context(gate.entered())
        with pytest.raises(BusyError, match="3 guests"):
            gate.check()
        with pytest.raises(BusyError, match="3 guests"), gate.entered():
            pass
    with gate.entered():
        pass


def test_who_waits_for_a_turn_comes_in_when_somebody_leaves():
    gate, order = Gate("guests", 1, LENGTH), []

    async def come(name):
        async with gate.turn():
            order.append(f"{name} comes")
            await asyncio.sleep(0)
            assert gate.inside == 1
            order.append(f"{name} leaves")

    async def all_come():
        tasks = [asyncio.create_task(come(name)) for name in "abcd"]
        await asyncio.sleep(0)
        tasks.pop(2).cancel()
        await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(all_come(), 30))
    assert len(order) == 6
    assert [line[0] for line in order[::2]] == [line[0] for line in order[1::2]]
    assert gate.inside == 0


@pytest.mark.parametrize(
    ("others", "size", "refused"),
    [
        ([], 99, None),
        ([4, 4], 2, None),
        ([0, 0], 10, None),
        ([4, 4], 3, "guests hold 8 bytes"),
        ([99], 1, "hold 99 bytes"),
    ],
)
def test_bodies_hold_so_much_together(others, size, refused):
    bodies = Bodies("guests", 10)
    with ExitStack() as stack:
        for brought in others:
            stack.enter_context(bodies.held()).add(brought)
        held = stack.enter_context(bodies.held())
        for ask in (held.expect, held.add):
            with pytest.raises(BusyError, match=refused) if refused else nullcontext():
                ask(size)
    assert bodies.total == 0
    with bodies.held() as held:
        held.expect(11)


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

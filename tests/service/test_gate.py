"""Who is let in: so many at a time, with so much, and nobody waits to be refused."""

from contextlib import ExitStack

import pytest
from prometheus_client import Gauge

from hetune.service.http.work import Gate
from hetune.variants.errors import BusyError


@pytest.fixture
def gate() -> Gate:
    return Gate("guests", 3, Gauge("length", "Inside", ("queue",), registry=None), most_bytes=10)


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

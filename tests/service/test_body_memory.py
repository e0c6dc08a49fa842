"""Bodies come in pieces; the memory of a large one serves the next, once nobody reads it."""

import pytest
import torch

from hetune.service.core.formats.body_memory import BodyMemory, ReceivedBody
from hetune.service.core.formats.message import Pieces, unpack
from hetune.variants.runtime.workspace import ReusedMemory

PIECES = (b"ab", b"", bytes(3000), b"c" * 5000)


@pytest.mark.parametrize("announced", [0, 2, 8002, 9000, 1 << 70])
@pytest.mark.parametrize("pieces", [(), (b"",), PIECES[:1], PIECES])
def test_pieces_become_one_body(pieces, announced):
    body = ReceivedBody(BodyMemory(0), announced)
    for piece in pieces:
        body.add(piece)
    assert bytes(body.content) == b"".join(pieces)
    assert not body.content.readonly


def received(memory, value):
    """Rows of a container that came in pieces."""
    sent = Pieces("{}", {"x": torch.full((1 << 18, 9), value)})
    body = ReceivedBody(memory, len(sent))
    for piece in sent:
        body.add(piece)
    return unpack(body.content).tensors["x"]


def test_memory_is_used_again_once_nobody_reads_it():
    memory = BodyMemory(1 << 30)
    first, second = received(memory, 1.0), received(memory, 2.0)
    where = first.data_ptr()
    assert where != second.data_ptr()
    assert (first == 1.0).all()
    del first
    third = received(memory, 3.0)
    assert third.data_ptr() == where
    assert (second == 2.0).all()
    assert (third == 3.0).all()


def test_no_more_is_kept_than_may_be(monkeypatch):
    monkeypatch.setattr(ReusedMemory, "take", None)
    received(BodyMemory(1 << 23), 1.0)
    with pytest.raises(TypeError):
        received(BodyMemory(1 << 24), 1.0)

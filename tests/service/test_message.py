"""A container piece by piece is the container."""

import pytest
import torch

from hetune.service.core import message
from hetune.service.core.message import Pieces, pack, unpack
from hetune.variants.errors import InputError

TENSORS = {
    "x": torch.arange(12.0).view(3, 4),
    "x/é": torch.arange(12.0).view(3, 4).t()[1:],
    "ids": torch.tensor([7, -1]),
    "flags": torch.tensor([True, False, True]),
    "halves": torch.ones(3, dtype=torch.bfloat16),
    "empty": torch.empty(0, 4),
    "one": torch.tensor(2.5, requires_grad=True),
    "short": torch.tensor([1], dtype=torch.int16),
}


@pytest.mark.parametrize("piece", [1, 5, 1 << 18])
@pytest.mark.parametrize("tensors", [TENSORS, {}], ids=["some", "none"])
def test_pieces_join_to_the_container(monkeypatch, piece, tensors):
    monkeypatch.setattr(message, "_PIECE", piece)
    pieces = Pieces('{"a": "ü"}', tensors)
    first, again = list(pieces), list(pieces)
    assert first == again
    assert all(first)
    content = b"".join(first)
    assert len(pieces) == len(content)
    found, expected = unpack(content), unpack(pack('{"a": "ü"}', tensors))
    assert found.document == expected.document
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert torch.equal(found.tensors[name], tensor)


def test_pieces_are_small_and_tensors_are_not_copied():
    large = torch.zeros(1 << 20, dtype=torch.uint8)
    pieces = Pieces("{}", {"x": large})
    large += 1
    gone = list(pieces)
    assert max(map(len, gone)) <= 2 << 18
    assert unpack(b"".join(gone)).tensors["x"].all()


def test_dtypes_that_no_container_holds():
    with pytest.raises(InputError, match=r"x is torch\.complex64"):
        Pieces("{}", {"x": torch.zeros(1, dtype=torch.complex64)})

"""Containers are read as the safetensors library reads them, but without a copy."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load, save

from hetune.service.core.formats.container import DTYPES, tensors_in
from hetune.variants.errors import MalformedError

WHOLE = bytearray(save({"x": torch.arange(6.0).view(2, 3), "n": torch.tensor([1, 2])}, {"k": "v"}))


def container(header: object, data: bytes = b"", length: int | None = None) -> bytearray:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    return bytearray(size.to_bytes(8, "little") + text + data)


def entry(shape=(2,), offsets=(0, 8), dtype="F32", **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def test_what_is_mutable_is_shared_and_bytes_are_not():
    shared = bytearray(WHOLE)
    _, tensors = tensors_in(shared)
    _, copied = tensors_in(bytes(WHOLE))
    shared[-1] ^= 1
    assert not torch.equal(tensors["n"], copied["n"]) or not torch.equal(tensors["x"], copied["x"])
    assert torch.equal(copied["x"], torch.arange(6.0).view(2, 3))


@pytest.mark.parametrize("pad", range(8))
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_wherever_it_lies(dtype, pad):
    expected = torch.tensor([[1, 0, 1]]).to(dtype)
    text = json.dumps({"x": entry((1, 3), (0, expected.nbytes), _name(dtype))}).encode()
    data = expected.view(torch.uint8).numpy().tobytes() if expected.nbytes else b""
    _, tensors = tensors_in(container(text + b" " * pad, data))
    assert torch.equal(tensors["x"], expected)
    assert tensors["x"].data_ptr() % dtype.itemsize == 0


def _name(dtype):
    return next(name for name, known in DTYPES.items() if known is dtype)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "length of its header"),
        (b"\0" * 8, "length of its header"),
        (container({}, length=1 << 40), "length of its header"),
        (container({}, length=99), "length of its header"),
        (container(b"{"), "no JSON"),
        (container(b"[" * 100_000), "no JSON"),
        (container(b"\xff\xff"), "no JSON"),
        (container([]), "no object"),
        (container({"__metadata__": []}), None),
        (container({"__metadata__": [1]}), "no texts"),
        (container({"__metadata__": {"a": 1}}), "no texts"),
        (container({"x": 1}), "has not dtype"),
        (container({"x": {"dtype": "F32"}}), "has not dtype"),
        (container({"x": entry(more=1)}, b"12345678"), "has more"),
        (container({"x": entry(dtype="F8_E4M3")}, b"12345678"), "convert it"),
        (container({"x": entry((-1,), (0, 8))}), "no counts"),
        (container({"x": entry((2.0,), (0, 8))}, b"12345678"), "no counts"),
        (container({"x": entry((True,), (0, 4))}, b"1234"), "no counts"),
        (container({"x": entry((1 << 64,), (0, 8))}), "no counts"),
        (container({"x": entry((1 << 62, 1 << 62), (0, 8))}), "do not fit"),
        (container({"x": entry((3,), (0, 8))}, b"12345678"), "do not fit"),
        (container({"x": entry((2,), (8, 0))}), "do not fit"),
        (container({"x": entry((1,) * 17, (0, 4))}, b"1234"), "do not fit"),
        (container({"x": entry()}, b"1234"), "take 8 bytes, and 4 are there"),
        (container({"x": entry()}, b"123456789"), "take 8 bytes, and 9 are there"),
        (container({"x": entry(offsets=(1, 9))}, b"123456789"), "does not begin"),
        (container({"x": entry(), "y": entry()}, b"12345678"), "does not begin"),
        (container({"x": entry((0, 1 << 62, 1 << 62), (0, 0))}), "nothing can have"),
    ],
)
def test_what_is_no_container(content, reason):
    if reason is None:
        assert tensors_in(content) == ({}, {})
        return
    with pytest.raises(MalformedError, match=reason):
        tensors_in(content)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_bytes_break_it_and_what_the_library_refuses_is_refused(data):
    content = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(len(content) - 4, len(content))) :]
    try:
        expected = load(bytes(content))
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError):
        expected = None
    try:
        _, found = tensors_in(content)
    except MalformedError:
        return
    assert expected is not None
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert bytes(found[name].reshape(-1).view(torch.uint8)) == bytes(
            tensor.reshape(-1).view(torch.uint8)
        )

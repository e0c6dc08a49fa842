"""A container piece by piece, or from a file, is the container."""

import contextlib
import functools
import json

import pytest
import torch

from hetune.service.core.formats import container, message
from hetune.service.core.formats.container import (
    DTYPES,
    MOST_HEADER,
    MOST_LISTS,
    MOST_OTHERS,
    MOST_OWN_HEADER,
    MOST_TENSORS,
)
from hetune.service.core.formats.message import Pieces, pack, read, read_document, unpack
from hetune.variants.errors import InputError, MalformedError, TooLargeError

from ._serving import files_left

NONE = contextlib.nullcontext()
read_own = functools.partial(read, is_own=True)
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
    monkeypatch.setattr(message, "_SHORT", piece)
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
    large = torch.zeros(5 << 19, dtype=torch.uint8)
    pieces = Pieces("{}", {"x": large})
    large += 1
    head, *gone = pieces
    assert [len(piece) for piece in gone] == [1 << 19] * 5
    assert all(isinstance(piece, memoryview) for piece in gone)
    gone.insert(0, head)
    assert unpack(b"".join(gone)).tensors["x"].all()


def test_dtypes_that_no_container_holds():
    with pytest.raises(InputError, match=r"x is torch\.complex64"):
        Pieces("{}", {"x": torch.zeros(1, dtype=torch.complex64)})


# Files.


@pytest.fixture
def path(tmp_path):
    """A container of all dtypes."""
    every = {f"all/{name}": torch.tensor([[1, 0], [1, 1]]).to(t) for name, t in DTYPES.items()}
    found = tmp_path / "container"
    found.write_bytes(b"".join(Pieces('{"a": "ü"}', TENSORS | every)))
    return found


def test_a_file_holds_what_memory_does(path):
    found, expected = read(path), unpack(path.read_bytes())
    assert found.document == expected.document == read_document(path)
    assert list(found.tensors) == list(expected.tensors)
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert torch.equal(found.tensors[name], tensor)
    storages = {t.untyped_storage().data_ptr() for t in found.tensors.values() if t.numel()}
    assert len(storages) == sum(t.numel() > 0 for t in found.tensors.values())


def test_a_file_is_opened_once_and_one_that_cannot_be_is_not_malformed(path):
    with files_left(1):
        read_document(path)
        tensors = read(path).tensors
    assert len(tensors) == len(TENSORS) + len(DTYPES)
    for ask in (read, read_document):
        with files_left(0), pytest.raises(OSError, match="Too many open files"):
            ask(path)
        with pytest.raises(FileNotFoundError):
            ask(path.with_name("none"))


@pytest.mark.parametrize("ask", [read, read_own, read_document])
@pytest.mark.parametrize("end", [0, 5, 9, -1])
def test_files_that_are_cut_off(path, ask, end):
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(MalformedError, match="no safetensors container"):
        ask(path)


def test_no_memory_is_no_damage(path, monkeypatch):
    def fail(*_args, **_options):
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr(torch, "empty", fail)
    with pytest.raises(RuntimeError, match="can't allocate"):
        read(path)


@pytest.mark.parametrize("ask", [read_own, read_document])
def test_headers_of_our_files_may_be_longer_up_to_a_limit(tmp_path, ask):
    path = tmp_path / "long"
    text = json.dumps({"__metadata__": {"document": "x" * MOST_HEADER}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    assert ask(path)
    with pytest.raises(MalformedError, match=f"length of its header, {len(text)}, is not from 1"):
        read(path)
    with path.open("r+b") as file:
        file.write((MOST_OWN_HEADER + 1).to_bytes(8, "little"))
        file.truncate(8 + MOST_OWN_HEADER + 1)
    with pytest.raises(MalformedError, match="length of its header"):
        ask(path)


@pytest.mark.parametrize(
    ("mark", "most", "what"),
    [
        ("{", MOST_TENSORS + MOST_OTHERS, "tensors of a container"),
        ("[", 2 * MOST_TENSORS + MOST_LISTS, "lists of a header"),
    ],
)
def test_brackets_of_headers_that_are_sent_are_counted(tmp_path, mark, most, what):
    path = tmp_path / "brackets"
    for count in (most, most + 1):
        document = mark * (count - 2 * (mark == "{"))
        text = json.dumps({"__metadata__": {"document": document}}).encode()
        content = len(text).to_bytes(8, "little") + text
        path.write_bytes(content)
        assert read_own(path).document == document
        for ask, given in ((read, path), (unpack, content)):
            with pytest.raises(TooLargeError, match=what) if count > most else NONE:
                ask(given)


def test_tensors_that_nobody_asks_for_are_counted_before_they_are_looked_at(monkeypatch):
    """A header of 280,000 tensors took 16 seconds."""
    looked = []
    monkeypatch.setattr(container, "_entry", lambda name, given: looked.append(name))
    monkeypatch.setattr(json, "loads", lambda text: looked.append(text))
    entry = '"x/%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    text = ("{" + ",".join(entry % number for number in range(280_000)) + "}").encode()
    for most in (MOST_TENSORS, 4):
        with pytest.raises(TooLargeError, match=f"tensors of a container .* the {most} "):
            unpack(len(text).to_bytes(8, "little") + text, most)
    assert not looked

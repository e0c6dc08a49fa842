"""A file is there whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from hetune.variants.registry.atomic_files import PRIVATE, replacing, write_atomically


@pytest.mark.parametrize("mode", [PRIVATE, 0o644])
def test_a_file_is_replaced(tmp_path, mode):
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        write_atomically(path, content, mode)
        assert path.read_bytes() == content
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_fails_changes_nothing(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"before")

    def interrupted():
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"before")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_link_leads_to_is_replaced(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("there")
    write_atomically(link, b"1")
    assert link.is_symlink()
    assert (tmp_path / "there").read_bytes() == b"1"


def test_a_pipe_without_a_path_is_written_to():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file:
        with os.fdopen(writing, "wb"):
            write_atomically(Path(f"/dev/fd/{writing}"), b"1")
        assert file.read() == b"1"


def test_a_file_that_is_open_goes_on_where_it_was(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b"0")
        file.flush()
        write_atomically(Path(f"/dev/fd/{file.fileno()}"), b"1")
        file.write(b"2")
    assert path.read_bytes() == b"012"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(path, b"1")
        assert os.read(reading, 2) == b"1"
    finally:
        os.close(reading)
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]

"""Folders are listed anew where they have changed, and only there."""

import os
from pathlib import Path

import pytest

from hetune.service.core.storage.version_files import Listed


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "model-m"
    path.mkdir()
    for number in (10, 9):
        (path / f"{number}.safetensors").touch()
    (path / "aliases.json").touch()
    return path


def rest(folder: Path, seconds: int) -> None:
    """As if it had last changed so long ago."""
    then = folder.stat().st_mtime_ns - seconds * 10**9
    os.utime(folder, ns=(then, then))


def numbers(listed: Listed, folder: Path) -> tuple[int, ...]:
    return tuple(listed.of(folder))


def test_numbers_ascend(folder):
    assert numbers(Listed(".safetensors"), folder) == (9, 10)


def test_a_folder_at_rest_is_listed_once(folder, monkeypatch):
    listed = Listed(".safetensors")
    rest(folder, 60)
    assert numbers(listed, folder) == (9, 10)
    monkeypatch.setattr(Path, "iterdir", None)
    assert numbers(listed, folder) == (9, 10)


def test_what_comes_and_goes_is_seen(folder):
    listed = Listed(".safetensors")
    rest(folder, 60)
    assert numbers(listed, folder) == (9, 10)
    (folder / "11.safetensors").touch()
    assert numbers(listed, folder) == (9, 10, 11)
    (folder / "9.safetensors").unlink()
    assert numbers(listed, folder) == (10, 11)


def test_a_file_in_place_of_another_is_seen(folder):
    listed = Listed(".safetensors")
    rest(folder, 60)
    before = listed.of(folder)
    (folder / "new").touch()
    (folder / "new").replace(folder / "9.safetensors")
    assert listed.of(folder)[9] != before[9]
    assert listed.of(folder)[10] == before[10]


def test_what_changes_twice_at_the_same_time_is_seen(folder):
    listed = Listed(".safetensors")
    now = folder.stat().st_mtime_ns
    assert numbers(listed, folder) == (9, 10)
    (folder / "11.safetensors").touch()
    os.utime(folder, ns=(now, now))
    assert numbers(listed, folder) == (9, 10, 11)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        Listed(".safetensors").of(tmp_path / "none")

"""Commands that are to end in time, as their benchmark runs and tells them."""

import json
import sys
from pathlib import Path

import presets
import pytest


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Stands in for `hetune`: a script beside an interpreter's name."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    def write(script: str) -> None:
        (tmp_path / "hetune").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "hetune").chmod(0o700)

    return write


def test_each_command_has_places_of_its_own(command, tmp_path, capsys):
    seen, out = tmp_path / "seen", tmp_path / "out.json"
    command(f'echo "$@|$HETUNE_STORE|$HETUNE_MODELS|$HETUNE_CACHE" >> {seen}')
    assert presets.main(["--out", str(out)]) == 0
    told = [line.split("|") for line in seen.read_text().splitlines()]
    assert [names for names, *_ in told] == ["calibrate", "profile smoke"]
    store, models, cache = told[0][1:]
    folder = Path(models).parent
    assert (store, cache) == (f"sqlite:///{folder}/store.db", str(folder / "cache"))
    assert not folder.exists()
    found = json.loads(out.read_text())["commands"]
    assert [(each["command"], each["met"]) for each in found] == [
        ("calibrate", True),
        ("profile smoke", True),
    ]
    assert "hetune calibrate" in capsys.readouterr().out


def test_a_command_that_fails_ends_it(command, tmp_path):
    command("echo no room >&2; exit 1")
    with pytest.raises(SystemExit, match="hetune calibrate has failed: no room"):
        presets.main(["--out", str(tmp_path / "out.json")])
    assert not (tmp_path / "out.json").exists()

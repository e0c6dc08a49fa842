"""The benchmark of joined requests runs, and they are joined."""

import json
from collections.abc import Iterator

import batching
import pytest
import torch


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("threads")
def test_both_ways_are_measured_and_kept(tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = ("--edges", "60", "--requests", "2", "--rounds", "2", "--out", str(out))
    assert batching.main([*arguments]) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [cell["model"] for cell in cells] == list(batching.MODELS)
    assert [cell["joined"] for cell in cells] == [2, 2]
    assert "ratio" in capsys.readouterr().out

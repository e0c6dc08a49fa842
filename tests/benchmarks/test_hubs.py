"""What follows from the times of blocks: when the last of several threads finishes."""

import json

import hubs
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("seconds", "threads", "finished"),
    [
        ((), 3, 0.0),
        ((4.0, 3.0, 2.0), 1, 9.0),
        ((4.0, 3.0, 2.0), 2, 5.0),
        ((1.0, 1.0, 4.0), 2, 5.0),
        ((4.0, 1.0, 1.0), 2, 4.0),
        ((4.0, 1.0, 1.0), 8, 4.0),
    ],
)
def test_each_thread_takes_the_next_block_as_it_becomes_free(seconds, threads, finished):
    assert hubs.makespan(seconds, threads) == finished


def test_a_hub_that_begins_first_holds_up_nobody_it_need_not():
    seconds = np.array([1.0] * 8 + [4.0])
    is_hub = seconds > 1.0
    blocks = hubs.Blocks("v", seconds, np.argsort(-seconds, kind="stable"), is_hub)
    two, twelve = (hubs.over_even_share(blocks, threads) for threads in (2, 12))
    assert two == {"as they lie": 8 / 6, "hubs first": 1.0, "hubs split": 1.0}
    assert twelve == pytest.approx({"as they lie": 4.0, "hubs first": 4.0, "hubs split": 4 / 3})


@pytest.mark.slow
def test_a_graph_is_measured_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hubs, "graph_named", lambda _: hubs.drawn(500, 4000, 0.3))
    out = tmp_path / "out.json"
    arguments = ("--graphs", "tiny", "--layers", "rgcn", "--rounds", "2", "--out", str(out))
    assert hubs.main(arguments) == 0
    (cell,) = json.loads(out.read_text())["cells"]
    assert cell["edges_of_largest_node"] >= 0.3
    assert 0 < cell["time_of_largest_block"] < 1
    assert cell["over_even_share"]["2"]["hubs first"] >= 1.0
    assert "rgcn" in capsys.readouterr().out

"""`benchmarks/digests.py`: equal outputs have equal digests, and a changed bit is told."""

import digests
import pytest
import torch


def test_two_runs_are_equal_and_graphs_differ(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [digests.case("RGCN", 3, 2)]
    awkward = digests.awkward_graphs()
    graphs = {name: awkward[name] for name in ("no nodes", "duplicates", "hub")}
    first, second = (digests.digests_of(cases, graphs) for _ in range(2))
    assert first == second
    hub, duplicates = first["RGCN 3->2"]["hub"], first["RGCN 3->2"]["duplicates"]
    assert hub.keys() == duplicates.keys()
    assert not set(hub.values()) & set(duplicates.values())
    assert {key.rpartition(" ")[2] for key in hub} == {"threads=1", "threads=2"}
    assert digests.compare(first, second) == 0
    assert "differ: 0" in capsys.readouterr().out


def test_one_bit_is_seen() -> None:
    rows = torch.zeros(2, 3)
    assert digests.digest(rows) == digests.digest(rows.clone())
    assert digests.digest(rows) != digests.digest(-rows)
    assert digests.digest(rows) != digests.digest(rows.view(3, 2))


def test_what_differs_is_missing_and_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    old = {"RGCN 1->1": {"hub": {"a threads=1": "0", "b threads=1": "1"}}}
    new = {"RGCN 1->1": {"hub": {"a threads=1": "2", "c threads=1": "1"}}}
    assert digests.compare(old, new) == 1
    assert capsys.readouterr().out.splitlines() == [
        "differ: 1",
        "  RGCN 1->1 | hub | a threads=1",
        "missing: 1",
        "  RGCN 1->1 | hub | b threads=1",
        "new: 1",
        "  RGCN 1->1 | hub | c threads=1",
        "equal: 0",
    ]

"""The benchmark of brief requests runs, and asks both services for both graphs."""

import brief
import pytest


@pytest.mark.slow
def test_both_ways_are_asked(capsys):
    assert brief.main(["--rounds", "1", "--block", "2", "--threads", "1"]) == 0
    told = capsys.readouterr().out
    for what in ("small, alone", "small, in turns", "larger, in turns"):
        assert told.count(what) == len(brief.SERVICES)

"""Errors at hubs are measured and printed."""

import long_sums
import pytest


@pytest.mark.slow
def test_a_hub_is_measured(capsys):
    chosen = ("--edges", "2000", "--widths", "1", "--layers", "rgcn-mean", "--constant", "0.7")
    assert long_sums.main(chosen) == 0
    assert "rgcn-mean" in capsys.readouterr().out

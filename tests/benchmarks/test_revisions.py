"""Two commits' layers are run in turns, each by its own code."""

import json

import numpy as np
import pytest
import revisions
from _machine import commit
from tests.full import whole


@pytest.fixture
def repository():
    if commit() is None:
        pytest.skip("no repository that git reads: the benchmark compares commits")


@whole
@pytest.mark.slow
@pytest.mark.usefixtures("repository")
def test_a_commit_beside_itself(tmp_path, monkeypatch, capsys):
    (tmp_path / "graphs").mkdir()
    rng = np.random.default_rng(0)
    ids = {name: rng.integers(0, 40, 200) for name in ("src", "dst")}
    kinds = {"etype": rng.integers(0, 3, 200), "ntype": np.zeros(40, np.int64)}
    np.savez(tmp_path / "graphs" / "tiny.npz", **ids, **kinds, num_nodes=40, num_etypes=3)
    monkeypatch.setenv("HETUNE_DATA", str(tmp_path))
    out = tmp_path / "out.json"
    cells = ("--layers", "rgcn,hgt", "--graphs", "tiny", "--widths", "8", "--rounds", "3")
    assert revisions.main(["HEAD", "--new", "HEAD", *cells, "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert [cell["key"] for cell in report["cells"]] == ["rgcn/tiny/8", "hgt/tiny/8"]
    for cell in report["cells"]:
        assert cell["same_bits"]
        pairs = zip(cell["new"]["times_ms"], cell["old"]["times_ms"], strict=True)
        ratios = [new / old for new, old in pairs]
        assert cell["share"] == pytest.approx(np.median(ratios), rel=0.01)
        assert len(cell["old"]["times_ms"]) == 3
    assert f"{report['new'][:12]} against {report['old'][:12]}" in capsys.readouterr().out


def test_the_code_is_the_commit_s_own(tmp_path):
    package = tmp_path / "src" / "hetune"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('another hetune')\n")
    with (
        revisions.running(tmp_path) as revision,
        pytest.raises(SystemExit, match="has ended: see above"),
    ):
        revision.ask(run=1)


@pytest.mark.usefixtures("repository")
def test_a_commit_that_is_not_there():
    with pytest.raises(SystemExit, match="no commit 'nowhere'"):
        revisions.main(["nowhere"])

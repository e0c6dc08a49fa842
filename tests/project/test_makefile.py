"""What the Makefile's targets run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_bench_runs_what_needs_no_gpu_and_leaves_committed_results_alone():
    loop = r"\$\(filter-out (\S+) benchmarks/figures.py,\$\(wildcard (\S+)\)\)"
    found = re.search(loop + r"; do .*\\\n(.*\\\n.*)", MAKEFILE)
    assert found
    left_out, every, command = found.groups()
    scripts, others = set(ROOT.glob(every)), set(ROOT.glob(left_out.replace("%", "*")))
    assert {path.name for path in scripts & others} == {"gpu_check.py"}
    scripts.discard(ROOT / "benchmarks" / "figures.py")
    assert '--out "build/bench/' in command
    texts = {path.name: path.read_text(encoding="utf-8") for path in scripts - others}
    takes_out = re.compile(r'"--out"|(command_line|parser)\(__doc__, "')
    assert [name for name, text in texts.items() if not takes_out.search(text)] == []


def test_a_target_runs_the_full_matrix():
    (name,) = re.findall(r"^(\S+): export HETUNE_FULL_MATRIX = 1$", MAKEFILE, re.M)
    assert re.search(rf"^{name}: test  ## ", MAKEFILE, re.M)
    full = ROOT / "tests" / "full.py"
    assert 'os.environ.get("HETUNE_FULL_MATRIX")' in full.read_text(encoding="utf-8")

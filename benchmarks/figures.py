"""The figures of README and documents, printed from `results/`.

    python benchmarks/figures.py            # rewrites the documents and the picture
    python benchmarks/figures.py --check    # 1 if something differs

What stands between `<!--figures:NAME;ARGUMENTS-->` and `<!--/figures-->` is replaced: NAME is one
of `FIGURES`, arguments are separated by `;`. `value;FILE;key/key;.3f` prints one number.
The pictures of slowdowns are written to docs/slowdown.svg and docs/slowdown-by-graph.svg.
"""

import calendar
import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import _peer_tables as peers
from _command_line import command_line
from _slowdown_picture import by_graph, by_layer

ROOT = Path(__file__).resolve().parents[1]
MACHINES = {"zen4": "Zen 4", "xeon": "Xeon", "zen3": "Zen 3"}
_CPUS = ("xeon", "zen4", "zen3")
_MARKED = re.compile(r"(<!--figures:([^>]*?)-->)(.*?)(<!--/figures-->)", re.DOTALL)


@cache
def result(name: str) -> Any:
    """A results file."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def value(name: str, path: str, form: str = "") -> str:
    """A number of a results file; `path` is keys and positions with slashes between."""
    found = result(name.removesuffix(".json"))
    for key in path.split("/"):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return format(found, form)


def _cells(machine: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result(f"peers_{machine}")["cells"]
    return found


def _machines() -> dict[str, Sequence[dict[str, Any]]]:
    return {f"{MACHINES[m]}, {_date(_cells(m)[0])}": _cells(m) for m in _CPUS}


def least() -> str:
    """The least slowdown of the fastest peer, over all cells of all machines."""
    ratios = [peers.slowdown(c, "fastest peer") for m in _CPUS for c in _cells(m)]
    return f"{min(r for r in ratios if r is not None):.2f}x"


def choosers() -> str:
    """How well each chooser chooses: all on the Xeon, and the regret with kernels for AVX2."""
    main, other = (result(f"selection_{m}")["scores"] for m in ("xeon", "avx2"))
    rows = []
    for chooser, s in sorted(main.items(), key=lambda each: each[1]["regret"]):
        if chooser != "oracle":
            numbers = f"{s['regret']:.3f}", f"{s['regret_p95']:.3f}", f"{s['clearly_worse']:.1%}"
            there = f"{other[chooser]['regret']:.3f}"
            rows.append([chooser, *numbers, f"{s['worst']:.2f}x", there])
    header = ["chooser", "regret", "95th percentile", "clearly slower", "at worst", "AVX2: regret"]
    return peers.table(header, rows)


def choosing() -> str:
    """What choosing costs, in runs and milliseconds."""
    found = result("choosing_zen4")["summary"]
    labels = {
        "known": "chosen for before",
        "new": "new, indexed for the chosen variant",
        "features": "of that, features of the graph",
        "scoring": "of that, counts and predictions",
        "from_nothing": "new, nothing indexed",
    }
    rows = []
    for key, label in labels.items():
        ms = found.get(f"{key}_ms", {}).get("median")
        each = found[key]
        rows.append(
            [label, f"{ms:.2f}" if ms else "", f"{each['geometric_mean']:.2g}",
             f"{each['share_over_1']:.0%}", f"{each['max']:.2g}"]
        )  # fmt: skip
    header = ["a graph", "ms, median", "runs, geometric mean", "more than one run", "most runs"]
    return peers.table(header, rows)


def kernels() -> str:
    """Shares of the machine's limits, on one thread and on two."""
    machines = ("xeon", "zen3")
    shares: dict[str, dict[str, str]] = {}
    for machine in machines:
        for row in result(f"roofline_{machine}")["results"]:
            column = f"{MACHINES[machine]}: {row['threads']}"
            shares.setdefault(row["kernel"], {})[column] = f"{row['share_best']:.0%}"
    columns = [f"{MACHINES[m]}: {threads}" for m in machines for threads in (1, 2)]
    rows = [[name, *(found.get(c, "") for c in columns)] for name, found in shares.items()]
    return peers.table(["kernel", *columns], rows)


def new_graphs(kind: str) -> str:
    """The least and the most over layers.

    Args:
        kind: "added" (ms that a new graph adds to a run) or "step" (how many times as fast as
            PyG's a step of training on one is).
    """
    found = {
        name: (s["new"] - s["again"]) * 1e3 if kind == "added" else s["pyg_step"] / s["step"]
        for name, s in result("indexing_xeon")["new_graphs"]["seconds"].items()
    }
    ends = (pick(found, key=found.__getitem__) for pick in (min, max))
    return " to ".join(f"{found[name]:.2f} ({name.removesuffix('Conv')})" for name in ends)


FIGURES: dict[str, Callable[..., str]] = {
    "value": value,
    "layers": lambda machine: peers.layers_table(_cells(machine), ("PyG", "DGL", "fastest peer")),
    "machines": lambda: peers.machines_table(_machines()),
    "homogeneous": lambda: peers.homogeneous_table(result("homogeneous_xeon")["cells"]),
    "training": lambda: peers.training_table(result("training_xeon")["cells"]),
    "compiled": lambda: peers.compile_table(_cells("compile_xeon")),
    "memory": lambda: peers.memory_table(_cells("memory_zen4")),
    "roofline": lambda: peers.roofline_table(_machines()),
    "slowdown": lambda machine, layer, peer: peers.shown(
        peers.mean(peers.chosen(_cells(machine), layer), peer)
    ),
    "least": least,
    "kernels": kernels,
    "choosers": choosers,
    "choosing": choosing,
    "new_graphs": new_graphs,
}


def filled(text: str) -> str:
    """A document with the figures of today's results."""

    def fill(found: re.Match[str]) -> str:
        name, *arguments = found[2].split(";")
        printed = FIGURES[name](*arguments)
        around = "\n\n" if printed.startswith("|") else ""
        return f"{found[1]}{around}{printed}{around}{found[4]}"

    return _MARKED.sub(fill, text)


def outputs() -> dict[Path, str]:
    """Every file that has figures in it, as it should be."""
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = {path: path.read_text("utf-8") for path in documents}
    found = {path: filled(text) for path, text in texts.items() if _MARKED.search(text)}
    docs, cells = ROOT / "docs", _cells("zen4")
    pictures = {"slowdown.svg": by_layer(cells), "slowdown-by-graph.svg": by_graph(cells)}
    return {**found, **{docs / name: text for name, text in pictures.items()}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what differs, or say so."""
    line = command_line(__doc__)
    line.add_argument("--check", action="store_true", help="write nothing")
    options = line.parse_args(arguments)
    wanted = outputs()
    differs = [p for p, t in wanted.items() if not p.is_file() or p.read_text("utf-8") != t]
    for path in differs:
        print(f"{'differs' if options.check else 'wrote'}: {path.relative_to(ROOT)}")
        if not options.check:
            path.write_text(wanted[path], encoding="utf-8")
    return int(options.check and bool(differs))


def _date(cell: dict[str, Any]) -> str:
    year, month, day = cell["measured_at"][:10].split("-")
    return f"{int(day)} {calendar.month_name[int(month)]} {year}"


if __name__ == "__main__":
    raise SystemExit(main())

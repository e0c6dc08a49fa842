"""Does the shipped cost model still choose what it chose when its regret was measured?

    python benchmarks/choices.py [--read choices.json] [--quick]

Asks the selector anew for every input of `results/selection_zen4.json` (three layers at widths
from 32 to 256 on 29 real graphs), which takes no measuring, and writes the choices. With --read
they are compared with those of another revision: where all are equal, so is the regret. Choices
are also looked up in the results: as far as the times of what is chosen now are there, the regret
is printed beside the recorded one, which counts all inputs.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from _graphs import data_folder
from _measure import geometric_mean
from _selection_graphs import GRAPHS

import hetune
from hetune import HeteroGraph

_RESULTS = Path(__file__).resolve().parent / "results" / "selection_zen4.json"
_BUNDLE = Path(__file__).resolve().parents[1] / "costmodel" / "bundle" / "avx512"


def main(arguments: Sequence[str] | None = None) -> int:
    """Choose, write, compare; 1 where a choice differs from `--read`."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--read", type=Path, help="choices of another revision")
    line.add_argument("--quick", action="store_true", help="inputs at 64x64 only")
    line.add_argument("--threads", type=int, default=2)
    line.add_argument("--out", type=Path, default=Path("choices.json"))
    options = line.parse_args(arguments)
    torch.set_num_threads(options.threads)
    inputs = json.loads(_RESULTS.read_text(encoding="utf-8"))["inputs"]
    known = {row["input"]: times_of(row) for row in inputs}
    wanted = [name for name in known if name.endswith("/64x64") or not options.quick]
    found = chosen(wanted)
    options.out.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    print(f"{len(found)} inputs chosen for, {len(wanted) - len(found)} without their graph")
    print(verdict(found, known))
    if options.read is None:
        return 0
    other = json.loads(options.read.read_text(encoding="utf-8"))
    differ = [name for name in found if other.get(name, found[name]) != found[name]]
    print(f"{len(differ)} differ from {options.read}")
    for name in differ:
        print(f"  {name}: {other[name]} -> {found[name]}")
    return int(bool(differ))


def chosen(inputs: Sequence[str]) -> dict[str, str]:
    """The variant that the shipped model chooses for each input, as `layer/graph/d_in x d_out`."""
    selector = hetune.Selector.load(_BUNDLE)
    found = {}
    for graph in GRAPHS:
        mine = [name for name in inputs if name.split("/")[1] == graph.name]
        if not mine or not (data_folder() / "graphs" / f"{graph.name}.npz").is_file():
            continue
        plain = hetune.load(graph.path)
        plain = plain.add_inverse() if graph.inverse else plain
        canonical = plain.canonicalize()
        for name in mine:
            layer, _, widths = name.split("/")
            d_in, d_out = map(int, widths.split("x"))
            on = canonical if layer == "hgt" else plain
            found[name] = _choose(selector, layer, on, d_in, d_out)
    return found


def _choose(
    selector: hetune.Selector, layer: str, graph: HeteroGraph, d_in: int, d_out: int
) -> str:
    types = graph.metadata() if layer == "hgt" else graph.num_etypes
    module: torch.nn.Module = getattr(hetune.nn, layer.upper())(d_in, d_out, types)
    compiled = hetune.compile(module.eval().requires_grad_(False), selector=selector)
    return compiled.explain(torch.empty(graph.num_nodes, d_in), graph).id


def times_of(row: dict[str, str]) -> dict[str, float]:
    """Milliseconds of the variants that a row of the results names."""
    picks = (text.split() for name, text in row.items() if name != "input")
    return {variant: float(ms) for variant, ms in picks}


def verdict(found: dict[str, str], known: dict[str, dict[str, float]]) -> str:
    """The regret of the choices whose times are in the results."""
    ratios = [
        known[name][variant] / min(known[name].values())
        for name, variant in found.items()
        if variant in known[name]
    ]
    return f"times are known of {len(ratios)} choices: regret {geometric_mean(ratios):.3f}"


if __name__ == "__main__":
    raise SystemExit(main())

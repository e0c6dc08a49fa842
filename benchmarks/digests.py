"""Digests of what every CPU variant computes: are two revisions equal bit for bit?

    PYTHONPATH=OLD/src HETUNE_CACHE=OTHER python benchmarks/digests.py --out old.json
    python benchmarks/digests.py --out new.json --compare old.json

Layers of `hetune.nn` run on real and on awkward graphs, each variant with one thread and with two,
on seeded weights and input. The file maps layer, graph, variant and threads to the SHA-256 of the
output's bytes. It says nothing about other kinds of CPUs: vectors of another length add up in
another order. Only public names are used, so that the script runs on other revisions, too.
`OMP_WAIT_POLICY=passive` makes it faster on a busy machine.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hetune
from hetune import HeteroGraph

THREADS = 1, 2
REAL = {"aifb": "aifb_hetero", "mutag": "mutag_hetero", "fb15k237": "fb15k237"}
Digests = dict[str, dict[str, dict[str, str]]]
"""SHA-256 by layer, then graph, then variant and threads."""


@dataclass(frozen=True)
class Case:
    """A layer of `hetune.nn` with its widths and options; `where` names "real" and "quick"."""

    layer: str
    d_in: int
    d_out: int
    where: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{self.layer} {self.d_in}->{self.d_out}"]
        return " ".join(words + [f"{name}={value}" for name, value in self.options.items()])

    def module(self, graph: HeteroGraph) -> torch.nn.Module:
        """The layer for a graph; each parameter is drawn by its name."""
        types: Any = graph.metadata() if self.layer == "HGT" else graph.num_etypes
        layer: torch.nn.Module = getattr(hetune.nn, self.layer)(
            self.d_in, self.d_out, types, **self.options
        )
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                bound = (6 / sum(parameter.shape[-2:])) ** 0.5 if parameter.dim() > 1 else 0.5
                parameter.copy_(_draw(name, parameter.shape) * bound)
        return layer.eval().requires_grad_(False)


def case(layer: str, d_in: int, d_out: int, where: str = "", **options: Any) -> Case:
    return Case(layer, d_in, d_out, where, options)


CASES = (
    case("RGCN", 64, 64, "real quick"),
    case("RGCN", 1, 1),
    case("RGCN", 7, 63, "real"),
    case("RGCN", 63, 7, aggr="add", self_loop=False, bias=False),
    case("RGCN", 32, 32, "real", num_bases=3, residual=True),
    case("RGCN", 32, 64, num_blocks=4),
    case("RGAT", 64, 16, "real quick", heads=4),
    case("RGAT", 1, 1),
    case("RGAT", 7, 63, "real"),
    case("RGAT", 63, 7, softmax="within", self_loop=True, heads=2),
    case("RGAT", 32, 16, "real", heads=2, attention="shared", residual=True),
    case("RGAT", 32, 32, relation_attention=True, num_bases=2, bias=False),
    case("HGT", 64, 64, "real quick", heads=4),
    case("HGT", 1, 1),
    case("HGT", 7, 63, heads=3),
    case("HGT", 63, 7),
    case("HGT", 32, 64, "real", heads=2),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write digests and compare them with older ones; 1 where some differ."""
    options = parser().parse_args(arguments)
    cases = [c for c in CASES if "quick" in c.where or not options.quick]
    graphs = awkward_graphs() | ({} if options.quick else real_graphs(options.data))
    digests = digests_of(cases, graphs)
    record = {"hetune": str(Path(hetune.__file__).parent), "digests": digests}
    options.out.write_text(json.dumps(record, indent=0) + "\n")
    print(f"wrote {options.out}: {len(_flat(digests))} digests")
    if options.compare is None:
        return 0
    return compare(json.loads(options.compare.read_text())["digests"], digests)


def digests_of(cases: Sequence[Case], graphs: dict[str, Callable[[], HeteroGraph]]) -> Digests:
    """Runs everything; real graphs only where a case wants them."""
    found: Digests = {}
    before = torch.get_num_threads()
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            for name, build in graphs.items():
                plain = build()
                canonical = plain if plain.is_canonical else plain.canonicalize()
                for c in cases:
                    if name in REAL and "real" not in c.where:
                        continue
                    graph = canonical if c.layer == "HGT" else plain
                    here = found.setdefault(str(c), {}).setdefault(name, {})
                    for variant, output in outputs(c, graph):
                        here[f"{variant} threads={threads}"] = digest(output)
                print(f"{threads} threads, {name}: done", file=sys.stderr, flush=True)
    finally:
        torch.set_num_threads(before)
    return found


def outputs(c: Case, graph: HeteroGraph) -> Iterator[tuple[str, Tensor]]:
    """What each variant computes, [N, width]. The one place that knows how hetune is called."""
    compiled = hetune.compile(c.module(graph))
    x = _draw("x", (graph.num_nodes, c.d_in))
    with torch.inference_mode():
        for variant in compiled.variants:
            yield variant, compiled(x, graph, variant=variant)


def digest(output: Tensor) -> str:
    """SHA-256 of a tensor's shape, type and bytes."""
    head = f"{tuple(output.shape)} {output.dtype} "
    return hashlib.sha256(head.encode() + output.contiguous().numpy().tobytes()).hexdigest()


def compare(old: Digests, new: Digests) -> int:
    """Prints what differs, is missing and is new; 1 where something differs."""
    before, after = _flat(old), _flat(new)
    differ = sorted(key for key in before.keys() & after.keys() if before[key] != after[key])
    for title, keys in (
        ("differ", differ),
        ("missing", sorted(before.keys() - after.keys())),
        ("new", sorted(after.keys() - before.keys())),
    ):
        print(f"{title}: {len(keys)}")
        for layer, graph, variant in keys[:40]:
            print(f"  {layer} | {graph} | {variant}")
    print(f"equal: {len(before.keys() & after.keys()) - len(differ)}")
    return int(bool(differ))


def _flat(digests: Digests) -> dict[tuple[str, str, str], str]:
    return {
        (layer, graph, variant): value
        for layer, graphs in digests.items()
        for graph, variants in graphs.items()
        for variant, value in variants.items()
    }


def _draw(name: str, shape: Sequence[int]) -> Tensor:
    """Evenly from -1 to 1, the same for each name and shape."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "little")
    return torch.rand(tuple(shape), generator=torch.Generator().manual_seed(seed)) * 2 - 1


def real_graphs(folder: Path) -> dict[str, Callable[[], HeteroGraph]]:
    """Graphs of the data folder, inverse edges added."""
    return {
        name: lambda file=file: hetune.load(folder / "graphs" / f"{file}.npz").add_inverse()
        for name, file in REAL.items()
    }


def awkward_graphs() -> dict[str, Callable[[], HeteroGraph]]:
    """Small graphs that break careless code; each edge type joins one pair of node types."""
    many = [(r % 2, r // 2 % 2, 1 + (r % 7 == 0)) for r in range(1000)]
    sizes: dict[str, tuple[Sequence[int], Sequence[tuple[int, int, int]]]] = {
        "no nodes": ((0, 0), [(0, 1, 0), (1, 0, 0)]),
        "no edges": ((4, 3), [(0, 1, 0), (1, 1, 0), (1, 0, 0)]),
        "one relation": ((30,), [(0, 0, 90)]),
        "relations without edges": ((12, 0, 8), [(0, 2, 0), (0, 0, 25), (1, 0, 0), (2, 2, 18)]),
        "isolated nodes": ((300, 100), [(0, 0, 6), (0, 1, 5), (1, 0, 4)]),
        "duplicates": ((2, 1), [(0, 0, 20), (0, 1, 15), (1, 0, 10)]),
        "hub": ((300, 40), [(0, 0, 5000), (1, 0, 2000), (0, 1, 100)]),
        "source hub": ((260, 60), [(0, 0, 300), (1, 0, 200), (0, 1, 100)]),
        "several blocks": ((500, 300, 100), [(0, 1, 3500), (1, 0, 2500), (0, 0, 1500), (2, 1, 80)]),
        "many relations": ((40, 25), many),
    }
    return {
        name: lambda name=name, size=size: _typed_graph(name, *size) for name, size in sizes.items()
    }


def _typed_graph(
    name: str, num_nodes: Sequence[int], relations: Sequence[tuple[int, int, int]]
) -> HeteroGraph:
    """Edges drawn evenly, in no order; most of a hub's edges lead to, or come from, one node."""
    draw = torch.Generator().manual_seed(len(name))
    first = [sum(num_nodes[:t]) for t in range(len(num_nodes))]
    parts = [torch.empty((3, 0), dtype=torch.int64)]
    for r, (source, target, edges) in enumerate(relations):
        src = torch.randint(max(num_nodes[source], 1), (edges,), generator=draw)
        dst = torch.randint(max(num_nodes[target], 1), (edges,), generator=draw)
        if name.endswith("hub"):
            end = src if name == "source hub" else dst
            end[torch.arange(edges) % 7 < 6] = 0
        etype = torch.full((edges,), r)
        parts.append(torch.stack((src + first[source], dst + first[target], etype)))
    edges_ = torch.cat(parts, 1)
    edges_ = edges_[:, torch.randperm(edges_.shape[1], generator=draw)]
    names = [f"t{t}" for t in range(len(num_nodes))]
    return HeteroGraph(
        *edges_,
        torch.repeat_interleave(torch.arange(len(num_nodes)), torch.tensor([*num_nodes])),
        ntype_names=names,
        canonical_etypes=[(names[s], f"r{r}", names[d]) for r, (s, d, _) in enumerate(relations)],
        num_etypes=len(relations),
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--quick", action="store_true", help="three layers on awkward graphs")
    line.add_argument("--compare", type=Path, metavar="OLD", help="say what differs")
    line.add_argument("--data", type=Path, default=Path(os.environ.get("HETUNE_DATA", ".")))
    line.add_argument("--out", type=Path, default=Path("digests.json"))
    return line


if __name__ == "__main__":
    raise SystemExit(main())

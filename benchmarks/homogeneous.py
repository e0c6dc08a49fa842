"""hetune against PyG, DGL and expert PyTorch on graphs with one type of edges.

    python benchmarks/homogeneous.py --layers gcn,gat --graphs pubmed --widths 64x64,256x32

Outputs are checked against PyG's in float64 before times count. Otherwise as `peers.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import _peer_tables as tables
import torch
from _cells import AnyCell
from _graphs import load_graph
from _peers.homogeneous import LAYERS, HomogeneousProblem, candidates
from _peers.problem import Candidate
from _registry import matching
from _selection_graphs import pairs
from peers import parser
from torch import Tensor

from hetune.variants.testing.conformance import relative_error

GRAPHS = (
    *("pubmed", "amazon_cs", "ppi_string", "github_social", "usroads", "twitch_de"),
    *("facebook_page", "coauthor_cs"),
    *(f"mycielskian{order}" for order in range(12, 16)),
)


@dataclass(frozen=True)
class HomogeneousCell(AnyCell):
    """A layer on a graph, from rows of one width to rows of another."""

    layer: str
    graph: str
    d_in: int
    d_out: int

    @property
    def key(self) -> str:
        """Readable and unique."""
        return f"{self.layer}/{self.graph}/{self.d_in}x{self.d_out}"

    def problem(self) -> HomogeneousProblem:
        """The layer and its input."""
        return HomogeneousProblem(self.layer, self.d_in, self.d_out, *edges_of(self.graph))

    def tiny(self) -> HomogeneousProblem:
        """The same layer on a graph of four nodes."""
        return HomogeneousProblem(self.layer, self.d_in, self.d_out, *mycielskian(3))

    def candidates(self, *, compiled: bool = False, only: Sequence[str] = ()) -> list[Candidate]:
        """All forms."""
        return matching(candidates(self.layer), compiled=compiled, only=only)

    def reference(self, problem: HomogeneousProblem, model: str) -> tuple[Tensor, str]:
        """PyG's."""
        return problem.exact(), "PyG"

    def error(self, problem: HomogeneousProblem, output: Tensor, want: Tensor) -> float:
        """Largest difference over the largest value."""
        return relative_error(output, want)

    def facts(self, run: Any) -> dict[str, Any]:
        """What hetune ran."""
        return {"ran": run.ran()} if hasattr(run, "ran") else {}

    def least_seconds(self, problem: HomogeneousProblem, threads: int) -> float:
        """The least time that any variant takes."""
        from _bound import least_seconds_called

        return least_seconds_called(problem.conv, (problem.x, problem.edge_index), threads)


def edges_of(name: str) -> tuple[Tensor, int]:
    """A graph's edge_index, int64 [2, edges], in both directions, and its number of nodes."""
    if name.startswith("mycielskian"):
        return mycielskian(int(name.removeprefix("mycielskian")))
    graph = load_graph(name)
    return torch.stack([graph.src, graph.dst]).long(), graph.num_nodes


def mycielskian(order: int) -> tuple[Tensor, int]:
    """Mycielski's graph of that order: 12 has 3,071 nodes and 815,206 edges."""
    edges, nodes = torch.tensor([[0], [1]]), 2
    for _ in range(order - 2):
        near = edges + torch.tensor([[0], [nodes]])
        far = edges + torch.tensor([[nodes], [0]])
        spokes = torch.stack([torch.arange(nodes, 2 * nodes), torch.full((nodes,), 2 * nodes)])
        edges, nodes = torch.cat([edges, near, far, spokes], dim=1), 2 * nodes + 1
    return torch.cat([edges, edges.flip(0)], dim=1), nodes


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing in the results file; print the tables."""
    line = parser(__doc__, "homogeneous", pairs)
    line.set_defaults(layers=list(LAYERS), widths=[(64, 64), (256, 32), (32, 256)], budget=30.0)
    options = line.parse_args(arguments)
    from _cpu_peers import run

    print(tables.homogeneous_table(run(options, cells(options))))
    return 0


def cells(options: Any) -> Iterator[HomogeneousCell]:
    """What the options ask for."""
    for graph in options.graphs or GRAPHS:
        for layer in options.layers:
            for widths in options.widths:
                yield HomogeneousCell(layer, graph, *widths)


if __name__ == "__main__":
    raise SystemExit(main())

"""What `service.py` serves: a graph and a model of two RGCN layers, the same for all servers."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import hetune
from hetune import nn


@dataclass(frozen=True, slots=True)
class Case:
    """A graph whose edges are drawn evenly, and a model on it.

    Attributes:
        nodes: N.
        edges: E.
        relations: R.
        widths: Of the features, of what lies between the layers, and of the result.
    """

    nodes: int
    edges: int
    relations: int
    widths: tuple[int, int, int]

    @property
    def megabytes(self) -> float:
        """Of its features."""
        return self.nodes * self.widths[0] * 4 / 1e6

    def graph(self) -> hetune.HeteroGraph:
        """The graph, its edges in the order of their types."""
        random = torch.Generator().manual_seed(0)
        src, dst = torch.randint(self.nodes, (2, self.edges), generator=random)
        etype = torch.randint(self.relations, (self.edges,), generator=random).sort().values
        return hetune.HeteroGraph(src, dst, etype, num_nodes=self.nodes, num_etypes=self.relations)

    def layers(self) -> list[torch.nn.Module]:
        """The model."""
        first, middle, last = self.widths
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return [
                nn.RGCN(first, middle, self.relations),
                torch.nn.ReLU(),
                nn.RGCN(middle, last, self.relations),
            ]

    def features(self) -> Tensor:
        """Rows of all nodes."""
        random = torch.Generator().manual_seed(1)
        return torch.randn(self.nodes, self.widths[0], generator=random)


SMALL = Case(1000, 5000, 4, (32, 32, 16))
LARGE = Case(400_000, 4_000_000, 16, (64, 64, 16))


def in_process(
    case: Case, graph: hetune.HeteroGraph, variants: tuple[str, ...]
) -> Callable[[Tensor], Tensor]:
    """The model run here, by given variants."""
    layers = case.layers()
    first, last = hetune.compile(layers[0]), hetune.compile(layers[2])

    def run(x: Tensor) -> Tensor:
        with torch.inference_mode():
            hidden = torch.relu(first(x, graph, variant=variants[0]))
            found: Tensor = last(hidden, graph, variant=variants[1])
            return found

    return run

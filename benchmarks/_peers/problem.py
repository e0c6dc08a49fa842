"""One cell of the table: a layer with weights, a graph, and its input."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hetune.variants.graph.hetero import HeteroGraph

Layer = Literal["rgcn", "rgat", "hgt", "gcn", "gat"]
LAYERS: tuple[Layer, ...] = ("rgcn", "rgat", "hgt")
HOMOGENEOUS: tuple[Layer, ...] = ("gcn", "gat")


@dataclass
class Problem:
    """The module is PyG's own: its parameters are the weights that every candidate shares.

    Args:
        layer: Which layer.
        graph: Edges sorted by relation; canonical for "hgt". Everything is on its device.
        width: d_in = d_out; of all heads together.
        heads: Attention heads; 1 for "rgcn".
        dtype: float32 to measure, float64 for the reference.
        seed: Of weights and input: the same in every process.
        trains: The module is in training mode, and its parameters want gradients.
        is_featureless: RGCN whose input is which node it is: x is None.
    """

    layer: Layer
    graph: HeteroGraph
    width: int
    heads: int = 1
    dtype: torch.dtype = torch.float32
    seed: int = 0
    trains: bool = False
    is_featureless: bool = False

    @cached_property
    def conv(self) -> nn.Module:
        """PyG's module, no parameter left at a trivial value."""
        from torch_geometric.nn import GATConv, GCNConv, HGTConv, RGATConv, RGCNConv

        graph, d, heads = self.graph, self.width, self.heads
        torch.manual_seed(self.seed)
        module: nn.Module
        # A model is made before it is run in inference mode: its parameters are ordinary tensors.
        with torch.inference_mode(False), torch.no_grad():
            match self.layer:
                case "rgcn":
                    d_in = graph.num_nodes if self.is_featureless else d
                    module = RGCNConv(d_in, d, graph.num_etypes, aggr="mean")
                case "rgat":
                    module = RGATConv(d, d // heads, graph.num_etypes, heads=heads)
                case "hgt":
                    module = HGTConv(d, d, graph.metadata(), heads=heads)
                case "gcn":
                    module = GCNConv(d, d)
                case "gat":
                    module = GATConv(d, d // heads, heads)
            for name, parameter in module.named_parameters():
                if name == "bias" or name.startswith(("skip", "p_rel")):
                    parameter.add_(torch.randn_like(parameter) * 0.1)
            module = module.to(self.graph.device, self.dtype)
            return module.train(self.trains).requires_grad_(self.trains)

    @cached_property
    def x(self) -> Tensor:
        """Input [N, width], signed."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        x = torch.randn(self.graph.num_nodes, self.width, generator=generator)
        return x.to(self.graph.device, self.dtype)

    @cached_property
    def edge_index(self) -> Tensor:
        """int64 [2, E]."""
        return torch.stack([self.graph.src, self.graph.dst]).long()

    @cached_property
    def edge_type(self) -> Tensor:
        """int64 [E]."""
        return self.graph.etype.long()

    @cached_property
    def x_dict(self) -> dict[str, Tensor]:
        """Views of `x` by node type."""
        return self.by_type(self.x)

    def by_type(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of rows of all nodes, by node type."""
        sizes = torch.tensor(self.graph.node_offsets).diff().tolist()
        return dict(zip(self.graph.ntype_names, rows.split(sizes), strict=True))

    @cached_property
    def edge_index_dict(self) -> dict[tuple[str, str, str], Tensor]:
        """Edges with ids local to their node types, in the order of the metadata."""
        graph = self.graph
        first = dict(zip(graph.ntype_names, graph.node_offsets, strict=False))
        counts = torch.bincount(self.edge_type, minlength=graph.num_etypes).tolist()
        parts = self.edge_index.split(counts, dim=1)
        return {
            triple: part - part.new_tensor([[first[triple[0]]], [first[triple[2]]]])
            for triple, part in zip(graph.canonical_etypes, parts, strict=True)
        }

    @property
    def rows(self) -> Any:
        """Input as the layer takes it: by node type for "hgt"."""
        return self.x_dict if self.layer == "hgt" else self.x

    @property
    def edges(self) -> tuple[Any, ...]:
        """What PyG's layer takes after its input."""
        if self.layer == "hgt":
            return (self.edge_index_dict,)
        types = () if self.layer in HOMOGENEOUS else (self.edge_type,)
        return self.edge_index, *types

    @cached_property
    def upstream(self) -> Tensor:
        """Gradient of the output [N, width], signed; zero where no output is defined."""
        generator = torch.Generator().manual_seed(self.seed + 2)
        rows = torch.randn(self.graph.num_nodes, self.width, generator=generator)
        return (rows * self.compared_rows.cpu().unsqueeze(1)).to(self.graph.device, self.dtype)

    def make_inputs(self) -> None:
        """What is there for all candidates: making it is nobody's preprocessing."""
        for name in ("conv", "x", "edge_index", "edge_type"):
            getattr(self, name)
        if self.layer == "hgt":
            _ = self.x_dict, self.edge_index_dict

    @cached_property
    def compared_rows(self) -> Tensor:
        """Mask of the nodes whose output is defined: PyG's HGT answers only for types that
        relations lead to."""
        ntype = self.graph.ntype.long()
        mask = torch.ones_like(ntype, dtype=torch.bool)
        if self.layer == "hgt":
            reached = {triple[2] for triple in self.graph.canonical_etypes}
            known = [name in reached for name in self.graph.ntype_names]
            mask = torch.tensor(known, device=ntype.device)[ntype]
        return mask

    def flatten(self, output: Tensor | dict[str, Tensor]) -> Tensor:
        """Output of any candidate as [N, width]; zero where a node type has none."""
        if isinstance(output, Tensor):
            return output
        flat = self.x.new_zeros(self.graph.num_nodes, self.width)
        bounds = self.graph.node_offsets
        for t, name in enumerate(self.graph.ntype_names):
            if output.get(name) is not None:
                flat[bounds[t] : bounds[t + 1]] = output[name]
        return flat


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way of computing the layer.

    Args:
        name: "family/form", e.g. "pyg/RGCNConv".
        layer: Which layer it computes.
        build: Preprocesses (timed apart) and returns the call to time.
        compiled: Built by torch.compile: runs only when asked for.
        model: "full", or "no-bias-no-gelu" where the peer's layer is a lighter one; it is then
            held to the reference of that lighter model.
        precision: Of its products: "ieee" (float32), or "bf16" where it rounds operands.
        by_name: Runs only when asked for by its whole name.
    """

    name: str
    layer: Layer
    build: Callable[[Problem], Callable[[], Any]] = field(compare=False)
    compiled: bool = False
    model: str = "full"
    precision: str = "ieee"
    by_name: bool = False

    @property
    def family(self) -> str:
        """What the name starts with: pyg, dgl, expert or hetune."""
        return self.name.partition("/")[0]

"""`hetune.nn`: relational layers as torch modules.

Uncompiled they run on the interpreter: correct on any device, differentiable, and slow.
`hetune.compile` runs them fast.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter, Metadata, as_rows
from hetune.variants.frontend.call import Call
from hetune.variants.frontend.calls import LayerCall
from hetune.variants.frontend.layer_arguments import check_sizes, checked_metadata
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.frontend.type_order import order_of
from hetune.variants.graph import CanonicalEtype, HeteroGraph
from hetune.variants.program.interpret import interpret_results
from hetune.variants.program.nodes import Program

EdgeIndexDict = Mapping[CanonicalEtype, Tensor]


class RelationalLayer(nn.Module, ABC):
    """A module that can say what it computes.

    Attributes:
        kind: What such layers are called: a name of `hetune.variants.frontend.presets`.
        in_channels: Width of the input rows.
        out_channels: Width of the result, or of each of RGAT's heads.
        num_relations: Number of edge types.
        options: The keyword arguments that it was made with, defaults included.
        metadata: Node types and canonical edge types that it was made for, where it was.
    """

    kind: str
    in_channels: int
    out_channels: int
    num_relations: int
    options: dict[str, Any]
    metadata: Metadata | None = None
    _program: Program

    def program(self) -> Program:
        """What the module computes."""
        return self._program

    @abstractmethod
    def _parts(self) -> dict[str, Tensor]:
        """The program's weights by name, in any shape that `as_rows` can view."""

    def weights(self) -> dict[str, Tensor]:
        """The program's weights, ``[types, *row shape]``, differentiable."""
        return as_rows(self.program(), self._parts())

    def adapter(self) -> Adapter:
        """What `hetune.compile` needs to know of the module."""
        program, relations = self.program(), self.num_relations
        return Adapter(self, program, self.weights, relations, metadata=self.metadata)

    def _run(self, adapter: Adapter, call: Call) -> Any:
        graph = call.graph()
        inputs = call.inputs(graph)
        weights = order_of(adapter, call.edges).weights(adapter.program, self.weights())
        if torch.is_autocast_enabled(graph.device.type):  # as operators before it have left them
            dtype = next(iter(weights.values())).dtype
            inputs = {name: rows.to(dtype) for name, rows in inputs.items()}
        for param in adapter.inputs:
            inputs[param.name] = inputs[param.name].view(-1, *param.type.shape)
        results = interpret_results(adapter.program, {**weights, **inputs}, graph)
        return call.result(graph, results)


class FlatLayer(RelationalLayer):
    """Called with one tensor of nodes and typed edges."""

    def forward(
        self, x: Tensor, edges: HeteroGraph | Tensor, edge_type: Tensor | None = None
    ) -> Tensor:
        """Runs the layer.

        Args:
            x: Node features, float [N, in_channels].
            edges: A graph, or an `edge_index` of shape [2, E].
            edge_type: Type of each edge [E], with an `edge_index`.

        Returns:
            Float [N, out_channels], times the heads where there are several.

        Raises:
            InputError: A shape does not fit.
            GraphError: The edges are no graph.
        """
        adapter = self.adapter()
        if isinstance(edges, HeteroGraph):
            call = LayerCall(adapter, x, edges)
        elif edge_type is not None:
            call = LayerCall(adapter, x, (edges, edge_type))
        else:
            raise InputError("edge_type is missing: give a type for each edge, or a HeteroGraph")
        out: Tensor = self._run(adapter, call)
        return out


class RGCN(FlatLayer):
    """Relational graph convolution (Schlichtkrull et al. 2018).

    ``out_i = sum_r sum_{j in N_r(i)} W_r x_j / |N_r(i)| + W_0 x_i + b``

    Args:
        in_channels: Width of x.
        out_channels: Width of the result.
        num_relations: Number of edge types.
        aggr: "mean" of each relation's messages, or "add".
        num_bases: Weights are mixed from that many bases.
        num_blocks: Weights are block-diagonal with that many blocks.
        self_loop: Adds ``W_0 x_i``.
        bias: Adds ``b``.
        residual: Adds ``x_i``; widths must be equal.
    """

    kind = "rgcn"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        *,
        aggr: str = "mean",
        num_bases: int | None = None,
        num_blocks: int | None = None,
        self_loop: bool = True,
        bias: bool = True,
        residual: bool = False,
    ) -> None:
        super().__init__()
        if num_bases is not None and num_blocks is not None:
            raise InputError("give num_bases or num_blocks, not both")
        check_sizes(
            in_channels=in_channels,
            out_channels=out_channels,
            num_bases=num_bases,
            num_blocks=num_blocks,
        )
        check_sizes(0, num_relations=num_relations)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.num_relations = num_relations
        self.options = {
            "aggr": aggr,
            "num_bases": num_bases,
            "num_blocks": num_blocks,
            "self_loop": self_loop,
            "bias": bias,
            "residual": residual,
        }
        self._program = rgcn_program(
            in_channels, out_channels, aggr, self_loop, bias, num_blocks or 0, residual
        )
        blocks = num_blocks or 1
        whole = (in_channels, out_channels)
        block = (blocks, in_channels // blocks, out_channels // blocks)
        self.weight = _empty(num_bases or num_relations, *(block if num_blocks else whole))
        self.comp = _empty(num_relations, num_bases) if num_bases else None
        self.root = _empty(*whole) if self_loop else None
        self.bias = _empty(out_channels) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weights by Glorot's rule; the bias is 0."""
        _glorot(self.weight, self.comp, self.root)
        _fill(0.0, self.bias)

    def _parts(self) -> dict[str, Tensor]:
        return _present(w=_mixed(self.comp, self.weight), root=self.root, bias=self.bias)


class RGAT(FlatLayer):
    """Relational graph attention (Busbridge et al. 2019), additive, with several heads.

    ``out_i = sum_e alpha_e W_r x_j + W_0 x_i + b`` over the edges e from j to i of type r, with
    ``alpha = softmax(leaky_relu(q_r . W_r x_i + k_r . W_r x_j))``.

    Args:
        in_channels: Width of x.
        out_channels: Width of each head; the result has ``heads * out_channels``.
        num_relations: Number of edge types.
        heads: Number of heads.
        softmax: "across" all incoming edges of a node, or "within" each relation.
        attention: "per_head": a head's vectors meet its own rows; "shared": those of all heads.
        relation_attention: Attention vectors for each relation, not shared by all.
        negative_slope: Of the leaky ReLU.
        num_bases: Weights are mixed from that many bases.
        self_loop: Adds ``W_0 x_i``.
        bias: Adds ``b``.
        residual: Adds ``x_i``; widths must be equal.
    """

    kind = "rgat"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        *,
        heads: int = 1,
        softmax: str = "across",
        attention: str = "per_head",
        relation_attention: bool = False,
        negative_slope: float = 0.2,
        num_bases: int | None = None,
        self_loop: bool = False,
        bias: bool = True,
        residual: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(
            in_channels=in_channels, out_channels=out_channels, heads=heads, num_bases=num_bases
        )
        check_sizes(0, num_relations=num_relations)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.num_relations, self.heads = num_relations, heads
        self.options = {
            "heads": heads,
            "softmax": softmax,
            "attention": attention,
            "relation_attention": relation_attention,
            "negative_slope": negative_slope,
            "num_bases": num_bases,
            "self_loop": self_loop,
            "bias": bias,
            "residual": residual,
        }
        self._program = rgat_program(
            in_channels,
            out_channels,
            heads,
            softmax=softmax,
            slope=negative_slope,
            bias=bias,
            attention=attention,
            vectors="etype" if relation_attention else "shared",
            root=self_loop,
            residual=residual,
        )
        width = heads * out_channels
        vectors = (heads, width if attention == "shared" else out_channels)
        rows = num_relations if relation_attention else 1
        self.weight = _empty(num_bases or num_relations, in_channels, width)
        self.comp = _empty(num_relations, num_bases) if num_bases else None
        self.att_q = _empty(rows, *vectors)
        self.att_k = _empty(rows, *vectors)
        self.root = _empty(in_channels, width) if self_loop else None
        self.bias = _empty(width) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weights by Glorot's rule; the bias is 0."""
        _glorot(self.weight, self.comp, self.att_q, self.att_k, self.root)
        _fill(0.0, self.bias)

    def _parts(self) -> dict[str, Tensor]:
        weight = _mixed(self.comp, self.weight)
        return _present(
            w=weight,
            w_flat=weight,
            att_q=self.att_q,
            att_k=self.att_k,
            root=self.root,
            bias=self.bias,
        )


class HGT(RelationalLayer):
    """Heterogeneous graph transformer (Hu et al. 2020), as PyG's `HGTConv` has it.

    Where the widths are equal, a learned gate for each node type mixes the result with x.

    Args:
        in_channels: Width of x, the same for all node types.
        out_channels: Width of the result, a multiple of `heads`.
        metadata: Node types and canonical edge types, as `HeteroGraph.metadata()` gives them.
        heads: Number of heads.
    """

    kind = "hgt"
    metadata: tuple[list[str], list[CanonicalEtype]]

    def __init__(
        self, in_channels: int, out_channels: int, metadata: Metadata, heads: int = 1
    ) -> None:
        super().__init__()
        check_sizes(in_channels=in_channels, out_channels=out_channels, heads=heads)
        self.in_channels, self.out_channels, self.heads = in_channels, out_channels, heads
        self.metadata = ntypes, etypes = checked_metadata(metadata)
        self.num_relations = len(etypes)
        self.options = {"heads": heads}
        self._program = hgt_program(in_channels, out_channels, heads)
        types, depth = len(ntypes), out_channels // heads
        self.kqv_weight = _empty(3, types, in_channels, out_channels)
        self.kqv_bias = _empty(3, types, out_channels)
        self.a_rel = _empty(self.num_relations, heads, depth, depth)
        self.m_rel = _empty(self.num_relations, heads, depth, depth)
        self.p_rel = _empty(self.num_relations, heads)
        self.out_weight = _empty(types, out_channels, out_channels)
        self.out_bias = _empty(types, out_channels)
        self.skip = _empty(types) if in_channels == out_channels else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weights by Glorot's rule; biases are 0, gates and priors 1."""
        _glorot(self.kqv_weight, self.a_rel, self.m_rel, self.out_weight)
        _fill(0.0, self.kqv_bias, self.out_bias)
        _fill(1.0, self.p_rel, self.skip)

    def _parts(self) -> dict[str, Tensor]:
        found = {f"w_{part}": w for part, w in zip("kqv", self.kqv_weight, strict=True)}
        found |= {f"b_{part}": b for part, b in zip("kqv", self.kqv_bias, strict=True)}
        return found | _present(
            a_rel=self.a_rel,
            m_rel=self.m_rel,
            p_rel=self.p_rel,
            w_out=self.out_weight,
            b_out=self.out_bias,
            skip=self.skip,
        )

    def forward(
        self, x: Mapping[str, Tensor] | Tensor, edges: HeteroGraph | EdgeIndexDict
    ) -> dict[str, Tensor] | Tensor:
        """Runs the layer.

        Args:
            x: Features of each node type, float [N_t, in_channels]; or of all nodes [N, ...] in
                the graph's order.
            edges: A graph of the layer's metadata, or an `edge_index` [2, E_r] for each of the
                edge types.

        Returns:
            Float [N_t, out_channels] for each node type that edge types lead to; or
            [N, out_channels] for a tensor.

        Raises:
            InputError: A shape or type does not fit.
            GraphError: The edges are no graph.
        """
        if isinstance(x, Tensor) and not isinstance(edges, HeteroGraph):
            raise InputError("x is a tensor but the edges are a dictionary: give a HeteroGraph")
        adapter = self.adapter()
        out: Tensor | dict[str, Tensor] = self._run(adapter, LayerCall(adapter, x, edges))
        return out


def _empty(*shape: int) -> Parameter:
    return Parameter(torch.empty(shape))


def _mixed(comp: Tensor | None, weight: Tensor) -> Tensor:
    """Weights of the relations, from the bases [B, K, D] and their shares [R, B]."""
    return weight if comp is None else torch.einsum("rb,bkd->rkd", comp, weight)


def _present(**found: Tensor | None) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _glorot(*weights: Tensor | None) -> None:
    """Glorot and Bengio 2010, over the last two axes."""
    for weight in weights:
        if weight is not None:
            bound = math.sqrt(6 / (weight.shape[-2] + weight.shape[-1]))
            nn.init.uniform_(weight, -bound, bound)


def _fill(value: float, *parameters: Tensor | None) -> None:
    for parameter in parameters:
        if parameter is not None:
            nn.init.constant_(parameter, value)

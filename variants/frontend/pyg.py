"""PyTorch Geometric's relational layers, without importing it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapter import (
    Adapter,
    Arguments,
    Unsupported,
    as_rows,
    refusal,
)
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.frontend.pyg_lazy import is_uninitialized
from hetune.variants.frontend.pyg_node_ids import adapt_ids, are_ids
from hetune.variants.frontend.pyg_order import order_refusal
from hetune.variants.frontend.pyg_segments import averages_all_edges, is_installed
from hetune.variants.frontend.tracing.arguments import are_near, of_one_width
from hetune.variants.graph.hetero import HeteroGraph

_PACKAGE = "torch_geometric.nn.conv."


def adapt(module: nn.Module, call: Arguments | None = None) -> Adapter | Unsupported:
    """The adapter of a `RGCNConv`, `FastRGCNConv`, `RGATConv` or `HGTConv`.

    Subclasses are not taken: they may compute something else. Options that no adapter is for need
    a call: they may be traced.

    Args:
        module: The layer.
        call: What it is called with, if it is: RGCN's takes numbers of nodes, too.
    """
    kind = type(module)
    builder = _BUILDERS.get(kind.__name__)
    if builder is None or not kind.__module__.startswith(_PACKAGE):
        unknown = f"modules of type {kind.__module__}.{kind.__name__} are not supported"
        return Unsupported(unknown, is_layer=False)
    reason = _general_refusal(module) or refusal(module)
    found = Unsupported(reason) if reason else builder(module)
    if isinstance(found, Unsupported):
        return found if reason else replace(found, needs_call=True)
    if call is None or not found.takes_ids:
        return found
    args, kwargs = call
    is_given = bool(args) or "x" in kwargs
    takes_ids = is_given and are_ids(args[0] if args else kwargs["x"])
    return adapt_ids(found, _aggregation(module)) if takes_ids else found


def _general_refusal(module: Any) -> str | None:
    if is_uninitialized(module):
        return "lazy parameters are not initialized yet: call the module once"
    if module.decomposed_layers != 1:
        return f"decomposed_layers={module.decomposed_layers}"
    for part in module.modules():
        kind = type(part)
        if not kind.__module__.startswith(("torch_geometric.", "torch.nn.modules.")):
            return f"it has a part of type {kind.__module__}.{kind.__name__}"
    return None


def _adapt_rgcn(module: Any) -> Adapter | Unsupported:
    aggr = _aggregation(module)
    if not aggr:
        return Unsupported(f"aggr={module.aggr!r}: 'add' and 'mean' are supported")
    kind = "MeanAggregation" if aggr == "mean" else "SumAggregation"
    if found := _another_part(module, {"aggr_module": kind}):
        return found
    widths = module.in_channels
    if not isinstance(widths, int):
        if widths[0] != widths[1]:
            return Unsupported(f"in_channels={widths}: source and destination widths differ")
        widths = widths[0]
    if found := _zero_width(in_channels=widths, out_channels=module.out_channels):
        return found
    blocks = module.num_blocks or 0
    has_root, has_bias = module.root is not None, module.bias is not None
    program = rgcn_program(widths, module.out_channels, aggr, has_root, has_bias, blocks)

    def weights() -> dict[str, Tensor]:
        weight = module.weight
        if module.num_bases is not None:
            weight = torch.einsum("rb,bkd->rkd", module.comp, weight)
        found = {"w": weight}
        if has_root:
            found["root"] = module.root
        if has_bias:
            found["bias"] = module.bias
        return as_rows(program, found)

    return Adapter(
        module,
        program,
        weights,
        module.num_relations,
        is_reversed=module.flow == "target_to_source",
        graph_refusal=_mean_of_all_edges if _may_average_all_edges(module, aggr) else None,
        takes_ids=type(module).__name__ == "RGCNConv" and not blocks,
        traces_others=True,
    )


def _aggregation(module: Any) -> str:
    """Whether it is "mean" or "add"; "" for others."""
    return {"mean": "mean", "add": "add", "sum": "add"}.get(str(module.aggr), "")


def _may_average_all_edges(module: Any, aggr: str) -> bool:
    is_whole = module.num_bases is None and module.num_blocks is None and is_installed()
    return type(module).__name__ == "RGCNConv" and aggr == "mean" and is_whole


def _mean_of_all_edges(module: Any, graph: HeteroGraph) -> str | None:
    if not averages_all_edges(module, graph):
        return None
    return (
        "with pyg-lib, PyG takes aggr='mean' over the edges of all relations on such a graph, not "
        "of each: set torch_geometric.backend.use_segment_matmul = False for that of each, compiled"
    )


def _adapt_rgat(module: Any) -> Adapter | Unsupported:
    if module.attention_mode != "additive-self-attention":
        return Unsupported(f"attention_mode={module.attention_mode!r}")
    if module.mod is not None:
        return Unsupported(f"mod={module.mod!r}")
    if module.dim != 1:
        return Unsupported(f"dim={module.dim}")
    if module.edge_dim is not None:
        return Unsupported(f"edge_dim={module.edge_dim}: edge features are not supported")
    if str(module.aggr) not in ("add", "sum"):
        return Unsupported(f"aggr={module.aggr!r}: only 'add' is supported")
    if found := _another_part(module, {"aggr_module": "SumAggregation"}):
        return found
    if not math.isfinite(module.negative_slope):
        return Unsupported(f"negative_slope={module.negative_slope}")
    heads, width = module.heads, module.out_channels
    if found := _zero_width(in_channels=module.in_channels, out_channels=width):
        return found
    if not module.concat and heads > 1:
        return Unsupported(f"concat=False with heads={heads}")
    within = module.attention_mechanism == "within-relation"
    has_bias = module.bias is not None

    def dropout() -> float:
        return float(module.dropout) if module.training else 0.0

    share = dropout()
    if share > 1:
        return Unsupported(f"dropout={share}")
    program = rgat_program(
        module.in_channels,
        width,
        heads,
        softmax="within" if within else "across",
        slope=module.negative_slope,
        bias=has_bias,
        mask=share > 0,
    )

    def weights() -> dict[str, Tensor]:
        if module.num_bases is not None:
            weight = torch.einsum("rb,bkd->rkd", module.att, module.basis)
        elif module.num_blocks is not None:
            weight = _block_diagonal(module.weight)
        else:
            weight = module.weight
        found = {"w": weight, "w_flat": weight, "att_q": module.q.t(), "att_k": module.k.t()}
        if has_bias:
            found["bias"] = module.bias
        return as_rows(program, found)

    return Adapter(
        module,
        program,
        weights,
        module.num_relations,
        is_reversed=module.flow == "target_to_source",
        takes_matrices=module.flow == "source_to_target",
        traces_others=True,
        dropout={"mask": share} if share > 0 else {},
        mode=dropout,
    )


def _adapt_hgt(module: Any) -> Adapter | Unsupported:
    if module.flow != "source_to_target":
        return Unsupported(f"flow={module.flow!r}")
    if found := _another_part(module, _HGT_PARTS):
        return found
    node_types, edge_types = list(module.node_types), [tuple(t) for t in module.edge_types]
    if missing := [name for name in node_types if name not in module.kqv_lin.lins]:
        return Unsupported(f"in_channels has no width for the node types {', '.join(missing)}")
    lins = [f"{part}.lins.{name}" for part in ("kqv_lin", "out_lin") for name in node_types]
    if found := _another_part(module, dict.fromkeys(lins, "Linear")):
        return found
    for name, has_bias in {**dict.fromkeys(lins, True), "k_rel": False, "v_rel": False}.items():
        if (module.get_submodule(name).bias is not None) != has_bias:
            return Unsupported(f"{name} has {'no bias: give it one' if has_bias else 'a bias'}")
    inputs = [module.kqv_lin.lins[name] for name in node_types]
    outputs = [module.out_lin.lins[name] for name in node_types]
    widths = {name: lin.weight.shape[1] for name, lin in zip(node_types, inputs, strict=True)}
    if not edge_types:
        return Unsupported("metadata has no edge types")
    d_in, d_out, heads = max(widths.values()), module.out_channels, module.heads
    is_skip_padded = d_in > d_out and d_out in widths.values()
    if not are_near([*widths.values()]) or is_skip_padded:
        return Unsupported(f"in_channels={widths}: widths differ much between node types")
    if found := _zero_width(in_channels=d_in, out_channels=d_out):
        return found
    depth = d_out // heads
    program = hgt_program(d_in, d_out, heads)
    has_skip = any(param.name == "skip" for param in program.params)

    def per_relation(linear: Any) -> Tensor:
        # One weight per (head, relation), heads outermost.
        weight: Tensor = linear.weight
        return weight.view(heads, len(edge_types), depth, depth).transpose(0, 1)

    def weights() -> dict[str, Tensor]:
        # Linear keeps [out, in]; k, q and v lie one after the other in out.
        each = of_one_width([lin.weight for lin in inputs], d_in)
        kqv = torch.stack(each).transpose(1, 2)
        kqv_bias = torch.stack([lin.bias for lin in inputs])
        found: dict[str, Tensor] = {}
        for i, part in enumerate("kqv"):
            found[f"w_{part}"] = kqv[:, :, i * d_out : (i + 1) * d_out]
            found[f"b_{part}"] = kqv_bias[:, i * d_out : (i + 1) * d_out]
        found["a_rel"] = per_relation(module.k_rel)
        found["m_rel"] = per_relation(module.v_rel)
        found["p_rel"] = torch.cat([module.p_rel["__".join(key)] for key in edge_types])
        found["w_out"] = torch.stack([lin.weight for lin in outputs]).transpose(1, 2)
        found["b_out"] = torch.stack([lin.bias for lin in outputs])
        if has_skip:
            skip = torch.cat([module.skip[name] for name in node_types])
            are_kept = [widths[name] == d_out for name in node_types]
            is_kept = torch.tensor(are_kept, device=skip.device)
            found["skip"] = torch.where(is_kept, skip, _NO_SKIP)
        return as_rows(program, found)

    return Adapter(
        module,
        program,
        weights,
        len(edge_types),
        metadata=(node_types, edge_types),
        widths=widths if len({*widths.values()}) > 1 else None,
        order_refusal=order_refusal,
        takes_matrices=True,
    )


_NO_SKIP = 100.0
"""A gate that keeps nothing of the features: its sigmoid is 1."""
_HGT_PARTS = {
    "aggr_module": "SumAggregation",
    "kqv_lin": "HeteroDictLinear",
    "out_lin": "HeteroDictLinear",
    "k_rel": "HeteroLinear",
    "v_rel": "HeteroLinear",
}


def _another_part(module: nn.Module, kinds: Mapping[str, str]) -> Unsupported | None:
    parts = dict(module.named_modules(remove_duplicate=False))
    for name, kind in kinds.items():
        found = type(parts.get(name)).__name__
        if found != kind:
            return Unsupported(f"{name} is a {found}: only a {kind} is supported")
    return None


def _zero_width(**widths: int) -> Unsupported | None:
    for name, width in widths.items():
        if width < 1:
            return Unsupported(f"{name}={width}: widths of at least 1 are supported")
    return None


def _block_diagonal(blocks: Tensor) -> Tensor:
    """[R, B, k, d] as [R, B * k, B * d], zero outside the blocks."""
    eye = torch.eye(blocks.shape[1], dtype=blocks.dtype, device=blocks.device)
    whole = torch.einsum("rbkd,bc->rbkcd", blocks, eye)
    return whole.flatten(3).flatten(1, 2)


_BUILDERS: dict[str, Callable[[Any], Adapter | Unsupported]] = {
    "RGCNConv": _adapt_rgcn,
    "FastRGCNConv": _adapt_rgcn,
    "RGATConv": _adapt_rgat,
    "HGTConv": _adapt_hgt,
}

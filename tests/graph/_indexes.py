"""All that an index has, for tests that compare two of them."""

import pytest
import torch

from hetune.variants.graph import index_native
from hetune.variants.graph.cuts import block_order, node_blocks, row_groups
from hetune.variants.graph.index import GraphIndex

from . import _index_numpy

ARRAYS = [
    *("edge_id", "position", "src", "dst", "etype", "indptr", "in_degree"),
    *("csc_indptr", "node_dst_pair_indptr", "src_pair_etype_ptr"),
    *("dst_pair_of_edge", "dst_pair_indptr", "dst_pair_node", "dst_pair_etype", "dst_pair_count"),
    *("src_pair_of_edge", "src_pair_node", "src_pair_etype"),
]


def everything(index: GraphIndex) -> dict[str, torch.Tensor]:
    built = {name: getattr(index, name) for name in ARRAYS}
    for block_nodes in (1, 7, 64):
        built[f"node_blocks({block_nodes})"] = node_blocks(index, block_nodes)
        built[f"block_order({block_nodes})"] = block_order(index, block_nodes)
    for space in ("edge", "dst_pair", "src_pair"):
        for block_nodes in (None, 7, 64) if space in ("edge", "dst_pair") else (None,):
            groups = row_groups(index, space, block_nodes)
            for part in ("rows", "group_ptr", "group_etype", "block_ptr"):
                built[f"{space}({block_nodes}).{part}"] = getattr(groups, part)
    stats = index.relation_stats
    for part in ("edges", "src_pairs", "dst_pairs"):
        built[f"stats.{part}"] = torch.from_numpy(getattr(stats, part))
    return built


def assert_same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        assert torch.equal(a[name], b[name]), name


def by_numpy(patch: pytest.MonkeyPatch) -> None:
    """Lets NumPy do what native routines do."""
    for name, routine in vars(_index_numpy).items():
        if callable(routine) and not name.startswith("_"):
            patch.setattr(index_native, name, routine)
    step_by_step(patch)


def step_by_step(patch: pytest.MonkeyPatch) -> None:
    """Lets small graphs be indexed as large ones are."""
    patch.setattr(GraphIndex, "small", lambda self, groups=0: None)

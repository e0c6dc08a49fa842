"""The bound on what the interpreter holds, beside what it does."""

import weakref

import pytest
import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

import hetune
from hetune import nn
from hetune.variants.program.interpreter_memory import interpreter_bytes

GRAPH = hetune.generate("aifb", 0.2, seed=0)
TYPES = GRAPH.num_etypes


class HeldMemory(TorchDispatchMode):
    """Adds up the memory of tensors that are made, as long as they live."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self._known = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for leaf in _pytree.tree_leaves(found):
            if isinstance(leaf, torch.Tensor):
                self._add(leaf.untyped_storage())
        self.most = max(self.most, self.now)
        return found

    def _add(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.now += size
            weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key, size):
        self._known.discard(key)
        self.now -= size


def layers(width):
    yield nn.RGCN(width, width, TYPES)
    yield nn.RGCN(width, width, TYPES, num_bases=4, aggr="add")
    yield nn.RGCN(width, width, TYPES, num_blocks=4, residual=True)
    yield nn.RGAT(width, width // 4, TYPES, heads=4)
    yield nn.RGAT(width, width, TYPES, softmax="within", attention="shared", self_loop=True)
    yield nn.HGT(width, width, GRAPH.metadata(), heads=4)


@pytest.mark.parametrize("width", [4, 64])
@pytest.mark.parametrize("number", range(6))
def test_it_is_a_bound_and_no_wild_one(number, width):
    layer = list(layers(width))[number].requires_grad_(False)
    x = torch.randn(GRAPH.num_nodes, width)
    with HeldMemory() as held:
        layer(x, GRAPH)
    assert held.most <= interpreter_bytes(layer.program(), GRAPH) <= 3 * held.most

"""Relational layers as torch modules: `RGCN`, `RGAT`, `HGT`."""

from hetune.variants.frontend.from_pyg import from_pyg
from hetune.variants.frontend.nn import HGT, RGAT, RGCN

__all__ = ["HGT", "RGAT", "RGCN", "from_pyg"]

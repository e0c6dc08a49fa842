"""Relational layers as torch modules: `RGCN`, `RGAT`, `HGT`."""

from hetune.variants.frontend.nn import HGT, RGAT, RGCN

__all__ = ["HGT", "RGAT", "RGCN"]

"""Programs of the layers of `hetune.nn` in their options, for tests of backends and passes."""

from __future__ import annotations

from types import MappingProxyType

from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.program.nodes import Program

LAYER_PROGRAMS: MappingProxyType[str, Program] = MappingProxyType(
    {
        "rgcn add": rgcn_program(6, 4, "add"),
        "rgcn mean": rgcn_program(6, 4, "mean"),
        "rgcn mean, nothing else": rgcn_program(6, 4, "mean", root=False, bias=False),
        "rgcn, blocks": rgcn_program(6, 4, "mean", blocks=2),
        "rgcn, residual": rgcn_program(5, 5, "add", residual=True),
        "rgat across": rgat_program(6, 4),
        "rgat within": rgat_program(6, 4, softmax="within"),
        "rgat, 2 heads": rgat_program(6, 4, 2),
        "rgat, 2 heads of their own": rgat_program(6, 4, 2, attention="per_head"),
        "rgat, vectors per relation": rgat_program(6, 4, 2, vectors="etype", softmax="within"),
        "rgat, root and residual": rgat_program(8, 4, 2, root=True, residual=True),
        "hgt": hgt_program(6, 6),
        "hgt, 2 heads": hgt_program(6, 6, 2),
        "hgt, no skip": hgt_program(6, 8, 2),
    }
)
"""By name."""

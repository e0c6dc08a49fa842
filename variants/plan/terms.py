"""What a node value is a sum of, and how each part gets into the sum's buffer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from hetune.variants.passes.product import MultiplyChain, multiply_chain
from hetune.variants.plan.context import Context
from hetune.variants.program.nodes import Linear, Map, Reduce, Reshape, Space


class TermKind(IntEnum):
    """How a term joins the sum; the order in which kernels are emitted."""

    PRODUCT = 0
    """A linear map of node rows: its kernel can start the buffer."""
    EDGES = 1
    """A sum over edges: a traversal that stores or accumulates."""
    PAIRS = 2
    """A sum over dst_pairs of a linear map: a product that scatters into the buffer."""
    VALUE = 3
    """Anything else, added in passing."""


@dataclass(frozen=True, slots=True)
class SumTerm:
    """One term; ``rows`` is the summed edge or pair value of ``EDGES`` and ``PAIRS``."""

    name: str
    kind: TermKind
    rows: str = ""

    @property
    def accumulates(self) -> bool:
        """Whether a kernel of its own brings the term in."""
        return self.kind is not TermKind.VALUE


def terms_of(lowering: Context, name: str) -> list[SumTerm]:
    """The terms of a node value: a chain of additions taken apart."""
    return _split(lowering, name, root=True)


def _split(lowering: Context, name: str, *, root: bool = False) -> list[SumTerm]:
    if not root and (name not in lowering.ops or not lowering.only_user(name)):
        return [SumTerm(name, TermKind.VALUE)]
    match lowering.ops[name]:
        case Map(fn="add", args=args) if lowering.types[name].space is Space.NODE:
            shape = lowering.types[name].shape
            if all(lowering.types[a].shape == shape for a in args):
                return [term for a in args for term in _split(lowering, a)]
        case Reshape(x=x):
            inner = _split(lowering, x)
            if all(term.accumulates for term in inner):
                return inner
        case Linear() if lowering.types[name].space is Space.NODE and not root:
            return [SumTerm(name, TermKind.PRODUCT)]
        case Reduce(x=x, space=Space.NODE, fn="sum"):
            if lowering.types[x].space is Space.EDGE:
                return [SumTerm(name, TermKind.EDGES, x)]
            chain = multiply_chain(lowering.ops, lowering.types, x)
            if lowering.scatters and _is_scaled_product(lowering, chain):
                return [SumTerm(name, TermKind.PAIRS, x)]
            return [SumTerm(name, TermKind.EDGES, x)]
    return [SumTerm(name, TermKind.VALUE)]


def _is_scaled_product(lowering: Context, chain: MultiplyChain) -> bool:
    """Whether a product's kernel makes these pair rows, with a scale for each row or head."""
    op = lowering.ops.get(chain.core)
    if not isinstance(op, Linear) or len(chain.factors) > 1:
        return False
    heads = lowering.types[op.x].shape[:-1]
    scales = [lowering.types[factor] for factor in chain.factors]
    return all(s.space is Space.DST_PAIR and s.shape in ((), heads) for s in scales)

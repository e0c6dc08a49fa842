"""Score functions of the literature, each of the rows of one triple. Larger is more plausible.

Where a model has several rows of an entity or a relation, these are a tuple; `p` is a norm's order.
Matrices are multiplied from the right, ``h @ m``.
"""

from __future__ import annotations

from types import FunctionType, MappingProxyType

import torch
from torch import Tensor
from torch.linalg import vector_norm

Pair = tuple[Tensor, Tensor]
Triple = tuple[Tensor, Tensor, Tensor]


def _norm(x: Tensor, p: int) -> Tensor:
    norm: Tensor = vector_norm(x, p)
    return norm


def um(h: Tensor, r: None, t: Tensor) -> Tensor:
    """Bordes et al. 2014, "A semantic matching energy function for learning with ...": UM."""
    return -(h - t).square().sum()


def transe(h: Tensor, r: Tensor, t: Tensor, p: int = 1) -> Tensor:
    """Bordes et al. 2013, "Translating embeddings for modeling multi-relational data"."""
    return -_norm(h + r - t, p)


def transh(h: Tensor, r: Pair, t: Tensor, p: int = 2) -> Tensor:
    """Wang et al. 2014, "Knowledge graph embedding by translating on hyperplanes".

    ``r`` is the hyperplane's normal vector and the translation.
    """
    normal, translation = r
    return -_norm(h - h @ normal * normal + translation - (t - t @ normal * normal), p)


def transr(h: Tensor, r: Pair, t: Tensor, p: int = 2) -> Tensor:
    """Lin et al. 2015, "Learning entity and relation embeddings for knowledge graph completion".

    ``r`` is the translation and the matrix.
    """
    translation, matrix = r
    return -_norm((h - t) @ matrix + translation, p)


def transd(h: Pair, r: Pair, t: Pair, p: int = 2) -> Tensor:
    """Ji et al. 2015, "Knowledge graph embedding via dynamic mapping matrix".

    Each is a vector and its projection's, all of one width.
    """
    relation, projection = r
    head, tail = (x + x @ own * projection for x, own in (h, t))
    return -_norm(head + relation - tail, p)


def transf(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """Feng et al. 2016, "Knowledge graph embedding by flexible translation"."""
    return (h + r) @ t + (t - r) @ h


def se(h: Tensor, r: Pair, t: Tensor, p: int = 1) -> Tensor:
    """Bordes et al. 2011, "Learning structured embeddings of knowledge bases": two matrices."""
    head, tail = r
    return -_norm(h @ head - t @ tail, p)


def rescal(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """Nickel et al. 2011, "A three-way model for collective learning on ...": a matrix."""
    return h @ r @ t


def distmult(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """Yang et al. 2015, "Embedding entities and relations for learning and inference ..."."""
    return (h * r * t).sum()


def cp(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """Hitchcock 1927, with other rows of tails than of heads (``tail=``)."""
    return (h * r * t).sum()


def simple(h: Pair, r: Pair, t: Pair) -> Tensor:
    """Kazemi and Poole 2018, "SimplE embedding for link prediction in knowledge graphs".

    Each is a vector for one direction and for the other.
    """
    return 0.5 * ((h[0] * r[0] * t[1]).sum() + (t[0] * r[1] * h[1]).sum())


def complex(h: Pair, r: Pair, t: Pair) -> Tensor:
    """Trouillon et al. 2016, "Complex embeddings for simple link prediction".

    Each is a real and an imaginary part.
    """
    real, imaginary = h[0] * r[0] - h[1] * r[1], h[0] * r[1] + h[1] * r[0]
    return (real * t[0]).sum() + (imaginary * t[1]).sum()


def rotate(h: Pair, r: Tensor, t: Pair) -> Tensor:
    """Sun et al. 2019, "RotatE: knowledge graph embedding by relational rotation ...".

    ``r`` are angles; entities are a real and an imaginary part.
    """
    cos, sin = r.cos(), r.sin()
    real, imaginary = h[0] * cos - h[1] * sin - t[0], h[0] * sin + h[1] * cos - t[1]
    return -_norm(torch.cat([real, imaginary]), 2)


def pairre(h: Tensor, r: Pair, t: Tensor, p: int = 1) -> Tensor:
    """Chao et al. 2021, "PairRE: knowledge graph embeddings via paired relation vectors"."""
    return -_norm(h * r[0] - t * r[1], p)


def triplere(h: Tensor, r: Triple, t: Tensor, u: float = 1.0, p: int = 1) -> Tensor:
    """Yu et al. 2021, "TripleRE": ``r`` is of heads, between, and of tails."""
    head, middle, tail = r
    return -_norm(h * (head + u) - t * (tail + u) + middle, p)


def lineare(h: Tensor, r: Triple, t: Tensor, p: int = 1) -> Tensor:
    """Peng and Zhang 2020, "LineaRE": ``r`` is of heads, between, and of tails."""
    head, middle, tail = r
    return -_norm(h * head - t * tail + middle, p)


def mure(h: Pair, r: Pair, t: Pair) -> Tensor:
    """Balazevic et al. 2019, "Multi-relational Poincare graph embeddings", in Euclidean space.

    Entities are a vector and a bias, ``r`` a translation and a diagonal.
    """
    translation, diagonal = r
    return h[1] + t[1] - (h[0] * diagonal + translation - t[0]).square().sum()


def distma(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """Shi et al. 2019, "DistMA": ``h . r + r . t + h . t``."""
    return h @ r + r @ t + h @ t


def crosse(h: Tensor, r: Pair, t: Tensor, bias: Tensor) -> Tensor:
    """Zhang et al. 2019, "Interaction embeddings for prediction and explanation ...".

    ``r`` is a vector and its interaction's; all triples share the bias.
    """
    head = r[1] * h
    return torch.tanh(head + r[0] * head + bias) @ t


def toruse(h: Tensor, r: Tensor, t: Tensor, p: int = 2) -> Tensor:
    """Ebisu and Ichise 2018, "TorusE: knowledge graph embedding on a Lie group"."""
    difference = h + r - t
    difference = difference - difference.floor()
    return -_norm(torch.minimum(difference, 1 - difference), p)


def hole(h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """Nickel et al. 2016, "Holographic embeddings of knowledge graphs": circular correlation."""
    spectrum = torch.fft.rfft(h).conj() * torch.fft.rfft(t)
    correlation: Tensor = torch.fft.irfft(spectrum, h.shape[-1])
    return (correlation * r).sum()


_FUNCTIONS: tuple[FunctionType, ...] = (
    um, transe, transh, transr, transd, transf, se, rescal, distmult, cp, simple, complex, rotate,
    pairre, triplere, lineare, mure, distma, crosse, toruse, hole,
)  # type: ignore[assignment]  # fmt: skip
FORMULAS = MappingProxyType({function.__name__: function for function in _FUNCTIONS})
"""By the model's name in small letters."""
SHARED = MappingProxyType({"crosse": ("bias",)})
"""Arguments that all triples share, by the same names."""

"""Products in split precision are as exact as float32: a model of what tensor cores do.

Triton's interpreter multiplies in float32 whatever the precision is.
"""

import numpy as np
import pytest

from hetune.variants.backends.triton.precision import PRECISIONS

LIMIT = 1e-5
K = 1024
"""Terms of a product: more than any layer has."""


def tf32(x: np.ndarray) -> np.ndarray:
    """The nearest number of 10 bits of fraction, ties to even."""
    bits = x.astype(np.float32).view(np.uint32)
    odd = (bits >> 13) & 1
    return ((bits + 0xFFF + odd) & np.uint32(0xFFFFE000)).view(np.float32)


def truncated(x: np.ndarray) -> np.ndarray:
    """What tensor cores do with float32 that is not rounded before: its lower bits are ignored."""
    return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A large part and what is left, as Triton splits operands (`F32DotTC`)."""
    large = tf32(x)
    return large, truncated(x - large)


def product(x: np.ndarray, w: np.ndarray, step: int) -> np.ndarray:
    """x @ w by three products of parts: `step` exact terms at a time are added up in float32."""
    (x1, x2), (w1, w2) = split(x), split(w)
    total = np.zeros((len(x), w.shape[1]), np.float32)
    for left, right in ((x2, w1), (x1, w2), (x1, w1)):
        for start in range(0, x.shape[1], step):
            terms = left[:, start : start + step].astype(np.float64)
            exact = terms @ right[start : start + step].astype(np.float64)
            # Tensor cores drop digits of sums, which float32 would round.
            total = toward_zero(total.astype(np.float64) + exact)
    return total


def toward_zero(x: np.ndarray) -> np.ndarray:
    """The next float32 that is no larger."""
    near = x.astype(np.float32)
    return np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, 0), near)


def operands(kind: str) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    if kind == "worst":
        # Their large part is off by half a unit, always in the same direction.
        near = np.float32(1 + 2.0**-11 - 2.0**-23)
        return np.full((4, K), near), np.full((K, 8), near)
    x, w = draw.standard_normal((32, K), np.float32), draw.standard_normal((K, 16), np.float32)
    return (x, w) if kind == "normal" else (np.abs(x), np.abs(w))


@pytest.mark.parametrize("step", [4, 8])
@pytest.mark.parametrize("kind", ["normal", "one sign", "worst"])
def test_split_products_are_within_the_limit(kind, step):
    x, w = operands(kind)
    exact = x.astype(np.float64) @ w.astype(np.float64)
    error = np.abs(product(x, w, step) - exact).max() / np.abs(exact).max()
    assert error < LIMIT
    assert np.abs(tf32(x) @ tf32(w) - exact).max() / np.abs(exact).max() > error


def test_parts_have_no_more_bits_than_tensor_cores_read():
    x, _ = operands("normal")
    large, small = split(x)
    for part in (large, small):
        assert (part.view(np.uint32) & 0x1FFF == 0).all()
    assert np.abs(x - large.astype(np.float64) - small).max() < 2.0**-20
    assert "tf32x3" in PRECISIONS

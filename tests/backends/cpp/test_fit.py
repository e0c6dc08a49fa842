"""Schedules are fitted to a CPU's vector registers, and code is made for what was fitted."""

from dataclasses import replace

import pytest

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.cpp.fit import fitted
from hetune.variants.backends.cpp.tiling import tilings
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.kernel.parse import parse
from hetune.variants.registry import Registry
from hetune.variants.registry.vectors import WIDEST, Vectors

AVX2, SSE, NEON = Vectors(8, 16), Vectors(4, 16), Vectors(4, 32)
PRODUCT = """
launch
  buffer x: node[48]
  buffer w: etype[48,{n}]
  buffer t: src_pair[{n}]
  gemm t[src_pair] = x[src] @ w heads=1 k=48 n={n}
"""


@pytest.mark.parametrize(
    ("schedule", "vectors", "expected"),
    [
        (Schedule(), WIDEST, Schedule()),
        (Schedule(), AVX2, Schedule(lanes=8, row_tile=6, col_vectors=2)),
        (Schedule(), SSE, Schedule(lanes=4, row_tile=6, col_vectors=2)),
        (Schedule(), NEON, Schedule(lanes=4)),
        (Schedule(lanes=4), WIDEST, Schedule(lanes=4)),
        (
            Schedule(row_tile=3, col_vectors=3, unroll=2),
            AVX2,
            Schedule(lanes=8, row_tile=3, col_vectors=3, unroll=2),
        ),
        (Schedule(block_nodes=64), AVX2, replace(fitted(Schedule(), AVX2), block_nodes=64)),
    ],
)
def test_fitted(schedule, vectors, expected):
    assert fitted(schedule, vectors) == expected
    assert fitted(expected, vectors) == expected


@pytest.mark.parametrize("vectors", [WIDEST, AVX2, SSE, NEON], ids=str)
@pytest.mark.parametrize("n", [1, 8, 16, 17, 32, 48, 63, 64, 128, 300])
def test_a_tile_is_held_in_registers(n, vectors):
    """The sums, and the two numbers that are multiplied."""
    gemm = parse(PRODUCT.format(n=n)).kernels[0]
    tiles = tilings(gemm, fitted(Schedule(), vectors))
    assert [*tiles] == sorted(tiles, reverse=True)
    assert all(rows * cut.vectors + 2 <= vectors.count for rows, cut in tiles.items())


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        (WIDEST, {5: 4, 4: 4, 3: 4, 2: 4, 1: 4}),
        (AVX2, {6: 2, 5: 2, 4: 2, 3: 4, 2: 4, 1: 8}),
        (NEON, {5: 4, 4: 4, 3: 4, 2: 4, 1: 8}),
    ],
    ids=str,
)
def test_tiles_of_few_rows_are_wider(vectors, expected):
    gemm = parse(PRODUCT.format(n=64)).kernels[0]
    tiles = tilings(gemm, fitted(Schedule(), vectors))
    assert {rows: cut.vectors for rows, cut in tiles.items()} == expected


@pytest.mark.parametrize("vectors", [AVX2, SSE, NEON], ids=str)
def test_no_vector_is_wider_than_a_register(tmp_path, vectors):
    backend = CppBackend(Registry(tmp_path), vectors)
    code = backend.source(parse(PRODUCT.format(n=64)), Schedule()).text.rpartition("namespace {")[2]
    used = {lanes for lanes in (4, 8, 16) if f"v{lanes} " in code}
    assert used == {vectors.lanes}


def test_the_compiler_of_the_registry_decides(tmp_path):
    registry = Registry(tmp_path)
    assert CppBackend(registry).vectors == registry.toolchain.vectors
    assert CppBackend(registry, SSE).vectors == SSE

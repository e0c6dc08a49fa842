"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real graphs; the test is skipped where there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HETUNE_DATA", beside))
    if not (folder / "graphs").is_dir():
        pytest.skip(f"no real graphs: set HETUNE_DATA, or put them in {beside}")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled kernels go to HETUNE_CACHE if CI sets it, else to a folder of this run."""
    os.environ.setdefault("HETUNE_CACHE", str(tmp_path_factory.mktemp("cache")))

"""Fixtures shared by all tests."""

import os
from collections.abc import Callable
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-goldens` writes what was made into the golden files; review the diff."""
    parser.addoption("--update-goldens", action="store_true", help="renew golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares text with a file in the folder `goldens` beside the test."""

    def check(name: str, text: str) -> None:
        path = request.path.parent / "goldens" / name
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no {path.name}: run pytest --update-goldens, and review it"
        assert text == path.read_text(encoding="utf-8"), (
            f"{path.name} has changed: run pytest --update-goldens, and review the diff"
        )

    return check

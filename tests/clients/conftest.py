"""The command line called in-process, with a registry of the test's own, on tiny graphs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from hetune.clients.cli.app import app
from hetune.variants.registry import Registry, override_default_registry

Hetune = Callable[..., Result]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """An empty registry, shared by a module's tests: every kernel is compiled once."""
    registry = Registry(tmp_path_factory.mktemp("kernels"))
    with override_default_registry(registry):
        yield registry


@pytest.fixture
def hetune(registry: Registry) -> Hetune:
    """Calls the command line; the result has exit_code, stdout and stderr."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


@pytest.fixture(scope="session")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 nodes of two types, 120 edges of three."""
    path = tmp_path_factory.mktemp("graphs") / "tiny.npz"
    rng = np.random.default_rng(0)
    np.savez(
        path,
        src=rng.integers(0, 30, 120),
        dst=rng.integers(0, 30, 120),
        etype=rng.integers(0, 3, 120),
        ntype=np.repeat([0, 1], 15),
        ntype_names=np.array(["author", "paper"]),
    )
    return path

"""What most tests of the service need."""

from collections.abc import Iterator

import httpx
import pytest
import torch

import hetune
from hetune.service.core.service import Service
from hetune.service.server.app import application

from ._serving import asking, make_service, tiny_features, tiny_graph, tiny_layers


@pytest.fixture(scope="session")
def graph() -> hetune.HeteroGraph:
    """7 nodes of two types, 9 edges of two types."""
    return tiny_graph()


@pytest.fixture(scope="session")
def layers() -> list[torch.nn.Module]:
    """Two layers with an activation between them."""
    return tiny_layers()


@pytest.fixture(scope="session")
def x() -> torch.Tensor:
    """Features, [7, 4]."""
    return tiny_features()


@pytest.fixture
def service(tmp_path) -> Service:
    """A service on the interpreter that keeps the model m."""
    return make_service(tmp_path / "data")


@pytest.fixture
def http(service) -> Iterator[httpx.Client]:
    """A client of that service."""
    with asking(application(service)) as client:
        yield client

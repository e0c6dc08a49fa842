"""A service with pages, once for tests that leave it as it is."""

import httpx
import pytest
from tests.service._serving import make_service, serving

from hetune.service.server.app import application

from ._world import LIMITS, world


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The service with something on every page, and its pages by name."""
    return world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def pages(made):
    """Paths of pages by name."""
    return made[1]


@pytest.fixture(scope="session")
def registry(made):
    """A model registry with a candidate, to be copied."""
    return made[0].folder.root / "registry"


@pytest.fixture(scope="session")
def url(made):
    """Where that service is. No key is needed."""
    with serving(application(made[0], hosts={"127.0.0.1"})) as url:
        yield url


@pytest.fixture
def http(url):
    """A client that sends what forms of these pages would."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60, headers={"Origin": url}) as client:
        yield client


@pytest.fixture
def service(tmp_path):
    """A service of the test's own that keeps the model m."""
    return make_service(tmp_path / "data", limits=LIMITS)


@pytest.fixture
def own(service):
    """A client of it."""
    with (
        serving(application(service)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60, headers={"Origin": url}) as client,
    ):
        yield client

"""Work that is leased over HTTP keeps the promises of work that the database lends."""

from contextlib import contextmanager

import pytest
from tests.profiling._jobs_suite import JobsConformance

from ._lending import lending_over_http


class OverHttp(JobsConformance):
    trains = False  # a worker on another machine has neither measurements nor the model registry

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory):
        self.folders = tmp_path_factory

    @contextmanager
    def lending(self):
        with lending_over_http(self.folders.mktemp("service")) as lend:
            yield lend


class TestSqlite(OverHttp):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.mark.postgresql
class TestPostgresql(OverHttp):
    @pytest.fixture
    def url(self, postgresql_url):
        return postgresql_url

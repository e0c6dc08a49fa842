"""Every database keeps the same promises about jobs."""

import pytest

from ._jobs_suite import JobsConformance


class TestSqlite(JobsConformance):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.mark.postgresql
class TestPostgresql(JobsConformance):
    @pytest.fixture
    def url(self, postgresql_url):
        return postgresql_url
